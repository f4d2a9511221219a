// Check a value against a JSON Schema, as far as a form needs it. Unknown keywords are accepted: the server decides.
import { resolve } from "./schema.js";

const MOST = 20;
const DEPTH = 20;

function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// The problems as [path, message]; the path of a member is "/name". A schema that breaks its own rules finds none.
export function check(schema, value) {
  try {
    return judge(schema, value, schema, "", [], 0);
  } catch {
    return [];
  }
}

function judge(raw, value, root, path, found, depth) {
  if (raw === true || raw === undefined || depth > DEPTH || found.length >= MOST) return found;
  if (raw === false) return add(found, path, "is not allowed");
  const schema = resolve(raw, root);
  const type = typeOf(value);
  const wanted = [].concat(schema.type ?? []);
  if (wanted.length && !wanted.includes(type) && !(type === "integer" && wanted.includes("number"))) return add(found, path, `must be ${wanted.join(" or ")}, not ${type}`);
  if (Array.isArray(schema.enum) && !schema.enum.some((one) => same(one, value))) add(found, path, `must be one of ${schema.enum.slice(0, 8).map((one) => JSON.stringify(one)).join(", ")}`);
  if ("const" in schema && !same(schema.const, value)) add(found, path, `must be ${JSON.stringify(schema.const)}`);
  for (const variants of [schema.anyOf, schema.oneOf]) {
    if (!Array.isArray(variants)) continue;
    const tried = variants.map((one) => judge(one, value, root, path, [], depth + 1));
    if (tried.every((one) => one.length)) add(found, path, tried.length === 1 ? tried[0][0][1] : "fits none of the choices");
  }
  if (typeof value === "number") {
    if (value < schema.minimum) add(found, path, `must be at least ${schema.minimum}`);
    if (value > schema.maximum) add(found, path, `must be at most ${schema.maximum}`);
  }
  if (typeof value === "string") {
    if ([...value].length < schema.minLength) add(found, path, `needs ${schema.minLength} characters`);
    if ([...value].length > schema.maxLength) add(found, path, `has more than ${schema.maxLength} characters`);
  }
  if (type === "array") {
    if (value.length < schema.minItems) add(found, path, `needs ${schema.minItems} items`);
    if (value.length > schema.maxItems) add(found, path, `has more than ${schema.maxItems} items`);
    value.slice(0, 200).forEach((one, index) => judge(schema.prefixItems?.[index] ?? schema.items, one, root, `${path}/${index}`, found, depth + 1));
  }
  if (type === "object") members(schema, value, root, path, found, depth);
  return found;
}

function members(schema, value, root, path, found, depth) {
  const properties = schema.properties ?? {};
  for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) add(found, `${path}/${name}`, "is required");
  for (const [name, one] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) judge(properties[name], one, root, `${path}/${name}`, found, depth + 1);
    else if (schema.additionalProperties === false) add(found, `${path}/${name}`, "is unknown");
    else if (typeof schema.additionalProperties === "object") judge(schema.additionalProperties, one, root, `${path}/${name}`, found, depth + 1);
  }
}

function add(found, path, message) {
  found.push([path, message]);
  return found;
}
