// Show results by their type.
import { whole } from "./api.js";
import { bars } from "./charts.js";
import { button, bytes, empty, h, link, save, tabs } from "./dom.js";
import { looksLikeMarkdown, markdown } from "./markdown.js";
import { tree } from "./tree.js";

const PICTURES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;
const SOUNDS = /^audio\/[\w.+-]+$/;
const ROWS = 200;

function base64(text) {
  return typeof text === "string" && /^[A-Za-z0-9+/=\s_-]*$/.test(text) ? text : "";
}

function chosen(label, entries, first) {
  const place = h("div", { class: "shown" });
  const show = (id) => place.replaceChildren(entries.find(([one]) => one === id)[2]());
  const bar = tabs(label, entries.map(([id, text]) => [id, text]), first, show);
  show(first);
  return h("div", {}, entries.length > 1 ? bar : null, place);
}

function parsed(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 2e6) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function plain(text) {
  return h("pre", { class: "text", tabindex: "0" }, text);
}

// The ways to show a text, the best one first.
function waysOfText(text) {
  const value = parsed(text);
  const entries = [["text", "Text", () => plain(text)]];
  if (value !== undefined && typeof value === "object") entries.unshift(...waysOfValue(value));
  if (looksLikeMarkdown(text)) entries.unshift(["markdown", "Markdown", () => markdown(text)]);
  return entries;
}

// A list of objects is a table first.
function waysOfValue(value) {
  const entries = [["tree", "Tree", () => tree(value)]];
  const rows = rowsOf(value);
  const numbers = numbersOf(value);
  if (numbers) entries.unshift(["chart", "Chart", () => bars(numbers[0], numbers[1])]);
  if (rows) entries.unshift(["table", "Table", () => h("div", { class: "parts" }, around(value), table(rows))]);
  return !rows && numbers ? entries.reverse() : entries;
}

export function textBlock(text) {
  const entries = waysOfText(text);
  return chosen("Show the text as", entries, entries[0][0]);
}

function medium(type, data) {
  if (PICTURES.test(type)) return h("img", { class: "picture", alt: `a picture of the server's (${type})`, src: `data:${type};base64,${base64(data)}` });
  if (SOUNDS.test(type)) return h("audio", { controls: true, src: `data:${type};base64,${base64(data)}` });
  return h("p", { class: "note" }, `${type || "unknown type"}, ${bytes(Math.floor(data.length * 0.75))} `,
    button("Save", () => save("data.bin", new Blob([Uint8Array.from(atob(base64(data)), (one) => one.charCodeAt(0))])), { class: "small" }));
}

export function contents(entry, actions = {}) {
  const head = h("div", { class: "block-head" }, h("code", {}, entry.uri ?? ""), h("span", { class: "type" }, entry.mimeType ?? ""));
  const body = entry.blob !== undefined ? medium(entry.mimeType ?? "", entry.blob) : textBlock(entry.text ?? "");
  return h("div", { class: "block" }, head, body, appOf(entry, actions));
}

export function block(one, actions = {}) {
  if (one === null || typeof one !== "object") return tree(one);
  switch (one.type) {
    case "text": return h("div", { class: "block" }, textBlock(String(one.text ?? "")));
    case "image": case "audio": return h("div", { class: "block" }, medium(String(one.mimeType ?? ""), String(one.data ?? "")));
    case "resource": return contents(one.resource ?? {}, actions);
    case "resource_link": return h("div", { class: "block card" }, h("strong", {}, one.title ?? one.name ?? one.uri), " ", link(String(one.uri), String(one.uri)),
      one.description ? h("p", { class: "note" }, one.description) : null,
      actions.read ? button("Read", () => actions.read(one.uri), { class: "small" }) : null);
    default: return h("div", { class: "block" }, tree(one));
  }
}

function rowsOf(value) {
  let found = value;
  if (found && typeof found === "object" && !Array.isArray(found)) {
    const lists = Object.values(found).filter(Array.isArray);
    if (lists.length !== 1) return null;
    [found] = lists;
  }
  if (!Array.isArray(found) || !found.length) return null;
  return found.every((one) => one && typeof one === "object" && !Array.isArray(one)) ? found : null;
}

// The members next to the list that the table shows.
function around(value) {
  const others = Array.isArray(value) ? [] : Object.entries(value).filter(([, one]) => !Array.isArray(one));
  return others.length ? h("dl", { class: "around" }, ...others.slice(0, 20).map(([name, one]) => h("div", {}, h("dt", {}, name), h("dd", {}, (typeof one === "object" ? JSON.stringify(one) : String(one)).slice(0, 300))))) : null;
}

function table(rows) {
  const names = [...new Set(rows.slice(0, ROWS).flatMap((row) => Object.keys(row)))].slice(0, 30);
  const cell = (value) => (value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  const body = rows.slice(0, ROWS).map((row) => h("tr", {}, ...names.map((name) => h("td", { class: typeof row[name] === "number" ? "number" : "" }, cell(row[name]).slice(0, 300)))));
  return h("div", { class: "scroll-x", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...body)),
    rows.length > ROWS ? h("p", { class: "note" }, `${rows.length - ROWS} rows more`) : null);
}

function numbersOf(value) {
  const rows = rowsOf(value);
  if (rows) {
    const names = Object.keys(rows[0]);
    const numeric = names.find((name) => rows.every((row) => typeof row[name] === "number") && !/^(id|year)$/i.test(name)) ?? names.find((name) => rows.every((row) => typeof row[name] === "number"));
    const label = names.find((name) => typeof rows[0][name] === "string") ?? names.find((name) => name !== numeric);
    return numeric ? [numeric, rows.slice(0, 60).map((row, index) => [label ? String(row[label]) : String(index + 1), row[numeric]])] : null;
  }
  const list = Array.isArray(value) ? value : value && typeof value === "object" ? Object.values(value).find(Array.isArray) : null;
  if (Array.isArray(list) && list.length > 1 && list.every((one) => typeof one === "number")) return ["values", list.slice(0, 200).map((one, index) => [String(index + 1), one])];
  if (value && typeof value === "object" && !Array.isArray(value)) {
    const entries = Object.entries(value);
    if (entries.length > 1 && entries.every(([, one]) => typeof one === "number")) return ["values", entries.slice(0, 60)];
  }
  return null;
}

function cutNote(call) {
  if (!call.cut?.length) return null;
  const most = call.cut.reduce((one, other) => (one.size > other.size ? one : other));
  return h("p", { class: "notice" }, `Too large to show in full: ${call.cut.length === 1 ? "one part" : `${call.cut.length} parts`} truncated (the largest has ${most.size.toLocaleString("en")}). `,
    button(`Save the full result (${bytes(call.size)})`, async () => save(`result-${call.id}.json`, await whole("call", { id: call.id, whole: 1 })), { class: "small" }));
}

export function problem(error) {
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, error.kind ?? "failed"), error.code !== undefined ? h("code", {}, ` ${error.code}`) : null, h("p", {}, error.message),
    error.data !== null && error.data !== undefined ? tree(error.data) : null);
}

// One content block or resource among several: without tabs of its own.
function part(one, actions, resource) {
  const entry = resource ? one : one?.type === "resource" ? one.resource ?? {} : null;
  if (entry && entry.blob === undefined) return h("div", { class: "block" }, h("div", { class: "block-head" }, h("code", {}, entry.uri ?? ""), h("span", { class: "type" }, entry.mimeType ?? "")), waysOfText(entry.text ?? "")[0][2](), appOf(entry, actions));
  if (one?.type === "text") return h("div", { class: "block" }, waysOfText(String(one.text ?? ""))[0][2]());
  return resource ? contents(one, actions) : block(one, actions);
}

function appOf(entry, actions) {
  const app = actions.app && /^text\/html/.test(entry.mimeType ?? "") && String(entry.uri).startsWith("ui://");
  return app ? button("Open as an app", () => actions.app(entry), { class: "small" }) : null;
}

// The result of a call, with one row of tabs.
export function result(call, actions = {}) {
  if (call.error) return problem(call.error);
  if (call.state === "cancelled") return h("p", { class: "notice" }, "Cancelled.");
  const value = call.result ?? {};
  const resource = call.method === "resources/read";
  const parts = (call.method === "tools/call" ? value.content : resource ? value.contents : null) ?? [];
  const given = value.structuredContent;
  const data = given !== null && typeof given === "object" ? given : undefined;
  const single = parts.length === 1 ? parts[0] : null;
  const text = single && (resource ? single.blob === undefined : single.type === "text") ? String(single.text ?? "") : null;
  const wrap = (...children) => h("div", { class: call.failed ? "failed" : "" }, cutNote(call), ...children);
  const entries = [];
  if (data !== undefined) entries.push(...waysOfValue(data));
  if (text !== null) {
    const known = new Set(entries.map(([id]) => id));
    entries.push(...waysOfText(text).filter(([id]) => !known.has(id)));
  } else if (parts.length) {
    // Pictures, sounds and links come before the data they belong to.
    entries.unshift(["content", "Content", () => h("div", { class: "parts" }, ...parts.map((one) => part(one, actions, resource)))]);
  } else if (call.method === "prompts/get") {
    entries.push(["content", "Messages", () => h("div", { class: "parts" }, ...(value.messages ?? []).map((one) => h("div", { class: `message ${one.role === "user" ? "user" : "assistant"}` }, h("span", { class: "role" }, one.role), part(one.content, actions))))]);
  } else if (!entries.length) entries.push(["content", "Result", () => (given === undefined || given === null ? empty("Nothing", "The result has no content.") : plain(String(given)))]);
  entries.push(["raw", "JSON", () => tree(value)]);
  const head = resource && single ? h("div", { class: "block-head" }, h("code", {}, single.uri ?? ""), h("span", { class: "type" }, single.mimeType ?? ""), appOf(single, actions)) : null;
  return h("div", {}, head, chosen("Result", entries.map(([id, name, draw]) => [id, name, () => wrap(draw())]), entries[0][0]));
}
