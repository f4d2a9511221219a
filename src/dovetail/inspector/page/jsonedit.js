// A JSON editor: a text area over its highlighted text, with the problems of the value below.
import { fill, h, unique } from "./dom.js";
import { check } from "./validate.js";

const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
const HIGHLIGHTED = 50000;
const SHOWN = 3;

// The text with a span for each token. Larger texts stay plain: the page must not slow down.
export function highlighted(text) {
  if (text.length > HIGHLIGHTED) return [text];
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const [whole, string, colon, number] = match;
    if (string && colon) parts.push(h("span", { class: "key" }, string), colon);
    else parts.push(h("span", { class: string ? "string" : number ? "number" : "literal" }, whole));
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}

// Where JSON ends to be valid, as line and column: not every browser says it.
function placeOf(text) {
  const tokens = /\s+|"(?:[^"\\\u0000-\u001f]|\\["\\/bfnrtu])*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b|[{}[\],:]/y;
  const open = [];
  let at = 0;
  let wants = "value"; // what may come next: value, key, colon, next (a comma or an end), or nothing
  for (let match; at < text.length && (tokens.lastIndex = at, match = tokens.exec(text)); at = tokens.lastIndex) {
    const [token] = match;
    if (/^\s/.test(token)) continue;
    const end = token === "}" || token === "]";
    if (end) {
      if (open.pop() !== (token === "}" ? "{" : "[") || !["next", "first", "firstKey"].includes(wants)) break;
      wants = open.length ? "next" : "nothing";
    } else if (token === ",") {
      if (wants !== "next") break;
      wants = open.at(-1) === "{" ? "key" : "value";
    } else if (token === ":") {
      if (wants !== "colon") break;
      wants = "value";
    } else if (wants === "key" || wants === "firstKey") {
      if (token[0] !== '"') break;
      wants = "colon";
    } else {
      if (wants !== "value" && wants !== "first") break;
      if (token === "{" || token === "[") {
        open.push(token);
        wants = token === "{" ? "firstKey" : "first";
      } else wants = open.length ? "next" : "nothing";
    }
  }
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${before.at(-1).length + 1}`;
}

export function jsonEditor(label, schema, changed) {
  const id = unique("json");
  const area = h("textarea", { id, class: "mono", rows: 6, spellcheck: "false", autocapitalize: "off", "aria-describedby": `${id}-said` });
  const behind = h("pre", { class: "highlight", "aria-hidden": "true" });
  const said = h("ul", { class: "problems", id: `${id}-said`, role: "status" });
  let broken = null;

  function paint() {
    fill(behind, ...highlighted(area.value), "\n");
    behind.scrollTop = area.scrollTop;
    behind.scrollLeft = area.scrollLeft;
  }

  function judge(value) {
    const found = value === undefined ? [] : check(schema, value);
    fill(said, ...found.slice(0, SHOWN).map(([path, message]) => h("li", {}, `${path.slice(1).replaceAll("/", ".") || "the value"} ${message}`)));
    area.setAttribute("aria-invalid", String(found.length > 0));
    return found;
  }

  area.addEventListener("input", () => {
    paint();
    let value;
    try {
      value = JSON.parse(area.value || "{}");
      broken = null;
    } catch {
      broken = `not JSON from ${placeOf(area.value)}`;
      fill(said, h("li", {}, broken));
      area.setAttribute("aria-invalid", "true");
      return;
    }
    judge(value);
    changed(value);
  });
  area.addEventListener("scroll", paint, { passive: true });
  const element = h("div", { class: "editor-json" }, h("label", { for: id }, label), h("div", { class: "code-edit" }, behind, area), said);
  return {
    element,
    broken: () => broken,
    problems: (value) => judge(value),
    set(value, quiet) {
      broken = null;
      area.value = JSON.stringify(value, null, 2);
      area.rows = Math.min(16, Math.max(4, area.value.split("\n").length));
      paint();
      if (quiet) fill(said);
      else judge(value);
      area.setAttribute("aria-invalid", "false");
    },
  };
}
