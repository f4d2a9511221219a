// MCP Apps: a document of the server in a sandboxed iframe, and the message bridge to it.
import { post } from "./api.js";
import { button, dialog, h, link, safeUrl } from "./dom.js";
import { problem } from "./result.js";
import { finished, lists, store } from "./store.js";

const VERSION = "2026-01-26";
const TALLEST = 900;

export async function openApp(uri, { tool, call } = {}) {
  const element = h("div", { class: "app-frame" });
  const connection = store.current;
  const found = await finished("resources/read", { uri }, { connection });
  const entry = found.result?.contents?.[0];
  if (!entry || typeof entry.text !== "string" && typeof entry.blob !== "string") {
    element.append(problem(found.error ?? { message: `${uri} is no document` }));
    return { element, destroy() {} };
  }
  return mount(element, uri, entry, connection, tool, call);
}

export async function mount(element, uri, entry, connection, tool, call) {
  const html = entry.text ?? new TextDecoder().decode(Uint8Array.from(atob(entry.blob), (one) => one.charCodeAt(0)));
  const { url } = await post("app", { html, csp: entry._meta?.ui?.csp ?? {} });
  const frame = h("iframe", { sandbox: "allow-scripts allow-forms", src: url, title: `App ${uri}`, referrerpolicy: "no-referrer", allow: "" });
  const said = h("p", { class: "note", role: "status" }, "starting");
  const bridge = new Bridge(frame, said, connection, tool, call);
  element.append(h("div", { class: "block-head" }, h("strong", {}, "App"), h("code", {}, uri), said), frame);
  return { element, destroy: () => bridge.close() };
}

class Bridge {
  // An app is connected to its own server, whichever server is selected.
  constructor(frame, said, connection, tool, call) {
    Object.assign(this, { frame, said, connection, tool, call, asking: null });
    this.heard = (event) => { if (event.source === frame.contentWindow) this.receive(event.data); };
    addEventListener("message", this.heard);
  }

  // A sandboxed iframe has an opaque origin, so messages are identified by their window.
  send(message) {
    this.frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }

  tell(method, params) {
    this.send({ method, params });
  }

  async receive(message) {
    if (!message || message.jsonrpc !== "2.0" || typeof message.method !== "string") return;
    const { id, method } = message;
    const params = message.params && typeof message.params === "object" ? message.params : {};
    if (id === undefined) {
      this.note(method, params);
      return;
    }
    try {
      const answer = await this.answer(method, params);
      this.send(answer === undefined ? { id, error: { code: -32601, message: `the inspector does not know ${method}` } } : { id, result: answer });
    } catch (error) {
      this.send({ id, error: { code: error.details?.code ?? -32603, message: error.message } });
    }
  }

  note(method, params) {
    if (method === "ui/notifications/initialized") {
      this.said.textContent = "running";
      if (this.call) {
        this.tell("ui/notifications/tool-input", { arguments: this.call.params.arguments ?? {} });
        this.tell("ui/notifications/tool-result", this.call.result ?? { content: [] });
      }
    } else if (method === "ui/notifications/size-changed") {
      if (Number.isFinite(params.height)) this.frame.style.height = `${Math.min(TALLEST, Math.max(40, params.height))}px`;
    } else if (method === "notifications/message") {
      this.said.textContent = `says: ${String(JSON.stringify(params.data)).slice(0, 200)}`;
    }
  }

  async answer(method, params) {
    switch (method) {
      case "ui/initialize": return this.introduce();
      case "ping": return {};
      case "tools/call": return this.run("tools/call", { name: params.name, arguments: params.arguments ?? {} });
      case "resources/read": return this.run("resources/read", { uri: params.uri });
      case "ui/open-link": return this.open(String(params.url));
      case "ui/message": case "ui/update-model-context":
        this.said.textContent = `${method}: ${JSON.stringify(params).slice(0, 200)}`;
        return {};
      case "ui/request-display-mode": return { mode: "inline" };
      default: return undefined;
    }
  }

  introduce() {
    const chosen = document.documentElement.dataset.theme;
    const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    return { protocolVersion: VERSION, hostInfo: { name: "dovetail-inspector", version: "1" },
      hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} },
      hostContext: { theme: dark ? "dark" : "light", displayMode: "inline", availableDisplayModes: ["inline"], platform: "web", locale: navigator.language,
        containerDimensions: { maxHeight: TALLEST }, ...(this.tool ? { toolInfo: { tool: this.tool } } : {}) } };
  }

  async run(method, params) {
    const tool = method === "tools/call" ? (await lists(this.connection)).tools.find((one) => one.name === params.name) : null;
    const seen = tool?._meta?.ui?.visibility;
    if (seen && !seen.includes("app")) throw new Error(`${params.name} is not for apps`);
    const call = await finished(method, params, { connection: this.connection });
    if (call.error) throw Object.assign(new Error(call.error.message), { details: call.error });
    return call.result;
  }

  // The user opens links of an app, not the app.
  open(url) {
    if (!safeUrl(url)) throw new Error("such a link is not followed");
    if (this.asking?.isConnected) throw new Error("another link is asked about already");
    this.asking = dialog("The app wants to open a link", h("p", {}, link(url, url)));
    return {};
  }

  close() {
    removeEventListener("message", this.heard);
    this.send({ id: 0, method: "ui/resource-teardown", params: {} });
  }
}

export function appButton(entry) {
  return async () => {
    const element = h("div", { class: "app-frame" });
    const connection = store.current;
    const box = dialog(entry.uri, element);
    const made = await mount(element, entry.uri, entry, connection);
    box.addEventListener("close", made.destroy);
    box.append(h("div", { class: "actions" }, button("Close", () => box.close())));
  };
}
