import { post } from "../api.js";
import { button, clock, duration, empty, fill, h } from "../dom.js";
import { current, noteTask, on, store } from "../store.js";

const OVER = ["completed", "failed", "cancelled"];

function timeline(known) {
  const changes = known.changes;
  const end = OVER.includes(known.task.status) ? changes[changes.length - 1].at : Date.now();
  const whole = Math.max(1, end - changes[0].at);
  const parts = changes.map((change, index) => {
    const until = changes[index + 1]?.at ?? end;
    const share = Math.max(4, ((until - change.at) / whole) * 100);
    return h("span", { class: `span ${change.status}`, style: { flexGrow: String(share) }, title: `${change.status} at ${clock(change.at)}` }, change.status);
  });
  return h("div", { class: "timeline", role: "img", "aria-label": changes.map((one) => `${one.status} ${clock(one.at)}`).join(", ") }, ...parts);
}

// Progress from the call, or as the status message of the task says it.
function progressOf(known, call) {
  const meta = known.task._meta ?? {};
  const { progress, total, message } = call?.progress ?? { progress: meta["dovetail/progress"], total: meta["dovetail/total"], message: known.task.statusMessage };
  if (progress === undefined) return null;
  return h("div", { class: "progress" }, h("progress", { max: total ?? null, value: total ? progress : undefined, "aria-label": "Progress" }), h("span", { class: "progress-words" }, total ? `${progress} of ${total}` : `${progress}`, message ? ` · ${message}` : ""));
}

function card(known) {
  const call = store.calls.get(known.call);
  const over = OVER.includes(known.task.status);
  const cancel = button("Cancel", () => post("cancel-task", { connection: known.connection, task: known.id }).catch(() => {}), { class: "small danger", disabled: over });
  return h("article", { class: "card task", "data-task": known.id }, h("div", { class: "block-head" }, h("strong", { class: "tool-name" }, call?.params.name ?? "A task of another client"), h("span", { class: `chip ${known.task.status === "completed" ? "good" : known.task.status === "failed" ? "bad" : known.task.status === "input_required" ? "warn" : ""}` }, known.task.status), h("code", { class: "type" }, known.id), h("span", { class: "type" }, `since ${clock(known.changes[0].at)}, ${duration((over ? known.changes[known.changes.length - 1].at : Date.now()) - known.changes[0].at)}`), cancel),
    over ? null : progressOf(known, call),
    known.task.statusMessage && over ? h("p", {}, known.task.statusMessage) : null, timeline(known));
}

export function view() {
  const place = h("div", { class: "column", "aria-live": "polite" });
  const said = h("span", { class: "note", role: "status" });
  const draw = () => {
    const mine = [...store.tasks.values()].filter((one) => one.connection === store.current).reverse();
    fill(place, ...(mine.length ? mine.slice(0, 100).map(card) : [empty("No tasks", "Tools that run as tasks appear here, with their state.")]));
  };
  const refresh = async () => {
    if (!current()) return;
    try {
      const { tasks } = await post("tasks", { connection: store.current });
      for (const task of tasks) noteTask(store.current, task);
      said.textContent = `${tasks.length} listed`;
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const offs = [on("tasks", draw), on("current", draw), on("call", (call) => call.task && refresh()), on("progress", (call) => call.task && draw())];
  const timer = setInterval(() => [...store.tasks.values()].some((one) => !OVER.includes(one.task.status)) && refresh(), 1000);
  draw();
  refresh();
  return { element: h("div", { class: "column" }, h("div", { class: "actions" }, button("Refresh", refresh), said), place), destroy: () => { clearInterval(timer); offs.forEach((off) => off()); } };
}
