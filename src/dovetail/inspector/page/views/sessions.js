import { post, whole } from "../api.js";
import { button, bytes, clock, dialog, duration, empty, fill, h, save, unique } from "../dom.js";
import { result } from "../result.js";
import { get } from "../api.js";
import { choose, current, on, store } from "../store.js";

async function download(raw) {
  save(`session-${store.current}.txt`, await whole("recording", { connection: store.current, ...(raw ? { raw: 1 } : {}) }), "text/plain");
}

export function view() {
  const said = h("p", { class: "note", role: "status" });
  const id = unique("recording");
  const file = h("input", { type: "file", accept: ".txt,text/plain", id });
  const table = h("div", {});
  const name = h("input", { type: "text", id: unique("name"), placeholder: "a name", spellcheck: "false" });
  const kept = h("ul", { class: "kept" });
  const listKept = async () => {
    const { sessions } = await get("sessions");
    fill(kept, ...sessions.map((one) => h("li", {}, h("strong", {}, one.name), h("span", { class: "type" }, `${new Date(one.at).toLocaleString()}, ${bytes(one.size)}`), button("Replay", () => replay({ saved: one.name }), { class: "small" }))));
  };
  const keep = async () => {
    try {
      const { path } = await post("keep", { connection: store.current, name: name.value });
      said.textContent = `Saved as ${path}`;
      name.value = "";
      await listKept();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const replay = async (what) => {
    try {
      const { connections } = await post("connect", what);
      choose(connections[0]);
      said.textContent = "The recording now responds instead of the server.";
    } catch (error) {
      said.textContent = error.message;
    }
  };
  listKept();
  file.addEventListener("change", async () => replay({ recording: await file.files[0].text(), label: `recording ${file.files[0].name}` }));
  const raw = button("Save with secrets", () => {
    const box = dialog("Save with secrets?", h("p", {}, "The file will contain all tokens and passwords of the session."), h("div", { class: "actions" }, button("Save it", () => { download(true); box.close(); }, { class: "danger" }), button("Do not", () => box.close())));
  });
  const draw = () => {
    const calls = [...store.calls.values()].filter((one) => one.connection === store.current).reverse().slice(0, 200);
    fill(table, calls.length ? h("div", { class: "scroll-x", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, ...["time", "method", "what", "state", "took", "size", ""].map((name) => name ? h("th", { scope: "col" }, name) : h("td")))), h("tbody", {}, ...calls.map((one) => h("tr", {},
      h("td", {}, clock(one.at)), h("td", {}, one.method), h("td", {}, h("code", {}, String(one.params.name ?? one.params.uri ?? "").slice(0, 60))), h("td", { class: one.state === "failed" || one.failed ? "bad" : "" }, one.failed ? "tool failed" : one.state), h("td", { class: "number" }, duration(one.ms)), h("td", { class: "number" }, bytes(one.size)),
      h("td", {}, button("Show", async () => dialog(`${one.method} ${one.params.name ?? one.params.uri ?? ""}`, result(await get("call", { id: one.id }))), { class: "small quiet" }), button("Repeat", () => post("call", { connection: one.connection, method: one.method, params: one.params, task: one.task }), { class: "small quiet" }))))))) : empty("No calls yet", "Every call of this run is kept here, and can be repeated."));
  };
  const offs = [on("call", draw), on("current", draw), on("state", draw)];
  draw();
  return { element: h("div", { class: "column" }, h("section", { class: "card" }, h("h2", {}, "This session"), h("p", { class: "note" }, "A text file, one message a line, with secrets masked. ", h("code", {}, "dovetail.testing.replay"), " answers from it in tests, and so does this page."),
    h("div", { class: "actions" }, button("Save", () => download(false), { class: "primary", disabled: !current() }), raw), h("div", { class: "field" }, h("label", { for: name.id }, "Save on this machine"), h("div", { class: "control" }, name, button("Save here", keep))), kept, h("div", { class: "field" }, h("label", { for: id }, "Replay a file"), file), said), h("section", {}, h("h2", {}, "Calls"), table)), destroy: () => offs.forEach((off) => off()) };
}
