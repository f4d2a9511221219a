// JSON as a tree whose nodes are built when they are opened.
import { button, h } from "./dom.js";

const PORTION = 100;
const OPEN = 3;

export function tree(value, name, marks) {
  return h("div", { class: "tree", role: "group", "aria-label": name ?? "JSON" }, node(undefined, value, 0, "", marks));
}

function node(key, value, depth, path, marks) {
  const label = key === undefined ? null : h("span", { class: "key" }, typeof key === "number" ? `${key}` : key, h("span", { class: "colon" }, ":"));
  const mark = marks?.get(path);
  if (value === null || typeof value !== "object") {
    return h("div", { class: `leaf ${mark ?? ""}`, "data-path": path }, label, scalar(value));
  }
  const entries = Array.isArray(value) ? value.map((one, index) => [index, one]) : Object.entries(value);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return h("div", { class: `leaf ${mark ?? ""}` }, label, h("span", { class: "punctuation" }, left + right));
  const group = h("div", { class: "children" });
  let built = false;
  const build = () => {
    if (built) return;
    built = true;
    portion(group, entries, 0, depth, path, marks);
  };
  const count = h("span", { class: "count" }, `${left}${entries.length}${right}`);
  const details = h("details", { class: mark ?? "" }, h("summary", {}, label, count), group);
  details.addEventListener("toggle", () => { if (details.open) build(); });
  if (depth < OPEN && entries.length <= PORTION) {
    build();
    details.open = true;
  }
  return details;
}

function portion(group, entries, from, depth, path, marks) {
  const shown = entries.slice(from, from + PORTION);
  group.append(...shown.map(([key, value]) => node(key, value, depth + 1, `${path}/${key}`, marks)));
  const left = entries.length - from - shown.length;
  if (left > 0) {
    const more = button(`${left} more`, () => {
      more.remove();
      portion(group, entries, from + PORTION, depth, path, marks);
    }, { class: "quiet small" });
    group.append(more);
  }
}

function scalar(value) {
  if (typeof value !== "string") return h("span", { class: value === null ? "null" : typeof value }, String(value));
  const long = value.length > 400;
  const text = h("span", { class: "string" }, JSON.stringify(long ? value.slice(0, 400) : value));
  if (!long) return text;
  const more = button(`… ${value.length} characters`, () => {
    text.textContent = JSON.stringify(value);
    more.remove();
  }, { class: "quiet small" });
  return h("span", {}, text, more);
}

// Where two values differ: path → "added", "removed" or "changed", relative to the first.
export function differences(one, other, path = "", found = new Map(), depth = 0) {
  if (depth > 40 || found.size > 2000) return found;
  const plain = (value) => value === null || typeof value !== "object";
  if (plain(one) || plain(other) || Array.isArray(one) !== Array.isArray(other)) {
    if (plain(one) !== plain(other) || (plain(one) ? one !== other : true)) found.set(path, "changed");
    return found;
  }
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    const here = `${path}/${key}`;
    if (!(key in one)) found.set(here, "added");
    else if (!(key in other)) found.set(here, "removed");
    else differences(one[key], other[key], here, found, depth + 1);
  }
  return found;
}
