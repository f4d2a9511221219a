// Build the page from DOM nodes. No module turns text into markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  add(element, children);
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// The same for parts that are drawn again while in use: the focus stays on its control.
export function refill(element, ...children) {
  const controls = () => [...element.querySelectorAll("a, button, input, select, textarea")];
  const at = controls().indexOf(document.activeElement);
  fill(element, ...children);
  if (at >= 0) controls()[at]?.focus();
}

const PATHS = {
  tools: "M14 6a4 4 0 0 0-5.2 5.2L3 17l4 4 5.8-5.8A4 4 0 0 0 18 10l-2.5 2.5-3-3z",
  resources: "M6 3h8l5 5v13H6z M14 3v5h5",
  prompts: "M4 5h16v11H9l-5 4z",
  requests: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2 M12 17.5v.5 M12 21a9 9 0 1 1 0-18 9 9 0 0 1 0 18z",
  tasks: "M4 6h10 M4 12h16 M4 18h7",
  logs: "M5 4h14v16H5z M8 8h8 M8 12h8 M8 16h5",
  messages: "M3 8h14l-3-3 M21 16H7l3 3",
  revisions: "M5 4v16 M10 4v16 M15 4v16 M20 4v16",
  health: "M3 12h4l3-7 4 14 3-7h4",
  sessions: "M5 4h11l3 3v13H5z M8 4v5h7V4 M8 20v-6h8v6",
  plus: "M12 5v14 M5 12h14",
  close: "M6 6l12 12 M18 6L6 18",
  theme: "M12 3a9 9 0 1 0 0 18z M12 3a9 9 0 0 1 0 18",
  pin: "M9 4h6l-1 6 3 3H7l3-3z M12 13v7",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" },
    svg("path", { d: PATHS[name] ?? "", fill: "none", stroke: "currentColor", "stroke-width": "1.7", "stroke-linecap": "round", "stroke-linejoin": "round" }));
}

export function button(label, onclick, props = {}) {
  return h("button", { type: "button", ...props, onclick }, label);
}

// The URLs that a link of a server can have: none that runs a script.
export function safeUrl(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function link(text, target) {
  const url = safeUrl(target);
  if (!url) return h("span", { class: "dead-link", title: `not followed: ${target}` }, text);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, text);
}

let numbers = 0;
export function unique(prefix) {
  numbers += 1;
  return `${prefix}-${numbers}`;
}

// A group of buttons with one selected; arrow keys move between them.
export function tabs(label, entries, chosen, pick) {
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const made = entries.map(([id, text]) => {
    const tab = button(text, () => choose(id), { role: "tab", "data-tab": id, tabindex: "-1" });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const at = (entries.findIndex(([one]) => one === id) + step + entries.length) % entries.length;
      choose(entries[at][0]);
      made[at].focus();
    });
    return tab;
  });
  function choose(id, quiet) {
    for (const tab of made) {
      const on = tab.dataset.tab === id;
      tab.setAttribute("aria-selected", on);
      tab.tabIndex = on ? 0 : -1;
    }
    if (!quiet) pick(id);
  }
  list.append(...made);
  choose(chosen, true);
  list.choose = choose;
  return list;
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

export function clock(ms) {
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function say(text) {
  document.getElementById("said").textContent = text;
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, text), ...more);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied");
}

export function save(name, data, type = "application/json") {
  const url = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type }));
  const anchor = h("a", { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function dialog(title, ...children) {
  const id = unique("dialog");
  const box = h("dialog", { class: "dialog", "aria-labelledby": id },
    h("div", { class: "dialog-head" }, h("h2", { id, tabindex: "-1" }, title),
      button(icon("close"), () => box.close(), { class: "quiet square", "aria-label": "Close" })), ...children);
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}
