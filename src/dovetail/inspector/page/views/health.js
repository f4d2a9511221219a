import { post } from "../api.js";
import { bars, lines } from "../charts.js";
import { button, clock, duration, empty, fill, h } from "../dom.js";
import { plain } from "../result.js";
import { current, emit, on, store } from "../store.js";
import { tree } from "../tree.js";

const EDGES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
const BUCKETS = 60;

function answers() {
  return store.frames.filter((row) => row[2] === store.current && row[3] === 1 && row[8] !== null);
}

// An error, or the result of a tool that failed.
const failed = (row) => row[5] === "error" || Boolean(row[10]);

function share(sorted, part) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] : null;
}

function histogram(times) {
  const counts = new Array(EDGES.length + 1).fill(0);
  for (const time of times) counts[EDGES.findIndex((edge) => time <= edge) < 0 ? EDGES.length : EDGES.findIndex((edge) => time <= edge)] += 1;
  return counts.map((count, index) => [index < EDGES.length ? `≤${EDGES[index] < 1000 ? `${EDGES[index]}ms` : `${EDGES[index] / 1000}s`}` : ">5s", count]);
}

function overTime(rows) {
  const last = Date.now();
  const first = Math.max(rows.length ? rows[0][1] : last - 60000, last - 3600000);
  const step = Math.max(1000, (last - first) / BUCKETS);
  const count = Math.max(2, Math.ceil((last - first) / step) + 1);
  const calls = new Array(count).fill(0);
  const errors = new Array(count).fill(0);
  for (const row of rows) {
    const at = Math.floor((row[1] - first) / step);
    if (at < 0 || at >= count) continue;
    calls[at] += 1;
    if (failed(row)) errors[at] += 1;
  }
  return lines("Responses over time", calls.map((_, index) => clock(first + index * step).slice(0, 8)), [{ name: "responses", class: "good", values: calls }, { name: "errors", class: "bad", values: errors }]);
}

function samples(text) {
  const rows = text.split("\n").map((line) => line.match(/^([a-zA-Z_:][\w:]*)(\{[^}]*\})?\s+([-+\d.eEinfNa]+)/)).filter(Boolean).filter((one) => !one[1].endsWith("_bucket")).slice(0, 300);
  return h("div", { class: "scroll-x", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "metric"), h("th", {}, "labels"), h("th", {}, "value"))), h("tbody", {}, ...rows.map(([, name, labels, value]) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, labels ?? ""), h("td", { class: "number" }, value))))));
}

export function finding(one) {
  const look = { ok: "good", note: "warn", broken: "bad" }[one.state] ?? "";
  return h("p", { class: "finding", "data-state": one.state }, h("span", { class: `chip ${look}` }, one.state), h("strong", {}, one.check), h("span", {}, one.detail), one.advice ? h("span", { class: "note" }, `→ ${one.advice}`) : null);
}

export function view() {
  const charts = h("div", {});
  const own = h("div", {});
  const found = h("div", { class: "findings" });
  const draw = () => {
    const rows = answers();
    if (!rows.length) {
      fill(charts, empty("Nothing measured yet", "Latency and errors are measured from the messages: make a few calls."));
      return;
    }
    const times = rows.map((row) => row[8]).sort((one, other) => one - other);
    const errors = rows.filter(failed).length;
    const fact = (name, value) => h("div", { class: "fact" }, h("span", { class: "type" }, name), h("strong", {}, value));
    fill(charts, h("div", { class: "facts" }, fact("answers", rows.length.toLocaleString("en")), fact("errors", errors.toLocaleString("en")), fact("median", duration(share(times, 0.5))), fact("95 %", duration(share(times, 0.95))), fact("99 %", duration(share(times, 0.99))),
      fact("violations", String(Object.values(current()?.violations ?? {}).reduce((sum, one) => sum + one, 0)))), bars("Latency", histogram(times)), overTime(rows));
  };
  const said = h("span", { class: "note", role: "status" });
  const ping = button("Ping", async () => {
    try {
      said.textContent = `answered in ${duration((await post("ping", { connection: store.current })).ms)}`;
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const ask = button("Metrics", async () => {
    try {
      const told = await post("metrics", { connection: store.current });
      const ready = told.readyz.text.startsWith("{") ? tree(JSON.parse(told.readyz.text)) : plain(told.readyz.text || `HTTP ${told.readyz.status}`);
      fill(own, h("h2", {}, "Readiness"), ready, h("h2", {}, "Metrics"), told.metrics.status === 200 ? samples(told.metrics.text) : h("p", { class: "note" }, `The server has no metrics (HTTP ${told.metrics.status}): start it with --metrics.`));
    } catch (error) {
      fill(own, h("p", { class: "bad", role: "alert" }, error.message));
    }
  });
  const doctor = button("Diagnostics", async () => {
    said.textContent = "Checking the server with every revision …";
    try {
      const { findings } = await post("doctor", { connection: store.current });
      store.findings.set(store.current, findings);
      emit("findings");
      said.textContent = "";
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const drawFindings = () => {
    const findings = store.findings.get(store.current);
    fill(found, ...(findings ? [h("h2", {}, "Diagnostics"), ...findings.map(finding)] : []));
  };
  drawFindings();
  const timer = setInterval(draw, 1000);
  const offs = [on("current", draw), on("state", draw), on("current", drawFindings), on("findings", drawFindings)];
  draw();
  return { element: h("div", { class: "column" }, h("div", { class: "actions" }, ping, ask, doctor, said), found, charts, own), destroy: () => { clearInterval(timer); offs.forEach((off) => off()); } };
}
