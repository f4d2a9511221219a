import { openApp } from "../appframe.js";
import { h } from "../dom.js";
import { form } from "../form.js";
import { jsonEditor } from "../jsonedit.js";
import { markdown } from "../markdown.js";
import { contents } from "../result.js";
import { current, finished, store } from "../store.js";
import { tree } from "../tree.js";
import { chips, runner, workbench } from "../workbench.js";

const kept = new Map();

export function appOf(tool) {
  return tool._meta?.ui?.resourceUri ?? tool._meta?.["ui/resourceUri"];
}

// The diagnostics of this tool.
function findings(tool) {
  const said = (store.findings.get(store.current) ?? []).filter((one) => one.check === `tool ${tool.name}`);
  return said.map((one) => h("p", { class: `notice ${one.state === "broken" ? "bad" : ""}` }, h("strong", {}, "Diagnostics: "), one.detail, one.advice ? ` (${one.advice})` : ""));
}

function hints(tool) {
  const notes = tool.annotations ?? {};
  return chips(notes.readOnlyHint && "read-only", notes.destructiveHint && !notes.readOnlyHint && "destructive", notes.idempotentHint && "idempotent",
    notes.openWorldHint && "open world", tool.outputSchema && "structured result", appOf(tool) && "app", tool.execution?.taskSupport && tool.execution.taskSupport !== "forbidden" && `task ${tool.execution.taskSupport}`);
}

// A form and its JSON: each follows the other.
export function editor(schema, key) {
  const place = h("div", {});
  let value = kept.get(key);
  let made;
  const json = jsonEditor("Arguments as JSON", schema, (typed) => {
    value = typed;
    kept.set(key, value);
    build(value);
  });
  const build = (initial) => {
    made = form(schema, initial, () => {
      value = made.value();
      kept.set(key, value);
      json.set(value);
    });
    place.replaceChildren(made.element);
  };
  build(value);
  value ??= made.value();
  json.set(value, true);
  const element = h("div", { class: "editor" }, h("div", { class: "editor-form" }, place), json.element);
  // What is wrong, after marking it; null if the value can be sent.
  const problem = () => {
    if (json.broken()) return json.broken();
    const unfilled = made.reveal();
    const found = json.problems(value);
    return unfilled ?? (found.length ? `${found[0][0].slice(1).replaceAll("/", ".") || "the value"} ${found[0][1]}` : null);
  };
  return { element, value: () => value ?? made.value(), problem };
}

function detail(tool) {
  const input = editor(tool.inputSchema, `tool ${tool.name}`);
  const params = () => ({ name: tool.name, arguments: input.value() });
  const read = async (uri) => {
    const call = await finished("resources/read", { uri });
    run.result.append(...(call.result?.contents ?? []).map((one) => contents(one)));
  };
  let app = null;
  const after = async (call, place) => {
    app?.destroy();
    app = null;
    if (appOf(tool) && call.state === "done") {
      app = await openApp(appOf(tool), { tool, call });
      place.prepend(app.element);
    }
  };
  const run = runner({ method: "tools/call", params, tasks: Boolean(current()?.capabilities?.tasks ?? current()?.capabilities?.extensions?.["io.modelcontextprotocol/tasks"]), problems: input.problem, actions: { read }, after });
  input.element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run.send(params());
    }
  });
  const element = h("article", { class: "tool" }, h("h2", {}, tool.title ?? tool.annotations?.title ?? tool.name, tool.title && tool.title !== tool.name ? h("code", { class: "type" }, tool.name) : null), hints(tool),
    ...findings(tool), tool.description ? markdown(tool.description) : h("p", { class: "note" }, "No description."), run.beside(input.element),
    h("details", { class: "definition" }, h("summary", {}, "Definition"), tree(tool)));
  return { element, destroy: () => { run.destroy(); app?.destroy(); } };
}

// What a reader of the list should know before the call.
function mark(tool) {
  const notes = tool.annotations ?? {};
  if (notes.readOnlyHint) return h("span", { class: "chip good" }, "read-only");
  return notes.destructiveHint ? h("span", { class: "chip bad" }, "destructive") : null;
}

export function view() {
  return workbench("tools", { mark, read: (found) => found.tools, title: (tool) => tool.title ?? tool.name, subtitle: (tool) => tool.description?.split("\n")[0], detail, nothing: "No tools" });
}
