import { h } from "../dom.js";
import { markdown } from "../markdown.js";
import { tree } from "../tree.js";
import { runner, workbench } from "../workbench.js";
import { completed } from "./resources.js";

function detail(prompt) {
  const values = {};
  const fields = (prompt.arguments ?? []).map((argument) => {
    const one = completed(`${argument.title ?? argument.name}${argument.required ? " *" : ""}`, { type: "ref/prompt", name: prompt.name }, argument.name, () => values, () => {
      if (one.value()) values[argument.name] = one.value();
      else delete values[argument.name];
    });
    if (argument.description) one.element.append(h("p", { class: "note" }, argument.description));
    return one;
  });
  const run = runner({ method: "prompts/get", params: () => ({ name: prompt.name, arguments: { ...values } }), label: "Get", problems: () => {
    const missing = (prompt.arguments ?? []).find((argument) => argument.required && !values[argument.name]);
    if (!missing) return null;
    fields[prompt.arguments.indexOf(missing)].input.focus();
    return `${missing.title ?? missing.name} is required`;
  } });
  const element = h("article", {}, h("h2", {}, prompt.title ?? prompt.name), prompt.description ? markdown(prompt.description) : null, run.beside(h("div", { class: "form" }, ...fields.map((one) => one.element))),
    h("details", { class: "definition" }, h("summary", {}, "Definition"), tree(prompt)));
  return { element, destroy: run.destroy };
}

export function view() {
  return workbench("prompts", { read: (found) => found.prompts, title: (one) => one.title ?? one.name, subtitle: (one) => one.description?.split("\n")[0], detail, nothing: "No prompts" });
}
