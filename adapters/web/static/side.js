"use strict";
// The list of conversations kept up to date, renamed and deleted; the menu of commands; copies of answers.
(() => {
  const $ = (id) => document.getElementById(id);
  const { thread } = document.body.dataset;
  const list = document.querySelector("#side ul");
  const text = $("text");

  const refresh = async () => {
    if (list.querySelector("input")) return;
    const answer = await fetch(`/conversations?at=${encodeURIComponent(thread)}`).catch(() => null);
    if (answer && answer.ok && !list.querySelector("input")) list.innerHTML = await answer.text();
  };
  document.addEventListener("chat-sent", refresh);
  // A title is made after the answer, by a model of its own.
  document.addEventListener("chat-answered", () => { refresh(); setTimeout(refresh, 4000); });

  const ask = async (path, content) => {
    const answer = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
    }).catch(() => null);
    if (answer && answer.ok) return "";
    const said = answer ? await answer.json().catch(() => ({})) : {};
    return said.error || "That did not work: Trunkline can’t be reached.";
  };
  const fail = (sentence) => { $("error").textContent = sentence; $("error").hidden = !sentence; };

  const rename = (item) => {
    const link = item.querySelector("a");
    const input = document.createElement("input");
    input.value = link.textContent;
    input.maxLength = 200;
    input.setAttribute("aria-label", "New title");
    let ended = false;
    const end = async (keep) => {
      if (ended) return;
      ended = true;
      const title = input.value.trim();
      input.replaceWith(link);
      if (keep && title && title !== link.textContent) fail(await ask(`/c/${item.dataset.thread}/title`, { title }));
      refresh();
    };
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") { event.stopPropagation(); end(false); }
    });
    input.addEventListener("blur", () => end(true));
    link.replaceWith(input);
    input.select();
  };

  const remove = (item) => {
    const sure = $("sure");
    $("sure-title").textContent = item.querySelector("a").textContent;
    sure.returnValue = "";
    sure.onclose = async () => {
      if (sure.returnValue !== "delete") return;
      const problem = await ask(`/c/${item.dataset.thread}/delete`, {});
      fail(problem);
      if (!problem && item.dataset.thread === thread) location.assign("/new");
      else refresh();
    };
    sure.showModal();
  };

  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) (button.className === "rename" ? rename : remove)(button.closest("li"));
  });

  // The menu of commands.
  const menu = $("commands");
  const all = Array.from(menu.children);
  let chosen = 0;
  const shown = () => all.filter((one) => !one.hidden);
  const mark = () => shown().forEach((one, place) => {
    one.setAttribute("aria-selected", String(place === chosen));
    if (place === chosen) { text.setAttribute("aria-activedescendant", one.id); one.scrollIntoView({ block: "nearest" }); }
  });
  const close = () => {
    menu.hidden = true;
    text.removeAttribute("aria-activedescendant");
    text.setAttribute("aria-expanded", "false");
  };
  const open = () => {
    const typed = /^\/([a-z0-9_-]*)$/i.exec(text.value);
    for (const one of all) one.hidden = !typed || !one.dataset.name.startsWith(typed[1].toLowerCase());
    if (!shown().length) { close(); return; }
    chosen = 0;
    menu.hidden = false;
    text.setAttribute("aria-expanded", "true");
    mark();
  };
  const take = (item) => {
    text.value = `/${item.dataset.name}${item.dataset.argument ? " " : ""}`;
    close();
    text.focus();
    text.dispatchEvent(new Event("input"));
    close();
  };
  text.addEventListener("input", open);
  text.addEventListener("blur", close);
  menu.addEventListener("mousedown", (event) => {
    event.preventDefault();
    const item = event.target.closest("li");
    if (item) take(item);
  });
  // Before the message box itself hears of the key.
  document.addEventListener("keydown", (event) => {
    if (menu.hidden || event.target !== text || event.isComposing) return;
    const items = shown();
    const whole = text.value.toLowerCase() === `/${items[chosen].dataset.name}`;
    if (event.key === "ArrowDown") chosen = (chosen + 1) % items.length;
    else if (event.key === "ArrowUp") chosen = (chosen + items.length - 1) % items.length;
    else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !whole)) take(items[chosen]);
    else if (event.key === "Escape") close();
    else { if (event.key === "Enter") close(); return; }
    event.preventDefault();
    event.stopPropagation();
    if (!menu.hidden) mark();
  }, true);

  // A button under each answer that copies its text.
  const messages = $("messages");
  const addCopy = (item) => {
    if (!item.matches || !item.matches("li.answer") || item.querySelector(":scope > .copy")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.setAttribute("aria-label", "Copy answer");
    item.append(button);
  };
  Array.from(messages.children).forEach(addCopy);
  new MutationObserver((changes) => changes.forEach((one) => one.addedNodes.forEach(addCopy)))
    .observe(messages, { childList: true });
  messages.addEventListener("click", async (event) => {
    const button = event.target.closest("li.answer > .copy");
    if (!button) return;
    const copy = button.closest("li").querySelector(".body").cloneNode(true);
    for (const caption of copy.querySelectorAll(".code figcaption")) caption.remove();
    const aside = document.createElement("div");
    aside.className = "hidden";
    aside.append(copy);
    document.body.append(aside);
    const said = copy.innerText;
    aside.remove();
    await navigator.clipboard.writeText(said.trim());
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  });
})();
