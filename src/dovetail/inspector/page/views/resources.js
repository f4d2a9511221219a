import { post } from "../api.js";
import { appButton } from "../appframe.js";
import { button, clock, fill, h, unique } from "../dom.js";
import { markdown } from "../markdown.js";
import { current, on, store } from "../store.js";
import { tree } from "../tree.js";
import { chips, runner, workbench } from "../workbench.js";

// An input whose values the server suggests.
export function completed(label, ref, name, others, changed) {
  const id = unique("complete");
  const options = h("datalist", { id });
  const input = h("input", { type: "text", list: id, autocomplete: "off", spellcheck: "false" });
  const box = unique("input");
  input.id = box;
  let turn = 0;
  const suggest = async () => {
    turn += 1;
    const mine = turn;
    try {
      const found = await post("complete", { connection: store.current, ref, argument: { name, value: input.value }, context: { arguments: others() } });
      if (mine === turn) fill(options, ...found.completion.values.map((value) => h("option", { value })));
    } catch { /* it suggests nothing */ }
  };
  const able = current()?.capabilities?.completions !== undefined || current()?.revision === "2024-11-05";
  if (able) {
    input.addEventListener("focus", suggest);
    input.addEventListener("input", suggest);
  }
  input.addEventListener("input", changed);
  const element = h("div", { class: "field" }, h("label", { for: box }, h("span", { class: "name" }, label)), h("div", { class: "control" }, input), options);
  return { element, input, value: () => input.value };
}

function names(template) {
  return [...template.matchAll(/\{[+#./;?&]?([^}]*)\}/g)].flatMap((match) => match[1].split(",")).map((one) => one.replace(/(\*|:\d+)$/, "")).filter(Boolean);
}

function expand(template, values) {
  return template.replaceAll(/\{([+#./;?&]?)([^}]*)\}/g, (_, operator, list) => {
    const given = list.split(",").map((one) => one.replace(/(\*|:\d+)$/, "")).filter((one) => values[one]);
    const written = (one) => (operator === "+" || operator === "#" ? encodeURI(values[one]) : encodeURIComponent(values[one]));
    if (!given.length) return "";
    if (operator === "?" || operator === "&") return operator + given.map((one) => `${one}=${written(one)}`).join("&");
    const lead = { "#": "#", ".": ".", "/": "/", ";": ";" }[operator] ?? "";
    return lead + given.map(written).join(operator === "/" ? "/" : operator === "." ? "." : ",");
  });
}

function detail(entry) {
  const template = entry.uriTemplate;
  const uri = h("code", { class: "uri" }, template ?? entry.uri);
  const values = {};
  const target = () => (template ? expand(template, values) : entry.uri);
  const fields = template ? names(template).map((name) => {
    const one = completed(name, { type: "ref/resource", uri: template }, name, () => values, () => { values[name] = one.value(); uri.textContent = target(); });
    return one;
  }) : [];
  const seen = h("ul", { class: "updates", "aria-live": "polite" });
  const watch = button("Subscribe", toggle);
  const able = current()?.capabilities?.resources?.subscribe;

  async function toggle() {
    const on = target() in (current()?.subscribed ?? {});
    watch.disabled = true;
    try {
      await post(on ? "unsubscribe" : "subscribe", { connection: store.current, uri: target() });
    } catch (error) {
      fill(seen, h("li", { class: "bad" }, error.message));
    }
    watch.disabled = false;
  }

  function draw() {
    const count = current()?.subscribed?.[target()];
    watch.textContent = count === undefined ? "Subscribe" : "Unsubscribe";
    watch.setAttribute("aria-pressed", String(count !== undefined));
    const mine = store.updates.filter((one) => one.connection === store.current && one.uri === target()).slice(-10).reverse();
    fill(seen, ...mine.map((one) => h("li", {}, h("time", {}, clock(one.at)), " changed")));
  }

  const run = runner({ method: "resources/read", params: () => ({ uri: target() }), label: "Read", actions: { app: (one) => appButton(one)() } });
  const follow = on("updated", (event) => {
    draw();
    if (event.uri === target()) run.go();
  });
  const known = on("connection", draw);
  draw();
  const element = h("article", { class: "resource" }, h("h2", {}, entry.title ?? entry.name), uri, chips(entry.mimeType, entry.size !== undefined && `${entry.size} bytes`, template && "template"),
    entry.description ? markdown(entry.description) : null, ...fields.map((one) => one.element),
    able ? h("div", { class: "actions" }, watch) : h("p", { class: "note" }, "This server does not support subscriptions."), seen, run.element,
    h("details", { class: "definition" }, h("summary", {}, "Definition"), tree(entry)));
  return { element, destroy: () => { run.destroy(); follow(); known(); } };
}

export function view() {
  return workbench("resources", { read: (found) => [...found.resources, ...found.templates], title: (one) => one.title ?? one.name, subtitle: (one) => one.uri ?? one.uriTemplate, detail, nothing: "No resources" });
}
