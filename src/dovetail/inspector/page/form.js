// A form for a JSON Schema. Each field has an element, `value()` (undefined: left out), `problem()`, and `parts()` if it
// consists of fields.
import { button, fill, h, icon, unique } from "./dom.js";
import { resolve } from "./schema.js";

const DEPTH = 12;

function kindOf(schema) {
  if (Array.isArray(schema.enum)) return "enum";
  if ("const" in schema) return "const";
  const variants = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(variants)) return variants.every((one) => one && "const" in one) ? "titled" : "union";
  if (Array.isArray(schema.type)) return "types";
  if (schema.type) return schema.type;
  if (schema.properties) return "object";
  if (schema.items || schema.prefixItems) return "array";
  return "any";
}

// `blank`: a required choice without a default has no value until the user selects one, also a boolean.
export function form(schema, initial, changed = () => {}, { blank = false } = {}) {
  const root = schema ?? {};
  const context = { root, depth: 0, changed, required: true, initial: initial ?? {}, bare: true, blank };
  let whole;
  try {
    whole = objectField(resolve(root, root), context);
  } catch {
    whole = anyField({ title: "Arguments", description: "This schema has no form. Enter JSON." }, context);
  }
  whole.element.classList.add("form");
  return { ...whole, reveal: () => reveal(whole) };
}

// Mark all fields with a problem, and move the focus to the first. Return its text, or null.
function reveal(whole) {
  const wrong = leaves(whole).filter((one) => {
    const said = one.problem();
    one.element.mark?.(said);
    return said;
  });
  if (!wrong.length) return null;
  const [first] = wrong;
  (first.element.querySelector("[aria-invalid='true']") ?? first.element.querySelector("input, select, textarea"))?.focus();
  return `${first.element.name ?? "a field"} ${first.problem()}`;
}

function leaves(one) {
  const parts = one.parts?.();
  return parts ? parts.flatMap(leaves) : [one];
}

function field(raw, context) {
  const schema = resolve(raw, context.root);
  if (context.depth > DEPTH) return anyField(schema, context);
  const make = { enum: enumField, const: constField, titled: enumField, union: unionField, types: unionField, object: objectField,
    array: arrayField, boolean: booleanField, integer: numberField, number: numberField, string: textField, null: nullField }[kindOf(schema)];
  const made = (make ?? anyField)(schema, context);
  return context.required || !made.element.head ? made : omissible(made, starting(schema, context) !== undefined, context);
}

// An optional field says whether it is left out, and has a button to change that.
function omissible(made, included, context) {
  const { element } = made;
  const state = h("span", { class: "chip" }, "left out");
  const toggle = button("", () => {
    included = !included;
    draw();
    context.changed();
  }, { class: "quiet small", "aria-describedby": element.labelId });
  const draw = () => {
    element.classList.toggle("left-out", !included);
    state.hidden = included;
    toggle.textContent = included ? "Leave out" : "Include";
  };
  // Before the listeners of the control, which read the value.
  const typed = (event) => {
    if (event.target === toggle) return;
    included = event.target.value !== "" || event.target.type === "checkbox";
    draw();
  };
  element.addEventListener("input", typed, true);
  element.addEventListener("change", typed, true);
  element.head.append(state, toggle);
  draw();
  return { ...made, value: () => (included ? made.value() ?? made.nothing : undefined), problem: () => (included ? made.problem() : null) };
}

// A labelled control with its description for screen readers.
function labelled(schema, context, control, beside) {
  const id = unique("field");
  const labelled = control.matches("input, select, textarea, output");
  control.id = id;
  if (!labelled) control.setAttribute("aria-labelledby", `${id}-label`);
  const name = context.title ?? schema.title ?? context.name ?? "";
  const notes = [];
  if (schema.description) {
    const note = h("p", { class: "note", id: `${id}-note` }, schema.description);
    control.setAttribute("aria-describedby", note.id);
    notes.push(note);
  }
  if (context.required && labelled && control.type !== "checkbox") control.setAttribute("aria-required", "true");
  const type = [].concat(schema.type ?? []).join(" | ") + (schema.format ? ` (${schema.format})` : "");
  const head = h("div", { class: "field-head" },
    h(labelled ? "label" : "span", { for: labelled ? id : null, id: `${id}-label` }, h("span", { class: "name" }, name), context.required ? h("span", { class: "required", title: "required" }, "*") : null), h("span", { class: "type" }, type));
  const wrong = h("p", { class: "wrong", hidden: true, id: `${id}-wrong` });
  const element = h("div", { class: "field" }, head, h("div", { class: "control" }, control, beside), wrong, ...notes);
  const mark = (message) => {
    wrong.hidden = !message;
    fill(wrong, message ? `${name || "This"} ${message}.` : "");
    control.setAttribute("aria-invalid", String(Boolean(message)));
    if (message) control.setAttribute("aria-errormessage", wrong.id);
  };
  element.addEventListener("input", () => mark(null));
  element.addEventListener("change", () => mark(null));
  return Object.assign(element, { head, mark, labelId: `${id}-label`, name });
}

function starting(schema, context) {
  return context.initial !== undefined ? context.initial : schema.default;
}

function textField(schema, context) {
  const initial = starting(schema, context);
  const file = schema.contentEncoding === "base64" || schema.format === "byte" || schema.format === "binary";
  const long = file || (schema.maxLength ?? 0) > 200 || /text|body|content|message|markdown|code|query|sql/i.test(context.name ?? "");
  const kinds = { date: "date", "date-time": "text", email: "email", uri: "url", time: "time", password: "password" };
  const control = long ? h("textarea", { rows: 3, spellcheck: "false" }) : h("input", { type: kinds[schema.format] ?? "text", spellcheck: "false", autocomplete: "off" });
  if (initial !== undefined) control.value = String(initial);
  if (schema.examples?.length) control.placeholder = String(schema.examples[0]);
  let touched = initial !== undefined;
  control.addEventListener("input", () => { touched = true; context.changed(); });
  const pick = h("input", { type: "file", "aria-label": `A file for ${context.name ?? "this field"}` });
  pick.addEventListener("change", async () => {
    const data = new Uint8Array(await pick.files[0].arrayBuffer());
    let text = "";
    for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
    control.value = btoa(text);
    touched = true;
    context.changed();
  });
  return {
    element: labelled(schema, context, control, file ? pick : null),
    value: () => (control.value === "" && !(context.required && touched) ? undefined : control.value),
    nothing: "",
    problem: () => (context.required && control.value === "" ? "is required" : schema.pattern && control.value && !safePattern(schema.pattern, control.value) ? `does not match ${schema.pattern}` : null),
  };
}

// Check only cheap patterns: a pattern of a server with nested repetitions could block the page.
function safePattern(pattern, value) {
  if (String(pattern).length > 200 || value.length > 1000 || /\(|([*+{][^]*){3}/.test(pattern)) return true;
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function numberField(schema, context) {
  const control = h("input", { type: "number", step: schema.type === "integer" ? "1" : "any", min: schema.minimum, max: schema.maximum });
  const initial = starting(schema, context);
  if (initial !== undefined && initial !== null) control.value = initial;
  control.addEventListener("input", context.changed);
  return {
    element: labelled(schema, context, control),
    value: () => (control.value === "" ? undefined : Number(control.value)),
    problem: () => (context.required && control.value === "" ? "is required" : control.validity.valid ? null : control.validationMessage),
  };
}

function booleanField(schema, context) {
  const initial = starting(schema, context);
  if (context.blank && typeof initial !== "boolean") return yesOrNo(schema, context);
  const control = h("input", { type: "checkbox", role: "switch", class: "switch", checked: initial === true });
  control.addEventListener("change", context.changed);
  return { element: labelled(schema, context, control), value: () => control.checked, problem: () => null };
}

// A boolean without a value: neither answer is preselected.
function yesOrNo(schema, context) {
  const name = unique("choice");
  const one = (text, value) => h("label", { class: "inline" }, h("input", { type: "radio", name, value, onchange: context.changed }), ` ${text}`);
  const control = h("div", { class: "radios", role: "radiogroup" }, one("Yes", "true"), one("No", "false"));
  const chosen = () => control.querySelector("input:checked")?.value;
  return { element: labelled(schema, context, control), value: () => (chosen() === undefined ? undefined : chosen() === "true"), problem: () => (context.required && chosen() === undefined ? "is required" : null) };
}

function select(schema, context, options, initial) {
  const known = options.find(([, , value]) => value === initial || JSON.stringify(value) === JSON.stringify(initial));
  const all = known ? options : [["", "Choose…", undefined], ...options];
  const control = h("select", {}, ...all.map(([id, text]) => h("option", { value: id }, text)));
  control.value = (known ?? all[0])[0];
  control.addEventListener("change", context.changed);
  return { element: labelled(schema, context, control), value: () => all.find(([id]) => id === control.value)?.[2], problem: () => (context.required && control.value === "" ? "is required" : null) };
}

function enumField(schema, context) {
  const titled = schema.oneOf ?? schema.anyOf;
  const values = schema.enum ?? titled.map((one) => one.const);
  const names = schema.enum ? schema.enumNames ?? [] : titled.map((one) => one.title);
  const options = values.map((value, index) => [String(index), names[index] ?? (typeof value === "string" ? value : JSON.stringify(value)), value]);
  return select(schema, context, options, starting(schema, context));
}

function constField(schema, context) {
  return fixed(schema, context, schema.const);
}

function nullField(schema, context) {
  return fixed(schema, context, null);
}

// A field with one possible value. It is always sent: it often says which kind of object this is.
function fixed(schema, context, value) {
  const element = labelled(schema, context, h("output", {}, JSON.stringify(value)));
  delete element.head;
  return { element, value: () => value, problem: () => null };
}

function anyField(schema, context) {
  const control = h("textarea", { rows: 2, spellcheck: "false", placeholder: "JSON", class: "mono" });
  const initial = starting(schema, context);
  if (initial !== undefined) control.value = JSON.stringify(initial, null, 1);
  control.addEventListener("input", context.changed);
  const parse = () => (control.value.trim() ? JSON.parse(control.value) : undefined);
  return {
    element: labelled(schema, context, control),
    value: () => { try { return parse(); } catch { return control.value; } },
    problem: () => { try { parse(); return null; } catch { return "is not JSON"; } },
  };
}

function variantsOf(schema, root) {
  if (Array.isArray(schema.type)) return schema.type.map((type) => ({ ...schema, type, title: type }));
  const { oneOf, anyOf, ...rest } = schema;
  return (oneOf ?? anyOf).map((one) => {
    const part = resolve(one, root);
    return rest.properties ? { ...part, properties: { ...rest.properties, ...part.properties } } : part;
  });
}

function fits(schema, value) {
  if (value === undefined) return false;
  if ("const" in schema) return schema.const === value;
  if (schema.enum) return schema.enum.includes(value);
  const type = value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
  const wanted = [].concat(schema.type ?? (schema.properties ? "object" : type));
  if (!(wanted.includes(type) || (type === "integer" && wanted.includes("number")))) return false;
  if (type !== "object") return true;
  const properties = schema.properties ?? {};
  return (schema.required ?? []).every((name) => name in value) && Object.keys(value).every((name) => name in properties || schema.additionalProperties)
    && Object.entries(properties).every(([name, one]) => !("const" in one) || value[name] === one.const);
}

function unionField(schema, context) {
  const variants = variantsOf(schema, context.root);
  const names = variants.map((one, index) => one.title ?? (one.const !== undefined ? String(one.const) : constName(one) ?? one.type ?? `choice ${index + 1}`));
  const initial = starting(schema, context);
  const options = names.map((name, index) => h("option", { value: String(index) }, name));
  if (!context.required) options.unshift(h("option", { value: "" }, "(left out)"));
  const picker = h("select", {}, ...options);
  const inside = h("div", { class: "nested" });
  let chosen = null;
  const begin = variants.findIndex((one) => fits(one, initial));
  picker.value = begin >= 0 ? String(begin) : context.required ? String(Math.max(0, variants.findIndex((one) => one.type !== "null"))) : "";
  const build = (start) => {
    inside.replaceChildren();
    chosen = null;
    if (picker.value === "") return;
    const index = Number(picker.value);
    chosen = field(variants[index], { ...context, depth: context.depth + 1, required: true, initial: start, title: names[index] });
    if (variants[index].type !== "null") inside.append(chosen.element);
  };
  picker.addEventListener("change", () => { build(undefined); context.changed(); });
  build(begin >= 0 ? initial : undefined);
  const element = labelled({ title: schema.title, description: schema.description, type: "one of" }, context, picker);
  element.append(inside);
  delete element.head; // the selection has its own entry for a field that is left out
  return { element, value: () => chosen?.value(), problem: () => chosen?.problem() ?? null, parts: () => (chosen ? [chosen] : []) };
}

function constName(schema) {
  const entry = Object.values(schema.properties ?? {}).find((one) => one && "const" in one);
  return entry === undefined ? undefined : String(entry.const);
}

function arrayField(schema, context) {
  const items = h("div", { class: "items" });
  let fields = [];
  const add = (initial) => {
    const position = fields.length;
    const part = schema.prefixItems?.[position] ?? (typeof schema.items === "object" ? schema.items : {});
    const one = field(part, { ...context, depth: context.depth + 1, required: true, initial, name: `${context.name ?? "item"}[${position}]`, title: `${position + 1}` });
    const row = h("div", { class: "item" }, one.element, button(icon("close"), () => {
      fields = fields.filter((other) => other !== one);
      row.remove();
      context.changed();
    }, { class: "quiet square", "aria-label": "Remove" }));
    fields.push(one);
    items.append(row);
  };
  const initial = starting(schema, context);
  for (const value of Array.isArray(initial) ? initial.slice(0, 200) : []) add(value);
  const group = h("fieldset", { class: "group" }, h("legend", {}, context.title ?? schema.title ?? context.name ?? "items", context.required ? h("span", { class: "required" }, "*") : null),
    schema.description ? h("p", { class: "note" }, schema.description) : null, items,
    button("Add", () => { add(undefined); context.changed(); }, { class: "small" }));
  return {
    element: group,
    value: () => (fields.length || context.required ? fields.map((one) => one.value() ?? null) : undefined),
    problem: () => fields.map((one) => one.problem()).find(Boolean) ?? null,
    parts: () => fields,
  };
}

function objectField(schema, context) {
  const required = new Set(schema.required ?? []);
  const given = starting(schema, context);
  const initial = given !== null && typeof given === "object" && !Array.isArray(given) ? given : {};
  const properties = schema.properties ?? {};
  const body = h("div", { class: "fields" });
  const fields = new Map();
  const extra = [];
  let included = context.required || given !== undefined;
  const build = () => {
    if (fields.size || body.childElementCount) return;
    for (const [name, part] of Object.entries(properties)) {
      const one = field(part, { ...context, bare: false, title: undefined, depth: context.depth + 1, name, required: required.has(name), initial: Object.hasOwn(initial, name) ? initial[name] : undefined });
      fields.set(name, one);
      body.append(one.element);
    }
    if (schema.additionalProperties && schema.additionalProperties !== false) more(body);
  };
  const more = (place) => {
    const rows = h("div", { class: "items" });
    const add = (name, value) => {
      const key = h("input", { type: "text", "aria-label": "Name", value: name, placeholder: "name" });
      const part = typeof schema.additionalProperties === "object" ? schema.additionalProperties : {};
      const one = field(part, { ...context, bare: false, depth: context.depth + 1, name: "value", title: "value", required: true, initial: value });
      const entry = [key, one];
      key.addEventListener("input", context.changed);
      extra.push(entry);
      rows.append(h("div", { class: "item" }, key, one.element, button(icon("close"), (event) => {
        extra.splice(extra.indexOf(entry), 1);
        event.currentTarget.parentElement.remove();
        context.changed();
      }, { class: "quiet square", "aria-label": "Remove" })));
    };
    for (const [name, value] of Object.entries(initial)) if (!Object.hasOwn(properties, name)) add(name, value);
    place.append(rows, button("Add a member", () => { add("", undefined); context.changed(); }, { class: "small" }));
  };
  const value = () => {
    if (!included) return undefined;
    const found = Object.create(null); // __proto__ can be a member, too
    for (const [name, one] of fields) {
      const part = one.value();
      if (part !== undefined) found[name] = part;
    }
    for (const [key, one] of extra) if (key.value) found[key.value] = one.value() ?? null;
    return found;
  };
  const problem = () => {
    if (!included) return null;
    for (const [name, one] of fields) {
      const said = one.problem();
      if (said) return `${name} ${said}`;
    }
    return null;
  };
  const parts = () => (included ? [...fields.values(), ...extra.map(([, one]) => one)] : []);
  if (included) build();
  if (context.bare) {
    if (!Object.keys(properties).length && !extra.length && !schema.additionalProperties) body.append(h("p", { class: "note" }, "No arguments."));
    return { element: body, value, problem, parts };
  }
  const legend = h("legend", {}, context.title ?? schema.title ?? context.name ?? "object", context.required ? h("span", { class: "required" }, "*") : null);
  if (!context.required) {
    const box = h("input", { type: "checkbox", role: "switch", class: "switch", checked: included, "aria-label": `Include ${context.name ?? "this"}` });
    box.addEventListener("change", () => {
      included = box.checked;
      body.hidden = !included;
      if (included) build();
      context.changed();
    });
    body.hidden = !included;
    legend.prepend(box, " ");
  }
  return { element: h("fieldset", { class: "group" }, legend, schema.description ? h("p", { class: "note" }, schema.description) : null, body), value, problem, parts };
}
