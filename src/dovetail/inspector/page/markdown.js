// Markdown as DOM nodes: headings, lists, quotes, code, tables, emphasis, links. Other syntax stays text.
import { h, link } from "./dom.js";

// All patterns are bounded: text that almost matches must not block the page.
const INLINE = /(?<!`)(`{1,9})(?!`)([^`]|[^`][^]{0,2000}?[^`])\1(?!`)|\*\*([^*\n]{1,2000})\*\*|__([^_\n]{1,2000})__|\*([^*\s][^*\n]{0,2000})\*|\b_([^_\s][^_\n]{0,2000})_\b|~~([^~\n]{1,2000})~~|!\[([^\]\n]{0,500})\]\(([^)\s]{1,1000})(?:\s[^)\n]{0,500})?\)|\[([^\]\n]{1,500})\]\(([^)\s]{1,1000})(?:\s[^)\n]{0,500})?\)|(https?:\/\/[^\s<>()]{1,2000}[^\s<>().,;:!?'"])/g;
const LONGEST = 100000;
const LINES = 5000;

function inline(text, depth = 4) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    const more = (part) => (depth > 0 ? inline(part, depth - 1) : [part]);
    if (match[1]) found.push(h("code", {}, match[2]));
    else if (match[3] ?? match[4]) found.push(h("strong", {}, ...more(match[3] ?? match[4])));
    else if (match[5] ?? match[6]) found.push(h("em", {}, ...more(match[5] ?? match[6])));
    else if (match[7]) found.push(h("del", {}, ...more(match[7])));
    else if (match[9]) found.push(link(`🖼 ${match[8] || match[9]}`, match[9])); // remote images are not loaded
    else if (match[11]) found.push(link(match[10], match[11]));
    else found.push(link(match[12], match[12]));
  }
  found.push(text.slice(end));
  return found;
}

export function looksLikeMarkdown(text) {
  return /^#{1,6} |^\s*[-*] \S|^\d+\. |\*\*\S|```|\[[^\]\n]+\]\([^)]+\)|^\|.+\|$|^> /m.test(text.slice(0, 20000));
}

export function markdown(text) {
  const lines = text.slice(0, LONGEST).split("\n", LINES);
  const root = h("div", { class: "markdown" });
  for (let at = 0; at < lines.length;) at = block(root, lines, at);
  return root;
}

function block(root, lines, at) {
  const line = lines[at];
  const fence = line.match(/^\s*(```+|~~~+)\s*([\w+-]*)/);
  if (fence) return code(root, lines, at, fence[1]);
  const heading = line.match(/^(#{1,6})\s+(.*)$/);
  if (heading) {
    root.append(h(`h${Math.min(6, heading[1].length + 2)}`, {}, ...inline(heading[2])));
    return at + 1;
  }
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
    root.append(h("hr"));
    return at + 1;
  }
  if (/^\s*>/.test(line)) return quote(root, lines, at);
  if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) return list(root, lines, at);
  if (line.includes("|") && isRule(lines[at + 1] ?? "")) return table(root, lines, at);
  if (!line.trim()) return at + 1;
  const words = [];
  while (at < lines.length && lines[at].trim() && !/^(#{1,6}\s|\s*>|\s*```|\s*([-*+]|\d+[.)])\s+)/.test(lines[at])) words.push(lines[at++]);
  if (!words.length) words.push(lines[at++]);
  root.append(h("p", {}, ...inline(words.join("\n"))));
  return at;
}

// The line below the header row of a table.
function isRule(line) {
  return line.length < 2000 && /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/.test(line.trim());
}

function code(root, lines, at, fence) {
  const body = [];
  at += 1;
  while (at < lines.length && !lines[at].trim().startsWith(fence)) body.push(lines[at++]);
  root.append(h("pre", { class: "code", tabindex: "0" }, h("code", {}, body.join("\n"))));
  return at + 1;
}

function quote(root, lines, at) {
  const inside = [];
  while (at < lines.length && /^\s*>/.test(lines[at])) inside.push(lines[at++].replace(/^\s*> ?/, ""));
  const made = h("blockquote");
  made.append(h("p", {}, ...inline(inside.join("\n"))));
  root.append(made);
  return at;
}

function list(root, lines, at) {
  const ordered = /^\s*\d/.test(lines[at]);
  const made = h(ordered ? "ol" : "ul");
  while (at < lines.length) {
    const item = lines[at].match(/^(\s*)([-*+]|\d+[.)])\s+(.*)$/);
    if (!item) break;
    const words = [item[3]];
    at += 1;
    while (at < lines.length && /^\s{2,}\S/.test(lines[at]) && !/^\s*([-*+]|\d+[.)])\s+/.test(lines[at])) words.push(lines[at++].trim());
    made.append(h("li", { style: { marginInlineStart: `${Math.min(item[1].length, 12) * 6}px` } }, ...inline(words.join("\n"))));
  }
  root.append(made);
  return at;
}

function table(root, lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const head = h("tr", {}, ...cells(lines[at]).map((cell) => h("th", { scope: "col" }, ...inline(cell))));
  const body = h("tbody");
  for (at += 2; at < lines.length && lines[at].includes("|"); at += 1) {
    body.append(h("tr", {}, ...cells(lines[at]).map((cell) => h("td", {}, ...inline(cell)))));
  }
  root.append(h("div", { class: "scroll-x" }, h("table", {}, h("thead", {}, head), body)));
  return at;
}
