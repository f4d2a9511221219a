// The layout around the panels: servers, navigation, the connection, and notices.
import { post, token } from "./api.js";
import { authorization, connectDialog } from "./connect.js";
import { button, dialog, empty, fill, h, icon, refill, say } from "./dom.js";
import { begun, choose, current, emit, on, store } from "./store.js";
import { view as tools } from "./views/tools.js";
import { runner, workbench } from "./workbench.js";

const PANELS = [["tools", "Tools"], ["resources", "Resources"], ["prompts", "Prompts"], ["requests", "Requests"], ["tasks", "Tasks"], ["logs", "Logs"], ["messages", "Messages"], ["revisions", "Revisions"], ["health", "Health"], ["sessions", "Sessions"]];
const place = (id) => document.getElementById(id);
let shown = null;
let turn = 0;
let told = "";
let removed = null;
let asking = null; // the dialog of a request, with its number

function panelName() {
  const name = location.hash.slice(1);
  return PANELS.some(([one]) => one === name) ? name : "tools";
}

async function showPanel() {
  turn += 1;
  const mine = turn;
  const name = panelName();
  const module = name === "tools" ? { view: tools } : await import(`./views/${name}.js`);
  if (mine !== turn) return;
  shown?.destroy?.();
  shown = module.view();
  place("panel").dataset.panel = name;
  place("panel").setAttribute("aria-label", PANELS.find(([one]) => one === name)[1]);
  fill(place("panel"), shown.element);
  drawNav();
  // On a narrow page the navigation is a scrolling row: keep the selected panel visible.
  const nav = place("nav");
  const chosen = nav.querySelector("[aria-current]");
  nav.scrollLeft += chosen.getBoundingClientRect().left - nav.getBoundingClientRect().left - (nav.clientWidth - chosen.offsetWidth) / 2;
}

function drawNav() {
  const name = panelName();
  refill(place("nav"), ...PANELS.map(([id, text]) => {
    const count = id === "requests" ? store.questions.size : 0;
    return h("a", { href: `#${id}`, "aria-current": id === name ? "page" : null }, icon(id), h("span", {}, text), count ? h("span", { class: "badge", "aria-label": `${count} waiting` }, count) : null);
  }));
}

function drawServers() {
  const all = [...store.connections.values()];
  const name = (one) => one.server?.title ?? one.server?.name ?? one.label;
  const shared = (one) => all.filter((other) => name(other) === name(one)).length > 1;
  const rows = all.map((one) => h("li", { class: one.id === store.current ? "chosen" : "" },
    button([h("span", { class: `dot ${stateClass(one)}`, title: one.state }), h("span", { class: "title" }, name(one), shared(one) ? h("span", { class: "type" }, ` ${one.label}`) : null)], () => choose(one.id), { class: "server", "aria-pressed": String(one.id === store.current), title: one.label }),
    button(icon("close"), () => remove(one), { class: "quiet square small", "aria-label": `Disconnect ${one.label}` })));
  refill(place("servers"), h("ul", { class: "servers", "aria-label": "Servers" }, ...rows), button([icon("plus"), "Connect"], connectDialog, { class: "connect" }));
}

// Removing a server can be undone until another one is removed.
async function remove(one) {
  await post("disconnect", { connection: one.id });
  removed = one;
  drawNotices();
}

async function undo() {
  const { id } = removed;
  removed = null;
  try {
    choose((await post("restore", { connection: id })).connection);
  } catch (error) {
    say(error.message);
  }
  drawNotices();
}

function stateClass(one) {
  return one.state === "ready" ? "good" : one.state === "failed" ? "bad" : one.state === "closed" ? "" : "warn";
}

function drawHead() {
  const one = current();
  if (!one) {
    fill(place("head"), h("h1", {}, "Inspector"), h("span", { class: "type" }, store.online ? "no server" : "connecting"));
    return;
  }
  const revision = h("select", { "aria-label": "Revision" }, ...["auto", "modern", "legacy", ...[...store.revisions].reverse()].map((name) => h("option", { value: name }, name === "auto" ? `automatic${one.revision && one.wanted === "auto" ? ` (${one.revision})` : ""}` : name)));
  revision.value = one.wanted;
  revision.addEventListener("change", () => post("reconnect", { connection: one.id, revision: revision.value }).catch((error) => say(error.message)));
  refill(place("head"), h("h1", {}, one.server?.title ?? one.server?.name ?? one.label), h("span", { class: "type" }, one.server?.version ?? ""),
    h("span", { class: `chip ${stateClass(one)}`, role: "status" }, one.state), h("span", { class: "type where", title: one.label }, one.label), h("span", { class: "grow" }), revision,
    button("Reconnect", () => post("reconnect", { connection: one.id, revision: one.wanted }), { class: "small" }));
}

function drawNotices() {
  const found = [];
  if (!token) found.push(h("div", { class: "notice bad" }, "This tab has no token: open the link that the inspector has printed."));
  else if (!store.online && store.ready) found.push(h("div", { class: "notice bad" }, "The inspector does not respond. Check whether it is still running."));
  for (const [name, value] of Object.entries(store.notes)) {
    if (value) found.push(h("div", { class: "notice bad", "data-note": name }, h("strong", {}, value.title), value.text ? h("pre", { class: "text", tabindex: "0" }, value.text) : null));
  }
  if (removed) {
    found.push(h("div", { class: "notice ask" }, h("span", {}, `Removed ${removed.label}.`), h("span", { class: "actions" }, button("Undo", undo, { class: "small" }),
      button(icon("close"), () => { removed = null; drawNotices(); }, { class: "quiet square small", "aria-label": "Close this notice" }))));
  }
  const question = [...store.questions.values()][0];
  if (question && panelName() !== "requests") {
    found.push(h("div", { class: "notice ask" }, h("span", {}, `${question.kind === "elicit" ? "Elicitation request" : "Sampling request"}: ${question.params.message ?? ""}`), h("a", { href: "#requests", class: "button" }, "Answer")));
  }
  const one = current();
  if (one?.problem) {
    const authorize = one.unauthorized ? button("Authorize", () => { dialog("Authorize", authorization(one)).dataset.connection = one.id; }, { class: "small" }) : null;
    found.push(h("div", { class: "notice bad" }, h("strong", {}, `${one.label}: `), one.problem.message, " ", authorize));
  }
  // Screen readers read notices when they are drawn, so existing ones are not drawn again.
  const words = found.map((one) => one.textContent).join("\n");
  if (words !== told) refill(place("notices"), ...found);
  told = words;
}

function drawAll() {
  drawServers();
  drawHead();
  drawNav();
  drawNotices();
}

// Open a request as a dialog, unless the panel shows it anyway or another dialog is open.
async function askNext(question) {
  const { requestDialog } = await import("./views/requests.js");
  if (!store.questions.has(question.id) || panelName() === "requests" || document.querySelector("dialog")) return;
  const box = requestDialog(question);
  asking = { id: question.id, box };
  box.addEventListener("close", () => { if (asking?.box === box) asking = null; });
}

// After the answer: the tool of the call, with what becomes of it.
function showCall(question) {
  const call = store.calls.get(question.call);
  if (call?.method !== "tools/call") return;
  runner.begun.add(call.id);
  if (call.connection !== store.current) choose(call.connection);
  (workbench.memory.tools ??= { chosen: new Map(), filter: "" }).chosen.set(call.connection, call.params.name);
  if (panelName() !== "tools") location.hash = "#tools";
  else if (shown?.choose && document.querySelector('.list [aria-selected="true"]')?.dataset.key !== call.params.name) shown.choose(call.params.name);
}

function theme() {
  const kept = localStorage.getItem("dovetail-theme");
  if (kept) document.documentElement.dataset.theme = kept;
  fill(place("foot"), button([icon("theme"), h("span", {}, "Theme")], () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("dovetail-theme", document.documentElement.dataset.theme);
  }, { class: "quiet", "aria-label": "Theme" }));
}

theme();
// The part of the URL after # is the name of the shown panel.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  place("panel").focus();
});
for (const name of ["state", "connection", "current", "online"]) on(name, drawAll);
on("questions", (question) => {
  drawNav();
  drawNotices();
  if (!question) return;
  say("The server requests input");
  askNext(question);
});
on("answered", (question) => {
  if (!asking || asking.id !== question?.id) return;
  asking.box.close();
  asking = null;
  const next = [...store.questions.values()][0];
  if (next) askNext(next);
  else showCall(question);
});
on("notes", drawNotices);
on("connection", (one) => { if (one?.state === "ready") document.querySelector(`dialog[data-connection="${one.id}"]`)?.close(); });
on("state", () => {
  if (!store.connections.size && !document.querySelector("dialog")) fill(place("panel"), empty("Inspect a server", "Connect to a URL, a Python file, a command or the servers of an mcp.json.", button("Connect", connectDialog, { class: "primary" })));
  else if (!shown?.element.isConnected) showPanel();
});
on("current", () => { if (!shown?.element.isConnected && store.connections.size) showPanel(); });
addEventListener("hashchange", () => {
  showPanel();
  drawNotices();
});
drawAll();
showPanel().then(() => emit("drawn"));
if (token) begun();
performance.mark("dovetail-drawn");
