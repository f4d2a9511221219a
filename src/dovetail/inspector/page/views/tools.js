import { openApp } from "../appframe.js";
import { h, unique } from "../dom.js";
import { form } from "../form.js";
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

// A form and its JSON, side by side: each follows the other.
export function editor(schema, key) {
  const id = unique("json");
  const area = h("textarea", { id, class: "mono", rows: 6, spellcheck: "false", "aria-describedby": `${id}-said` });
  const said = h("p", { class: "note bad", id: `${id}-said`, role: "status" });
  const place = h("div", {});
  let value = kept.get(key);
  let made;
  let typed = false; // JSON of the user is sent even if the form is not valid
  const build = (initial) => {
    made = form(schema, initial, () => {
      value = made.value();
      typed = false;
      kept.set(key, value);
      said.textContent = "";
      area.value = JSON.stringify(value, null, 2);
    });
    place.replaceChildren(made.element);
  };
  build(value);
  area.value = JSON.stringify(value ?? made.value(), null, 2);
  area.addEventListener("input", () => {
    try {
      value = JSON.parse(area.value || "{}");
      typed = true;
      kept.set(key, value);
      said.textContent = "";
      build(value);
    } catch (error) {
      said.textContent = `not JSON: ${error.message}`;
    }
  });
  const element = h("div", { class: "editor" }, h("div", { class: "editor-form" }, place), h("div", { class: "editor-json" }, h("label", { for: id }, "Arguments as JSON"), area, said));
  return { element, value: () => value ?? made.value(), problem: () => (said.textContent ? "the JSON cannot be read" : typed ? null : made.problem()) };
}

function detail(tool) {
  const input = editor(tool.inputSchema, `tool ${tool.name}`);
  const params = () => ({ name: tool.name, arguments: input.value() });
  const read = async (uri) => {
    const call = await finished("resources/read", { uri });
    run.element.querySelector(".result").append(...(call.result?.contents ?? []).map((one) => contents(one)));
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
    ...findings(tool), tool.description ? markdown(tool.description) : h("p", { class: "note" }, "No description."), input.element, run.element,
    h("details", { class: "definition" }, h("summary", {}, "Definition"), tree(tool)));
  return { element, destroy: () => { run.destroy(); app?.destroy(); } };
}

export function view() {
  return workbench("tools", { read: (found) => found.tools, title: (tool) => tool.title ?? tool.name, subtitle: (tool) => tool.description?.split("\n")[0], detail, nothing: "No tools" });
}
