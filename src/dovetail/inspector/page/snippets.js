// The call as Python code, as a curl command, or as a `dovetail call` command.
import { get } from "./api.js";
import { store } from "./store.js";

export const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function python(value, indent = "") {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const deeper = `${indent}    `;
  if (Array.isArray(value)) return value.length ? `[${value.map((one) => python(one, deeper)).join(", ")}]` : "[]";
  const members = Object.entries(value).map(([name, one]) => `${python(name)}: ${python(one, deeper)}`);
  return members.join(", ").length < 70 ? `{${members.join(", ")}}` : `{\n${deeper}${members.join(`,\n${deeper}`)},\n${indent}}`;
}

function target(connection) {
  return connection.url || connection.label;
}

export function asPython(connection, method, params) {
  const where = connection.command.length ? python(connection.command) : python(target(connection));
  const lines = {
    "tools/call": `result = await client.call_tool(${python(params.name)}, ${python(params.arguments ?? {}, "        ")})\n        print(result.data if result.data is not None else result.text)`,
    "resources/read": `result = await client.read_resource(${python(params.uri)})\n        print(result.contents)`,
    "prompts/get": `result = await client.get_prompt(${python(params.name)}, ${python(params.arguments ?? {}, "        ")})\n        print(result.messages)`,
  };
  const revision = connection.wanted === "auto" ? "" : `, revision=${python(connection.wanted)}`;
  return `import asyncio\n\nfrom dovetail import Client\n\n\nasync def main() -> None:\n    async with Client(${where}${revision}) as client:\n        ${lines[method] ?? `print(await client.request(${python(method)}, ${python(params)}))`}\n\n\nasyncio.run(main())\n`;
}

export function asCommand(connection, method, params) {
  const where = shell(connection.command.length && !connection.label.endsWith(".py") ? connection.command.map(shell).join(" ") : target(connection));
  const revision = connection.wanted === "auto" ? "" : ` --revision ${connection.wanted}`;
  const pairs = Object.entries(params.arguments ?? {}).map(([name, value]) => shell(typeof value === "string" ? `${name}=${value}` : `${name}:=${JSON.stringify(value)}`));
  const words = { "tools/call": ["call", where, shell(params.name ?? ""), ...pairs], "resources/read": ["read", where, shell(params.uri ?? "")], "prompts/get": ["prompt", where, shell(params.name ?? ""), ...pairs] };
  return `dovetail ${(words[method] ?? ["list", where]).join(" ")}${revision}\n`;
}

// With the key of the call that was made, the copy would be no call of its own: the server would repeat the first result.
const IDEMPOTENCY_KEY = /,"io\.dovetail\/idempotency-key":"[^"\\]*"|"io\.dovetail\/idempotency-key":"[^"\\]*",?/;

// The HTTP request as it was sent, without its idempotency key; null for other transports.
export async function asCurl(call) {
  const row = store.frames.find((one) => one[0] > call.frame && one[2] === call.connection && one[3] === 0 && one[6] === call.method && one[5] === "request");
  if (!row) return null;
  const frame = await get("frame", { id: row[0] });
  if (!frame.head?.url || frame.rawCut) return null;
  const headers = Object.entries(frame.head.headers).filter(([name]) => !/^(content-length|host)$/i.test(name)).map(([name, value]) => `  -H ${shell(`${name}: ${value}`)} \\\n`);
  return `curl -X ${frame.head.method} ${shell(frame.head.url)} \\\n${headers.join("")}  -d ${shell(frame.raw.replace(IDEMPOTENCY_KEY, ""))}\n`;
}
