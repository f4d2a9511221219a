import { post } from "../api.js";
import { button, clock, dialog, empty, fill, h, link, safeUrl, unique } from "../dom.js";
import { form } from "../form.js";
import { block } from "../result.js";
import { current, on, store } from "../store.js";
import { tree } from "../tree.js";

async function answer(question, value, said) {
  try {
    await post("answer", { question: question.id, answer: value });
  } catch (error) {
    said.textContent = error.message;
  }
}

function elicit(question, said) {
  const { params } = question;
  const refuse = [button("Decline", () => answer(question, { action: "decline" }, said)), button("Cancel", () => answer(question, { action: "cancel" }, said))];
  if (params.mode === "url") {
    const ok = button("I have opened the URL", () => answer(question, { action: "accept" }, said), { class: "primary", disabled: !safeUrl(params.url) });
    return [h("p", {}, link(params.url, params.url)), h("div", { class: "actions" }, ok, ...refuse)];
  }
  const made = form(params.requestedSchema ?? {}, {}, () => { said.textContent = ""; }, { blank: true });
  const send = () => {
    const problem = made.reveal();
    if (problem) said.textContent = problem;
    else answer(question, { action: "accept", content: made.value() ?? {} }, said);
  };
  made.element.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.tagName === "INPUT") send(); });
  return [made.element, h("div", { class: "actions" }, button("Accept", send, { class: "primary" }), ...refuse)];
}

function sample(question, said) {
  const { params } = question;
  const id = unique("reply");
  const reply = h("textarea", { id, rows: 4 });
  const model = h("input", { type: "text", value: "by-hand", "aria-label": "Model" });
  const messages = (params.messages ?? []).map((one) => h("div", { class: `message ${one.role === "user" ? "user" : "assistant"}` }, h("span", { class: "role" }, one.role), ...[].concat(one.content).map((part) => block(part))));
  const send = () => answer(question, { role: "assistant", content: { type: "text", text: reply.value }, model: model.value || "by-hand", stopReason: "endTurn" }, said);
  return [params.systemPrompt ? h("p", { class: "note" }, `System: ${params.systemPrompt}`) : null, ...messages, h("details", {}, h("summary", {}, "Full request"), tree(params)),
    h("div", { class: "field" }, h("label", { for: id }, "Your answer as the model"), reply), h("div", { class: "field" }, h("label", {}, "Model", model)),
    h("div", { class: "actions" }, button("Send", send, { class: "primary" }), button("Reject", () => answer(question, { error: "the user rejected the request" }, said)))];
}

// The tool, resource or prompt whose call the request belongs to.
export function subjectOf(question) {
  const call = store.calls.get(question.call);
  return call?.params.name ?? call?.params.uri ?? null;
}

export function card(question) {
  const said = h("p", { class: "note bad", role: "alert" });
  const from = store.connections.get(question.connection)?.label ?? "";
  const parts = question.kind === "elicit" ? elicit(question, said) : sample(question, said);
  return h("article", { class: "card question", "data-question": question.id, "data-kind": question.kind },
    h("div", { class: "block-head" }, h("strong", {}, question.kind === "elicit" ? "Elicitation request" : "Sampling request"), subjectOf(question) ? h("span", { class: "subject" }, "of ", h("code", {}, subjectOf(question))) : null, h("span", { class: "type" }, from), h("time", {}, clock(question.at * 1000))),
    h("p", { class: "asked" }, question.params.message ?? ""), ...parts, said);
}

// A request opens as a dialog over its call. Closing the dialog leaves the request open.
export function requestDialog(question) {
  const name = subjectOf(question) ?? store.connections.get(question.connection)?.label ?? "The server";
  const box = dialog(question.kind === "elicit" ? `${name} requests input` : `${name} requests a model's answer`, card(question));
  box.classList.add("request");
  const place = box.querySelector(".question");
  // The first field gets the focus, but no answer: Enter must not accept a request that has just opened.
  (place.querySelector("input, select, textarea") ?? box.querySelector("h2"))?.focus();
  return box;
}

function settings() {
  const connection = current();
  if (!connection) return null;
  const said = h("p", { class: "note", role: "status" });
  const change = async (what) => {
    try {
      await post("settings", { connection: connection.id, ...what });
      said.textContent = "Saved.";
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const mode = h("select", { id: unique("mode") }, ...[["hand", "by hand, on this page"], ["mock", "a mock that echoes the request"], ["anthropic", "Anthropic"], ["openai", "OpenAI"], ["ollama", "Ollama"], ["lmstudio", "LM Studio"]].map(([id, text]) => h("option", { value: id }, text)));
  mode.value = connection.sampling.mode;
  const reply = h("input", { type: "text", placeholder: "reply of the mock (empty: the request)", "aria-label": "Reply of the mock" });
  const model = h("input", { type: "text", placeholder: "model", "aria-label": "Model", value: connection.sampling.model });
  const base = h("input", { type: "url", placeholder: "base URL (optional)", "aria-label": "Base URL" });
  const key = h("input", { type: "password", placeholder: "API key (kept in memory only)", "aria-label": "Key", autocomplete: "off" });
  const more = h("div", { class: "control" });
  const show = () => fill(more, ...(mode.value === "hand" ? [] : mode.value === "mock" ? [reply] : [model, base, key]));
  mode.addEventListener("change", show);
  show();
  const roots = h("textarea", { rows: 3, id: unique("roots"), spellcheck: "false", placeholder: "file:///home/me/project" });
  roots.value = connection.roots.map((one) => one.uri).join("\n");
  return h("section", { class: "card settings" }, h("h2", {}, "Answers to this server"),
    h("div", { class: "field" }, h("label", { for: mode.id }, "Sampling"), h("div", { class: "control" }, mode, more), button("Save", () => change({ sampling: { mode: mode.value, reply: reply.value, model: model.value, base_url: base.value, api_key: key.value } }), { class: "small", "aria-label": "Keep how sampling is answered" })),
    h("div", { class: "field" }, h("label", { for: roots.id }, "Roots, one URI per line"), roots, button("Save", () => change({ roots: roots.value.split("\n").map((one) => one.trim()).filter(Boolean).map((uri) => ({ uri, name: uri.split("/").pop() })) }), { class: "small", "aria-label": "Keep the roots" })), said);
}

export function view() {
  const place = h("div", { class: "questions", "aria-live": "polite" });
  const below = h("div");
  const element = h("div", { class: "column" }, place, below);
  const cards = new Map();
  const draw = () => {
    for (const [id, made] of cards) {
      if (store.questions.has(id)) continue;
      made.remove();
      cards.delete(id);
      if (document.activeElement === document.body) document.getElementById("panel").focus();
    }
    for (const question of store.questions.values()) {
      if (cards.has(question.id)) continue;
      const made = card(question);
      cards.set(question.id, made);
      place.append(made);
      made.querySelector("input, select, textarea, button")?.focus();
    }
    place.querySelector(".empty")?.remove();
    if (!cards.size) place.append(empty("No requests", "Elicitation and sampling requests of the server wait here for your answer."));
  };
  const below_ = () => fill(below, settings());
  const offs = [on("questions", draw), on("state", draw), on("current", below_)];
  draw();
  below_();
  // Move the focus to the first request.
  requestAnimationFrame(() => place.querySelector(".question :is(input, select, textarea, button)")?.focus());
  return { element, destroy: () => offs.forEach((off) => off()) };
}
