// The state of the page, and its listeners.
import { get, listen, post } from "./api.js";

const FRAMES_KEPT = 120000;
const LOGS_KEPT = 5000;

export const store = {
  connections: new Map(), current: 0, calls: new Map(), questions: new Map(), logs: [], lists: new Map(), notes: {},
  frames: [], revisions: [], updates: [], findings: new Map(), tasks: new Map(), online: false, ready: false,
};

const heard = new Map();

export function on(name, listener) {
  if (!heard.has(name)) heard.set(name, new Set());
  heard.get(name).add(listener);
  return () => heard.get(name).delete(listener);
}

export function emit(name, value) {
  for (const listener of [...(heard.get(name) ?? [])]) listener(value);
}

export function current() {
  return store.connections.get(store.current);
}

export function choose(id) {
  store.current = id;
  emit("current", id);
}

function begin(state) {
  store.connections = new Map(state.connections.map((one) => [one.id, one]));
  store.calls = new Map(state.calls.map((one) => [one.id, one]));
  store.questions = new Map(state.questions.map((one) => [one.id, one]));
  store.logs = state.logs.sort((one, other) => one.at - other.at);
  store.revisions = state.revisions;
  store.notes = state.notes;
  store.lists.clear();
  if (!store.connections.has(store.current)) store.current = state.connections[0]?.id ?? 0;
  store.ready = true;
  emit("state");
  fetchFrames(state.frames).catch(() => {});
}

// Load the messages from before this page was opened, in batches.
async function fetchFrames({ first, last }) {
  store.frames = [];
  const older = [];
  let after = first - 1;
  while (after < last) {
    const { rows } = await get("frames", { after });
    if (!rows.length) break;
    older.push(...rows.filter((row) => row[0] <= last));
    after = rows[rows.length - 1][0];
  }
  const newest = older.length ? older[older.length - 1][0] : 0;
  store.frames = older.concat(store.frames.filter((row) => row[0] > newest));
  emit("frames", []);
}

const EVENTS = {
  connection({ connection }) {
    const before = store.connections.get(connection.id);
    store.connections.set(connection.id, connection);
    if (!store.current) choose(connection.id);
    if (connection.state === "ready" && before?.state !== "ready") store.lists.delete(connection.id);
    emit("connection", connection);
  },
  disconnected({ connection }) {
    store.connections.delete(connection);
    store.lists.delete(connection);
    if (store.current === connection) choose([...store.connections.keys()][0] ?? 0);
    emit("connection", null);
  },
  call({ call }) {
    store.calls.set(call.id, call);
    if (store.calls.size > 500) store.calls.delete(store.calls.keys().next().value);
    emit("call", call);
  },
  progress(event) {
    const call = store.calls.get(event.call);
    if (!call) return;
    call.progress = event;
    emit("progress", call);
  },
  question({ question }) {
    store.questions.set(question.id, question);
    emit("questions", question);
  },
  answered({ question }) {
    const answered = store.questions.get(question);
    store.questions.delete(question);
    emit("questions", null);
    emit("answered", answered);
  },
  log({ entry }) {
    store.logs.push(entry);
    if (store.logs.length > LOGS_KEPT * 1.2) store.logs.splice(0, store.logs.length - LOGS_KEPT);
    later("logs");
  },
  listChanged({ connection, list }) {
    store.lists.delete(connection);
    emit("lists", { connection, list });
  },
  updated(event) {
    const connection = store.connections.get(event.connection);
    if (connection) connection.subscribed[event.uri] = event.count;
    store.updates.push({ ...event, at: Date.now() });
    if (store.updates.length > 1000) store.updates.splice(0, 200);
    emit("updated", event);
  },
  task({ connection, task, call }) {
    noteTask(connection, task, call);
  },
  note({ name, value }) {
    store.notes[name] = value;
    emit("notes");
  },
  reload() {
    get("state").then(begin);
  },
};

export function noteTask(connection, task, call) {
  const key = `${connection} ${task.taskId}`;
  const known = store.tasks.get(key) ?? { connection, id: task.taskId, changes: [] };
  const last = known.changes[known.changes.length - 1];
  if (!last || last.status !== task.status) known.changes.push({ at: Date.now(), status: task.status });
  if (call) known.call = call;
  known.task = { ...known.task, ...task };
  store.tasks.set(key, known);
  if (store.tasks.size > 500) store.tasks.delete(store.tasks.keys().next().value);
  emit("tasks");
}

// Frequent events are delivered once per animation frame.
const waiting = new Set();
function later(name) {
  if (waiting.has(name)) return;
  waiting.add(name);
  requestAnimationFrame(() => {
    waiting.delete(name);
    emit(name, []);
  });
}

function portion(found) {
  if (found.state) begin(found.state);
  for (const event of found.events ?? []) EVENTS[event.type]?.(event);
  if (found.frames) {
    for (const row of found.frames) store.frames.push(row);
    if (store.frames.length > FRAMES_KEPT * 1.1) store.frames.splice(0, store.frames.length - FRAMES_KEPT);
    later("frames");
  }
}

export function begun() {
  listen(portion, (online, problem) => {
    if (online !== store.online || problem) {
      store.online = online;
      emit("online", problem);
    }
  });
}

// The lists of a server, loaded once until they change.
export function lists(id) {
  if (!store.lists.has(id)) {
    const asked = post("list", { connection: id });
    store.lists.set(id, asked);
    asked.catch(() => { if (store.lists.get(id) === asked) store.lists.delete(id); });
  }
  return store.lists.get(id);
}

export async function call(method, params, options = {}) {
  const { call: id } = await post("call", { connection: store.current, method, params, ...options });
  return id;
}

// Wait for the end of a call.
export async function finished(method, params, options) {
  const id = await call(method, params, options);
  return new Promise((resolve) => {
    const look = () => {
      const known = store.calls.get(id);
      if (!known || known.state === "running") return;
      off();
      get("call", { id }).then(resolve);
    };
    const off = on("call", look);
    look();
  });
}
