// The connect dialog, and the confirmation before a program is started.
import { post } from "./api.js";
import { button, dialog, h, unique } from "./dom.js";
import { shell } from "./snippets.js";
import { choose, store } from "./store.js";

// Quote a word as for a shell, so that the user sees where each word ends; escape characters that reverse text.
function word(text) {
  return shell(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

function ask(found) {
  const box = dialog("Start this program?", h("p", {}, "The inspector will run this command on this machine, with your rights:"),
    ...found.commands.map((one) => h("div", { class: "block" }, h("strong", {}, one.label), h("pre", { class: "text command" }, one.words.map(word).join(" ")), one.cwd ? h("p", { class: "note" }, `in ${one.cwd}`) : null, one.env.length ? h("p", { class: "note" }, `with ${one.env.join(", ")}`) : null)),
    h("div", { class: "actions" }, button("Start", async () => { box.close(); await done(await post("connect", { confirm: found.confirm })); }, { class: "primary" }), button("Do not start", () => box.close())));
}

function done({ connections }) {
  choose(connections[0]);
}

// What a server that refuses to answer without authorization (401) needs: a token, or a login in the browser.
export function authorization(connection) {
  const token = h("input", { id: unique("token"), type: "password", autocomplete: "off", spellcheck: "false" });
  const said = h("p", { class: "note", role: "status" });
  const again = async (auth) => {
    said.textContent = auth === "oauth" ? "Log in on the page that opens." : "Connecting …";
    try {
      await post("reconnect", { connection: connection.id, revision: connection.wanted, auth });
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const send = (event) => {
    event?.preventDefault();
    if (token.value) again(token.value);
    else token.focus();
  };
  return h("form", { class: "card authorization", onsubmit: send }, h("h2", {}, "This server requires authorization"),
    h("div", { class: "field" }, h("label", { for: token.id }, "Token"), token),
    h("div", { class: "actions" }, button("Connect with the token", send, { class: "primary" }), button("Log in", () => again("oauth"))), said);
}

export function connectDialog() {
  const target = h("input", { id: unique("target"), type: "text", spellcheck: "false", autocomplete: "off", placeholder: "http://127.0.0.1:8000/mcp, server.py, npx some-server, mcp.json", autofocus: true });
  const revision = h("select", { id: unique("revision") }, ...["auto", "modern", "legacy", ...[...store.revisions].reverse()].map((one) => h("option", { value: one }, one === "auto" ? "automatic" : one)));
  const headers = h("textarea", { id: unique("headers"), rows: 2, spellcheck: "false", placeholder: "Name: value" });
  const auth = h("input", { id: unique("auth"), type: "password", autocomplete: "off", placeholder: "a token, or oauth" });
  const said = h("p", { class: "bad", role: "alert" });
  const field = (label, control) => h("div", { class: "field" }, h("label", { for: control.id }, label), control);
  const go = async (event) => {
    event?.preventDefault();
    try {
      const pairs = headers.value.split("\n").filter((line) => line.includes(":")).map((line) => [line.slice(0, line.indexOf(":")).trim(), line.slice(line.indexOf(":") + 1).trim()]);
      const found = await post("connect", { target: target.value, revision: revision.value, headers: Object.fromEntries(pairs), auth: auth.value });
      box.close();
      if (found.confirm) ask(found);
      else done(found);
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const fields = h("div", { class: "form" }, field("Server: a URL, a file, a command, or an mcp.json", target), field("Revision", revision),
    h("details", {}, h("summary", {}, "Headers and authorization"), field("Headers", headers), field("Authorization", auth)), said);
  fields.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.tagName === "INPUT") go(event); });
  const box = dialog("Connect to a server", fields, h("div", { class: "actions" }, button("Connect", go, { class: "primary" })));
  target.focus();
}
