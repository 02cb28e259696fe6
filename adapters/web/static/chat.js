"use strict";
// Follows one conversation: shows what the server says has changed, and sends what is typed.
(() => {
  const $ = (id) => document.getElementById(id);
  const { thread } = document.body.dataset;
  let place = document.body.dataset.place;
  let source = null;
  let retry = 0;
  const scroll = $("scroll");
  const list = $("messages");
  const text = $("text");

  const nearEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
  const toEnd = () => { scroll.scrollTop = scroll.scrollHeight; };
  const followed = (change) => {
    const follow = nearEnd();
    change();
    if (follow) toEnd();
    $("down").hidden = nearEnd();
  };

  const addCopyButtons = (root) => {
    for (const caption of root.querySelectorAll(".code figcaption")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy code");
      const name = document.createElement("span");
      name.textContent = caption.textContent;
      caption.replaceChildren(name, button);
    }
  };

  const show = ({ id, by_person: byPerson, body }) => followed(() => {
    $("empty").hidden = true;
    let item = $(`m-${id}`);
    if (!item) {
      item = document.createElement("li");
      item.id = `m-${id}`;
      item.className = byPerson ? "person" : "answer";
      const name = document.createElement("h2");
      name.className = "hidden";
      name.textContent = byPerson ? "You" : "Trunkline";
      const content = document.createElement("div");
      content.className = "body";
      content.dir = "auto";
      item.append(name, content);
      list.append(item);
    }
    const content = item.querySelector(".body");
    if (byPerson) content.textContent = body;
    else { content.innerHTML = body; addCopyButtons(content); }
  });

  const setTyping = (on) => followed(() => {
    $("typing").hidden = !on;
    $("stop").hidden = !on;
    if (on) $("empty").hidden = true;
  });
  const fail = (sentence) => { $("error").textContent = sentence; $("error").hidden = !sentence; };

  const connect = () => {
    source = new EventSource(`/c/${thread}/events?after=${encodeURIComponent(place)}`);
    source.onopen = () => { retry = 0; $("lost").hidden = true; };
    source.addEventListener("message", (event) => { place = event.lastEventId; show(JSON.parse(event.data)); });
    source.addEventListener("typing", (event) => { place = event.lastEventId; setTyping(JSON.parse(event.data).on); });
    source.addEventListener("reset", () => {
      source.close();
      sessionStorage.setItem(`draft-${thread}`, text.value);
      location.reload();
    });
    source.onerror = () => {
      $("lost").hidden = false;
      if (source.readyState !== EventSource.CLOSED) return;
      retry = Math.min(retry + 1, 6);
      setTimeout(connect, retry * 1000);
    };
  };

  const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
  const post = async (content) => {
    let answer;
    try {
      answer = await fetch(`/c/${thread}/messages`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
      });
    } catch { return "Not sent: Trunkline can’t be reached. Your text is still here."; }
    if (answer.ok) return "";
    const said = await answer.json().catch(() => ({}));
    return said.error || "Not sent: something went wrong. Your text is still here.";
  };

  let pending = null;
  const grow = () => {
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
    $("send").disabled = !text.value.trim();
  };
  const send = async () => {
    const typed = text.value;
    if (!typed.trim() || (pending && pending.busy)) return;
    if (!pending || pending.text !== typed) pending = { id: newId(), text: typed };
    pending.busy = true;
    fail("");
    $("send").disabled = true;
    const problem = await post({ id: pending.id, text: typed });
    pending.busy = false;
    if (problem) { fail(problem); grow(); return; }
    pending = null;
    if (text.value === typed) text.value = "";
    grow();
    toEnd();
  };

  text.addEventListener("input", grow);
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  $("form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  $("stop").addEventListener("click", async () => fail(await post({ id: newId(), kind: "stop" })));
  $("down").addEventListener("click", () => { toEnd(); text.focus(); });
  scroll.addEventListener("scroll", () => { $("down").hidden = nearEnd(); }, { passive: true });
  list.addEventListener("click", async (event) => {
    const button = event.target.closest(".code button");
    if (!button) return;
    await navigator.clipboard.writeText(button.closest(".code").querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  const setMenu = (open) => {
    $("side").classList.toggle("open", open);
    $("shade").hidden = !open;
    $("menu").setAttribute("aria-expanded", String(open));
    if (open) $("side").querySelector("a").focus();
  };
  $("menu").addEventListener("click", () => setMenu(true));
  $("shade").addEventListener("click", () => setMenu(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && $("side").classList.contains("open")) { setMenu(false); $("menu").focus(); }
  });

  text.value = sessionStorage.getItem(`draft-${thread}`) || text.value;
  sessionStorage.removeItem(`draft-${thread}`);
  addCopyButtons(list);
  grow();
  toEnd();
  if (matchMedia("(hover: hover)").matches) text.focus();
  connect();
})();
