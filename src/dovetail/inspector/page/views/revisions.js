import { post } from "../api.js";
import { button, duration, empty, fill, h } from "../dom.js";
import { problem } from "../result.js";
import { current, lists, on, store } from "../store.js";
import { differences, tree } from "../tree.js";
import { editor } from "./tools.js";

const WAYS = [["tools/call", "call the tool"], ["resources/read", "read the resource"], ["prompts/get", "get the prompt"]];

const at = (value, path) => path.split("/").slice(1).reduce((found, key) => (found === undefined || found === null ? undefined : found[key]), value);

function cell(value) {
  if (value === undefined) return h("span", { class: "note" }, "not sent");
  const text = JSON.stringify(value);
  return h("code", { title: text }, text.length > 60 ? `${text.slice(0, 60)}…` : text);
}

// What differs: a row for each member, a column for each group of revisions with the same result.
function comparison(revisions) {
  const newest = [...revisions].reverse().find((one) => !one.error);
  const groups = [];
  for (const one of revisions) {
    const same = groups.find((group) => !one.error && !group[0].error && !differences(group[0].result, one.result).size);
    if (same) same.push(one);
    else groups.push([one]);
  }
  const paths = newest ? [...new Set(groups.filter(([one]) => !one.error).flatMap(([one]) => [...differences(newest.result, one.result).keys()]))].sort() : [];
  const failures = revisions.filter((one) => one.error);
  const says = failures.length === revisions.length ? "The call failed on every revision." : paths.length ? `${paths.length} ${paths.length === 1 ? "member differs" : "members differ"} between the revisions.` : "The result is the same on all revisions that answered.";
  const heads = groups.map((group) => h("th", { scope: "col", "data-revision": group.map((one) => one.revision).join(" ") }, ...group.map((one) => h("div", {}, one.revision)),
    h("span", { class: `chip ${group[0].error ? "bad" : group.includes(newest) ? "good" : "warn"}` }, group[0].error ? "failed" : group.includes(newest) ? "the newest" : `${differences(newest.result, group[0].result).size} differences`)));
  const rows = paths.map((path) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, path.slice(1).replaceAll("/", ".") || "the result")), ...groups.map(([one]) => h("td", {}, one.error ? null : cell(at(one.result, path))))));
  const times = h("tr", {}, h("th", { scope: "row" }, "answered in"), ...groups.map((group) => h("td", {}, group.map((one) => (one.ms === undefined ? "–" : duration(one.ms))).join(", "))));
  return [h("p", { class: "comparison-words", role: "status" }, says),
    h("div", { class: "scroll-x", tabindex: "0" }, h("table", { class: "comparison" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Member"), ...heads)), h("tbody", {}, ...rows, times))),
    ...failures.map((one) => h("div", { class: "failure", "data-revision": one.revision }, h("h3", {}, one.revision), problem(one.error))),
    ...revisions.filter((one) => !one.error).map((one) => h("details", { class: "whole", "data-revision": one.revision }, h("summary", {}, `Result of ${one.revision}`), tree(one.result, `result of ${one.revision}`)))];
}

export function view() {
  const way = h("select", { "aria-label": "What to do" }, ...WAYS.map(([id, text]) => h("option", { value: id }, text)));
  const subject = h("select", { "aria-label": "Which one" });
  const place = h("div", {});
  const shown = h("div", { class: "revisions" });
  const run = button("Compare", go, { class: "primary" });
  let found = { tools: [], resources: [], prompts: [] };
  let input = null;

  function entries() {
    return { "tools/call": found.tools, "resources/read": found.resources, "prompts/get": found.prompts }[way.value];
  }

  function choose() {
    const entry = entries()[Number(subject.value)];
    input = null;
    if (entry && way.value !== "resources/read") {
      const properties = Object.fromEntries((entry.arguments ?? []).map((one) => [one.name, { type: "string", description: one.description }]));
      const required = (entry.arguments ?? []).filter((one) => one.required).map((one) => one.name);
      input = editor(entry.inputSchema ?? { type: "object", properties, required }, `${way.value} ${entry.name}`);
    }
    fill(place, input?.element);
    run.disabled = !entry;
  }

  function fillIn() {
    fill(subject, ...entries().map((one, index) => h("option", { value: String(index) }, one.title ?? one.name)));
    choose();
  }

  async function load() {
    if (!current()) {
      fill(shown, empty("No server", "Connect to a server first."));
      return;
    }
    try {
      found = await lists(store.current);
      fillIn();
    } catch (error) {
      fill(shown, problem(error.details ?? { message: error.message }));
    }
  }

  async function go() {
    const entry = entries()[Number(subject.value)];
    const wrong = input?.problem();
    if (wrong) {
      fill(shown, h("p", { class: "notice bad", role: "alert" }, `Not sent: ${wrong}.`));
      return;
    }
    const params = way.value === "resources/read" ? { uri: entry.uri } : { name: entry.name, arguments: input.value() };
    run.disabled = true;
    fill(shown, h("p", { class: "note", role: "status" }, "Calling with all revisions …"));
    try {
      const { revisions } = await post("compare", { connection: store.current, method: way.value, params });
      fill(shown, ...comparison(revisions));
      shown.scrollIntoView({ block: "start" });
    } catch (error) {
      fill(shown, problem(error.details ?? { message: error.message }));
    }
    run.disabled = false;
  }

  way.addEventListener("change", fillIn);
  subject.addEventListener("change", choose);
  const offs = [on("current", load), on("state", load), on("connection", (connection) => connection?.id === store.current && connection.state === "ready" && load())];
  fill(shown, empty("Compare revisions", "The same call on one connection per protocol revision; the table has what differs."));
  load();
  return { element: h("div", { class: "column" }, h("div", { class: "actions" }, way, subject, run), place, shown), destroy: () => offs.forEach((off) => off()) };
}
