"""A tool with a page: a live poll inside the chat. `dovetail run app.py`

Hosts that show MCP Apps open the page in a sandbox; it speaks to them with messages, and they call the tools for it.
All other clients get the same counts as text.
"""

from dataclasses import dataclass, field

from dovetail import App, Server, ToolError

server = Server("poll", version="1.0.0")

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Poll</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; color-scheme: light dark; margin: 1rem; }
  button { font: inherit; display: grid; grid-template-columns: 8rem 1fr 3rem; gap: 1rem; margin: .25rem 0; }
  meter { width: 100%; align-self: center; }
</style>
<h1 id="question"></h1>
<div id="choices" role="group" aria-labelledby="question"></div>
<script>
  let last = 0;
  const waiting = new Map();
  const send = (method, params) => new Promise((done) => {
    waiting.set(++last, done);
    parent.postMessage({ jsonrpc: "2.0", id: last, method, params }, "*");
  });
  function show(poll) {
    const all = Object.values(poll.votes).reduce((sum, votes) => sum + votes, 0) || 1;
    document.getElementById("question").textContent = poll.question;
    document.getElementById("choices").replaceChildren(...Object.entries(poll.votes).map(([name, votes]) => {
      const button = document.createElement("button"), meter = document.createElement("meter");
      meter.value = votes / all;
      button.append(name, meter, String(votes));
      button.onclick = async () =>
        show((await send("tools/call", { name: "vote", arguments: { choice: name } })).structuredContent);
      return button;
    }));
  }
  addEventListener("message", ({ source, data }) => {
    if (source !== parent) return;
    if (waiting.has(data.id)) { waiting.get(data.id)(data.result); waiting.delete(data.id); }
    if (data.method === "ui/notifications/tool-result") show(data.params.structuredContent);
  });
  send("ui/initialize", {
    protocolVersion: "2026-01-26", appInfo: { name: "poll", version: "1.0.0" }, appCapabilities: {},
  }).then(() => parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/initialized" }, "*"));
</script>
</html>
"""


@dataclass
class Poll:
    question: str = ""
    votes: dict[str, int] = field(default_factory=dict[str, int])


poll = Poll()


def told(result: Poll) -> str:
    """The poll in words, for clients that show no pages."""
    return f"{result.question} " + ", ".join(f"{name}: {votes}" for name, votes in result.votes.items())


@server.tool(app=App(html=PAGE, fallback=told))
def ask(question: str, choices: list[str]) -> Poll:
    """Begin a poll and show it."""
    if not 2 <= len(set(choices)) <= 10:
        raise ToolError("A poll has two to ten different choices.")
    poll.question, poll.votes = question, dict.fromkeys(choices, 0)
    return poll


@server.tool
def vote(choice: str) -> Poll:
    """Vote; the page calls this for each click."""
    if choice not in poll.votes:
        raise ToolError(f"There is no choice {choice!r}.")
    poll.votes[choice] += 1
    return poll
