import { post } from "../api.js";
import { button, duration, empty, fill, h } from "../dom.js";
import { problem } from "../result.js";
import { current, lists, on, store } from "../store.js";
import { differences, tree } from "../tree.js";
import { editor } from "./tools.js";

const WAYS = [["tools/call", "call the tool"], ["resources/read", "read the resource"], ["prompts/get", "get the prompt"]];

function column(found, newest) {
  const same = found.result !== undefined && newest?.result !== undefined;
  const marks = same && found !== newest ? differences(newest.result, found.result) : new Map();
  const says = found.error ? "failed" : found === newest ? "the newest" : marks.size ? `${marks.size} differences` : same ? "the same" : "";
  return h("article", { class: "card revision", "data-revision": found.revision },
    h("div", { class: "block-head" }, h("h2", {}, found.revision), h("span", { class: `chip ${found.error ? "bad" : marks.size ? "warn" : "good"}` }, says)),
    h("p", { class: "type" }, found.ms === undefined ? "" : `connected in ${duration(found.connect)}, answered in ${duration(found.ms)}`),
    found.error ? problem(found.error) : tree(found.result, `result of ${found.revision}`, marks),
    ...[...marks].filter(([, kind]) => kind === "removed").slice(0, 20).map(([path]) => h("p", { class: "note removed" }, `not here: ${path}`)));
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
    const params = way.value === "resources/read" ? { uri: entry.uri } : { name: entry.name, arguments: input.value() };
    run.disabled = true;
    fill(shown, h("p", { class: "note", role: "status" }, "Calling with all revisions …"));
    try {
      const { revisions } = await post("compare", { connection: store.current, method: way.value, params });
      const newest = [...revisions].reverse().find((one) => !one.error);
      fill(shown, ...revisions.map((one) => column(one, newest)));
    } catch (error) {
      fill(shown, problem(error.details ?? { message: error.message }));
    }
    run.disabled = false;
  }

  way.addEventListener("change", fillIn);
  subject.addEventListener("change", choose);
  const offs = [on("current", load), on("state", load), on("connection", (connection) => connection?.id === store.current && connection.state === "ready" && load())];
  fill(shown, empty("Compare revisions", "The same call on one connection per protocol revision; differences from the newest are marked."));
  load();
  return { element: h("div", { class: "column" }, h("div", { class: "actions" }, way, subject, run), place, shown), destroy: () => offs.forEach((off) => off()) };
}
