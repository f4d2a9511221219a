import { post } from "../api.js";
import { clock, empty, fill, h } from "../dom.js";
import { current, on, store } from "../store.js";
import { tree } from "../tree.js";
import { virtual } from "../virtual.js";

const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const memory = { text: "", level: "" };

// The first line, and how many follow: a traceback is one entry.
function words(entry) {
  const text = typeof entry.data === "string" ? entry.data : JSON.stringify(entry.data);
  const lines = text.split("\n");
  const last = lines.length > 1 && text.includes("Traceback (most recent call last)") ? ` — ${lines.at(-1)}` : "";
  return [h("span", { class: "words" }, lines[0] + last), lines.length > 1 ? h("span", { class: "chip" }, `${lines.length} lines`) : null];
}

export function view() {
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter logs", value: memory.text });
  const from = h("select", { "aria-label": "Show from level" }, h("option", { value: "" }, "all levels"), ...LEVELS.map((one) => h("option", { value: one }, `${one} and above`)));
  from.value = memory.level;
  const level = h("select", { "aria-label": "Log level of the server" }, h("option", { value: "" }, "server's level…"), ...LEVELS.map((one) => h("option", { value: one }, one)));
  level.value = current()?.level ?? "";
  const said = h("span", { class: "type", role: "status" });
  const pane = h("div", { class: "detail" });
  const list = virtual("logs", 28, (entry) => h("div", { class: `log ${entry.level}` }, h("span", { class: "time" }, clock(entry.at)), h("span", { class: "level" }, entry.level), h("span", { class: "logger" }, entry.logger),
    ...words(entry)), (entry) => fill(pane, h("h2", {}, entry.level), h("p", { class: "type" }, `${clock(entry.at)} ${entry.logger}`), typeof entry.data === "string" ? h("pre", { class: "text" }, entry.data) : tree(entry.data)));
  const draw = () => {
    Object.assign(memory, { text: filter.value.toLowerCase(), level: from.value });
    const least = LEVELS.indexOf(memory.level);
    const shown = store.logs.filter((entry) => entry.connection === store.current && (least < 0 || LEVELS.indexOf(entry.level) >= least) && (!memory.text || `${entry.logger} ${JSON.stringify(entry.data)}`.toLowerCase().includes(memory.text)));
    list.show(shown, { follow: list.atEnd() || shown.length < 50, fresh: false });
    if (!shown.length) fill(pane, empty("No logs", "Log messages of the server, and the stderr output of its process, appear here. Select a log level above."));
    else if (!pane.firstChild || pane.querySelector(".empty")) fill(pane, empty("Logs", "Select an entry to see all of it."));
  };
  level.addEventListener("change", async () => {
    if (!level.value) return;
    try {
      await post("settings", { connection: store.current, level: level.value });
      said.textContent = "asked";
    } catch (error) {
      said.textContent = error.message;
    }
  });
  filter.addEventListener("input", draw);
  from.addEventListener("change", draw);
  const offs = [on("logs", draw), on("current", draw), on("state", draw)];
  draw();
  return { element: h("div", { class: "bench messages" }, h("div", { class: "bench-list wide" }, h("div", { class: "bench-filter" }, filter, from, level, said), list.element), pane), destroy: () => offs.forEach((off) => off()) };
}
