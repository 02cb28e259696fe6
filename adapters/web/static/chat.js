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

  const showButtons = (item, buttons) => {
    let row = item.querySelector(".buttons");
    if (!buttons.length) { if (row) row.remove(); return; }
    if (!row) { row = document.createElement("div"); row.className = "buttons"; item.append(row); }
    row.replaceChildren(...buttons.map(({ label, payload }) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.dataset.payload = payload;
      return button;
    }));
  };

  const show = ({ id, by_person: byPerson, body, buttons }) => followed(() => {
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
    showButtons(item, buttons);
  });

  const setTyping = (on) => followed(() => {
    $("typing").hidden = !on;
    $("stop").hidden = !on;
    if (on) $("empty").hidden = true;
    else document.dispatchEvent(new Event("chat-answered"));
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

  let chosen = [];
  const showChosen = () => {
    $("chosen").hidden = !chosen.length;
    $("chosen").replaceChildren(...chosen.map((one) => {
      const item = document.createElement("li");
      const name = document.createElement("span");
      name.textContent = one.file.name;
      const drop = document.createElement("button");
      drop.type = "button";
      drop.textContent = "×";
      drop.setAttribute("aria-label", `Leave out ${one.file.name}`);
      drop.addEventListener("click", () => { chosen = chosen.filter((other) => other !== one); showChosen(); });
      item.append(name, drop);
      return item;
    }));
    grow();
  };
  const choose = (files) => {
    chosen = [...chosen, ...Array.from(files, (file) => ({ file, id: "" }))].slice(0, 10);
    showChosen();
  };
  // Sends the files ahead of their message; returns what went wrong, or nothing.
  const upload = async () => {
    for (const one of chosen) {
      if (one.id) continue;
      const type = one.file.type || "application/octet-stream";
      let answer;
      try {
        answer = await fetch(`/c/${thread}/files?name=${encodeURIComponent(one.file.name || "picture")}`, {
          method: "POST", headers: { "Content-Type": type }, body: one.file,
        });
      } catch { return "Not sent: Trunkline can’t be reached. Your text is still here."; }
      const said = await answer.json().catch(() => ({}));
      if (!answer.ok) return said.error || `Not sent: ${one.file.name} was not taken.`;
      one.id = said.id;
    }
    return "";
  };

  let pending = null;
  const grow = () => {
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
    $("send").disabled = !text.value.trim() && !chosen.length;
  };
  const send = async () => {
    const typed = text.value;
    const sent = chosen;
    if ((!typed.trim() && !sent.length) || (pending && pending.busy)) return;
    if (!pending || pending.text !== typed || pending.sent !== sent) pending = { id: newId(), text: typed, sent };
    pending.busy = true;
    fail("");
    $("send").disabled = true;
    let problem = await upload();
    if (!problem) {
      problem = await post({ id: pending.id, text: typed, files: sent.map((one) => one.id) });
      if (problem) for (const one of sent) one.id = "";
    }
    pending.busy = false;
    if (problem) { fail(problem); grow(); return; }
    pending = null;
    chosen = chosen.filter((one) => !sent.includes(one));
    showChosen();
    if (text.value === typed) text.value = "";
    document.dispatchEvent(new Event("chat-sent"));
    grow();
    toEnd();
  };

  text.addEventListener("input", grow);
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  $("attach").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => { choose($("file").files); $("file").value = ""; });
  text.addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    choose(event.clipboardData.files);
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); choose(event.dataTransfer.files); });
  $("form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  $("stop").addEventListener("click", async () => fail(await post({ id: newId(), kind: "stop" })));
  $("down").addEventListener("click", () => { toEnd(); text.focus(); });
  scroll.addEventListener("scroll", () => { $("down").hidden = nearEnd(); }, { passive: true });
  list.addEventListener("click", async (event) => {
    const pressed = event.target.closest(".buttons button");
    if (pressed) {
      const under = pressed.closest("li").id.slice(2);
      pressed.disabled = true;
      const problem = await post({ id: newId(), kind: "press", text: pressed.dataset.payload, under });
      fail(problem && "That button could not be pressed: Trunkline can’t be reached.");
      pressed.disabled = false;
      return;
    }
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
