// A list and the details of the selected entry: tools, resources and prompts.
import { get, post } from "./api.js";
import { authorization } from "./connect.js";
import { button, bytes, clock, copy, dialog, duration, empty, fill, h, unique } from "./dom.js";
import { plain, problem, result } from "./result.js";
import { asCommand, asCurl, asPython } from "./snippets.js";
import { call as begin, current, lists, on, store } from "./store.js";

const NARROW = "(max-width: 820px)";

export function workbench(name, { read, title, subtitle, detail, nothing, mark = () => null }) {
  const memory = workbench.memory[name] ??= { chosen: new Map(), filter: "" };
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}`, value: memory.filter });
  const list = h("ul", { class: "list", role: "listbox", "aria-label": name, tabindex: "0" });
  const pane = h("div", { class: "detail" });
  const element = h("div", { class: "bench" }, h("div", { class: "bench-list" }, h("div", { class: "bench-filter" }, filter), list), pane);
  let entries = [];
  let shownKey;
  let made = null;
  const keyOf = (entry) => entry.uri ?? entry.uriTemplate ?? entry.name;

  function draw() {
    const words = filter.value.toLowerCase();
    memory.filter = filter.value;
    const found = entries.filter((entry) => `${title(entry)} ${keyOf(entry)} ${entry.description ?? ""}`.toLowerCase().includes(words)).slice(0, 1000);
    const chosen = memory.chosen.get(store.current);
    fill(list, ...found.map((entry) => h("li", { role: "option", id: unique("entry"), "data-key": keyOf(entry), "aria-selected": String(keyOf(entry) === chosen), onclick: () => choose(entry, true) },
      h("span", { class: "title-row" }, h("span", { class: "title", title: title(entry) }, title(entry)), mark(entry)), h("span", { class: "subtitle" }, subtitle(entry) ?? ""))));
    if (!found.length) list.append(h("li", { class: "none" }, entries.length ? "Nothing matches." : nothing));
  }

  function choose(entry, byUser) {
    memory.chosen.set(store.current, keyOf(entry));
    for (const one of list.children) {
      const on = one.dataset.key === keyOf(entry);
      one.setAttribute("aria-selected", String(on));
      if (on) {
        list.setAttribute("aria-activedescendant", one.id);
        one.scrollIntoView({ block: "nearest" });
      }
    }
    shownKey = keyOf(entry);
    made?.destroy();
    made = null;
    fill(pane); // do not show the previous entry while this one loads
    made = detail(entry);
    fill(pane, made.element);
    // On a narrow page the details are below the list.
    if (byUser && matchMedia(NARROW).matches) pane.scrollIntoView({ block: "start" });
  }

  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...list.querySelectorAll("[data-key]")];
    const at = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
    rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.click();
  });
  filter.addEventListener("input", draw);

  // Show why there is no connection, and what to do. Draw it once: the user may be entering a token.
  function unreached(connection) {
    if (connection?.state !== "failed" || !connection.problem) return false;
    if (pane.dataset.problem === connection.problem.message && pane.querySelector(".problem")) return true;
    pane.dataset.problem = connection.problem.message;
    shownKey = undefined;
    fill(pane, problem(connection.problem), connection.unauthorized ? authorization(connection) : null);
    return true;
  }

  async function load() {
    const connection = current();
    if (!connection) {
      fill(pane, empty("No server", "Connect to a server first."));
      return;
    }
    if (unreached(connection)) return;
    try {
      const found = await lists(connection.id);
      if (connection.id !== store.current || unreached(current())) return;
      entries = read(found);
      draw();
      const chosen = entries.find((entry) => keyOf(entry) === memory.chosen.get(store.current)) ?? entries[0];
      if (chosen && shownKey !== keyOf(chosen)) choose(chosen);
      else if (!chosen) fill(pane, empty(nothing, "This server has none."));
    } catch (error) {
      fill(pane, problem(error.details ?? { message: String(error) }));
    }
  }

  const changed = () => { shownKey = undefined; entries = []; draw(); load(); };
  const offs = [on("current", changed), on("state", changed), on("lists", ({ connection }) => connection === store.current && load()),
    on("connection", (connection) => connection?.id === store.current && load())];
  draw();
  load();
  return { element, choose: (key) => { const found = entries.find((entry) => keyOf(entry) === key); memory.chosen.set(store.current, key); if (found) choose(found); },
    destroy: () => { made?.destroy(); offs.forEach((off) => off()); } };
}
workbench.memory = {};

// Make a call, show its progress and its history.
export function runner({ method, params, label = "Run", tasks = false, actions = {}, after = () => {}, problems = () => null }) {
  const run = button(label, go, { class: "primary" });
  const stop = button("Cancel", () => post("cancel", { call: running }), { class: "danger", disabled: true });
  const asTask = h("input", { type: "checkbox" });
  const bar = h("progress", { hidden: true, "aria-label": "Progress" });
  const words = h("span", { class: "progress-words" });
  const state = h("span", { class: "state", role: "status" });
  const shown = h("div", { class: "result" });
  const history = h("div", { class: "history" });
  const copies = h("select", { "aria-label": "Copy as" }, h("option", { value: "" }, "Copy as…"), h("option", { value: "python" }, "Python"), h("option", { value: "curl" }, "curl"), h("option", { value: "command" }, "dovetail call"));
  const refused = h("div", { class: "refused" });
  let running = 0;
  let last = null;
  let fresh = false; // the user waits for this result
  let offLogs = null;

  async function go() {
    const said = problems();
    if (said) {
      fill(refused, h("div", { class: "notice bad", role: "alert" }, h("span", {}, `Not sent: ${said}. `), button("Send anyway", () => send(params()), { class: "small" })));
      return;
    }
    await send(params());
  }

  function wait() {
    fill(shown);
    bar.removeAttribute("value");
    bar.hidden = false;
    fill(words);
    state.textContent = "running";
    state.className = "state running";
  }

  async function send(what) {
    wait();
    fill(refused);
    fresh = true;
    try {
      running = await begin(method, what, asTask.checked ? { task: true } : {});
      runner.begun.add(running);
      stop.disabled = false;
      progressed(store.calls.get(running)); // progress may have arrived before the number of the call
      look(store.calls.get(running));
    } catch (error) {
      bar.hidden = true;
      state.textContent = "failed";
      fill(shown, problem(error.details ?? { message: String(error) }));
    }
  }

  async function look(call) {
    if (!call || call.id !== running || call.state === "running") return;
    running = 0;
    stop.disabled = true;
    bar.hidden = true;
    fill(words);
    await show(call.id);
    recall();
  }

  async function show(id) {
    last = await get("call", { id });
    const bad = last.state === "failed" || last.failed;
    state.textContent = `${last.failed ? "the tool failed" : last.state} in ${duration(last.ms)}, ${bytes(last.size)}`;
    state.className = `state ${bad ? "bad" : last.state === "cancelled" ? "" : "good"}`;
    fill(shown, result(last, actions));
    if (bad) explain(last);
    after(last, shown);
    if (!fresh) return;
    fresh = false;
    reveal(shown);
  }

  // The traceback of a failure that the server logged: the log entry has the incident id of the result.
  function explain(call) {
    const incident = /\bincident\W{1,4}([0-9a-f]{6,32})\b/.exec(JSON.stringify(call.result ?? call.error) ?? "")?.[1];
    if (!incident) return;
    const find = () => {
      const entry = store.logs.find((one) => one.connection === call.connection && typeof one.data === "string" && one.data.includes(`incident ${incident}`) && one.data.includes("Traceback"));
      if (!entry || last !== call) return false;
      shown.append(h("details", { class: "traceback", open: true }, h("summary", {}, "Traceback"), h("pre", { class: "text", tabindex: "0" }, entry.data)));
      return true;
    };
    offLogs?.();
    offLogs = null;
    if (!find()) offLogs = on("logs", () => { if (find()) { offLogs?.(); offLogs = null; } });
  }

  function past() {
    const subject = params();
    return [...store.calls.values()].filter((one) => one.connection === store.current && one.method === method && (one.params.name ?? one.params.uri) === (subject.name ?? subject.uri)).reverse().slice(0, 20);
  }

  // After a visit to another panel, show the present state of the call.
  function resume() {
    const newest = past()[0];
    if (!newest || !runner.begun.has(newest.id)) return;
    if (newest.state !== "running") {
      show(newest.id).catch(() => {});
      return;
    }
    wait();
    running = newest.id;
    stop.disabled = false;
    progressed(newest);
  }

  function recall() {
    const same = past();
    fill(history, same.length ? h("details", {}, h("summary", {}, `History (${same.length})`), h("ul", {}, ...same.map((one) => h("li", {}, h("span", { class: `dot ${one.state === "failed" || one.failed ? "bad" : one.state === "done" ? "good" : ""}` }),
      h("time", {}, clock(one.at)), h("span", { class: "type" }, duration(one.ms)), h("code", {}, JSON.stringify(one.params.arguments ?? {}).slice(0, 80)),
      button("Show", () => show(one.id), { class: "small quiet" }), button("Repeat", () => send(one.params), { class: "small quiet" }))))) : null);
  }

  copies.addEventListener("change", async () => {
    const connection = current();
    const kind = copies.value;
    copies.value = "";
    const what = params();
    const text = kind === "python" ? asPython(connection, method, what) : kind === "command" ? asCommand(connection, method, what) : last ? await asCurl(last) : null;
    const box = dialog("Copy", text ? plain(text) : h("p", {}, "Only calls over HTTP have a curl command: run this call first."));
    if (text) {
      copy(text);
      box.querySelector("pre").classList.add("snippet");
    }
  });

  function progressed(call) {
    if (!call?.progress || call.id !== running) return;
    const { progress, total, message } = call.progress;
    if (total) {
      bar.max = total;
      bar.value = progress;
    }
    fill(words, total ? `${progress} of ${total}` : `${progress}`, message ? ` · ${message}` : "");
  }

  const offs = [on("call", look), on("progress", progressed)];
  const task = tasks ? h("label", { class: "inline" }, asTask, " as a task") : null;
  const runBar = h("div", { class: "run-bar" }, refused, h("div", { class: "actions" }, run, stop, task, copies));
  const output = h("div", { class: "run-output" }, h("div", { class: "progress" }, state, bar, words), shown, history);
  // The form and the run bar in one column, the result in the other where the page is wide.
  const beside = (input) => h("div", { class: "runner" }, h("div", { class: "run-input" }, input, runBar), output);
  recall();
  resume();
  return { get element() { return h("div", { class: "runner single" }, runBar, output); }, beside, result: shown, go, send, destroy: () => { offs.forEach((off) => off()); offLogs?.(); } };
}

// Scroll a new result into view, and mark it for a moment.
function reveal(place) {
  const { top, bottom } = place.getBoundingClientRect();
  if (top < 0 || top > innerHeight - 160 || bottom > innerHeight) place.scrollIntoView({ block: matchMedia(NARROW).matches || bottom - top > innerHeight * 0.8 ? "start" : "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  place.classList.remove("fresh");
  void place.offsetWidth; // begin the animation again
  place.classList.add("fresh");
}

runner.begun = new Set(); // calls of this page, by number

export function chips(...texts) {
  const found = texts.filter(Boolean);
  return found.length ? h("div", { class: "chips" }, ...found.map((text) => h("span", { class: `chip ${/destructive/.test(text) ? "bad" : ""}` }, text))) : null;
}
