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

function card(known) {
  const over = OVER.includes(known.task.status);
  const cancel = button("Cancel", () => post("cancel-task", { connection: known.connection, task: known.id }).catch(() => {}), { class: "small danger", disabled: over });
  return h("article", { class: "card task", "data-task": known.id }, h("div", { class: "block-head" }, h("strong", {}, known.task.status), h("code", {}, known.id), h("span", { class: "type" }, `since ${clock(known.changes[0].at)}, ${duration((over ? known.changes[known.changes.length - 1].at : Date.now()) - known.changes[0].at)}`), cancel),
    known.task.statusMessage ? h("p", {}, known.task.statusMessage) : null, timeline(known));
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
  const offs = [on("tasks", draw), on("current", draw), on("call", (call) => call.task && refresh())];
  const timer = setInterval(() => [...store.tasks.values()].some((one) => !OVER.includes(one.task.status)) && refresh(), 1000);
  draw();
  refresh();
  return { element: h("div", { class: "column" }, h("div", { class: "actions" }, button("Refresh", refresh), said), place), destroy: () => { clearInterval(timer); offs.forEach((off) => off()); } };
}
