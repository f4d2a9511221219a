"""A server with something for every panel, and one that would like to run a script. Also a file for commands."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Literal

from dovetail import App, Audio, Context, Image, ResourceLink, Server, ToolError

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
EVIL_SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="top.hacked=1"><script>top.hacked = 1</script></svg>'
)
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f0003860180"
    "5a347d6b0000000049454e44ae426082"
)


@dataclass
class Place:
    city: str
    country: str = "NO"


@dataclass
class Day:
    day: str
    high: float


@dataclass
class Forecast:
    place: str
    days: list[Day]


@dataclass
class Seat:
    row: int
    window: bool = False


@dataclass
class Circle:
    radius: float


@dataclass
class Box:
    width: float


PAGE = """<!doctype html><meta charset="utf-8"><p id="shown">waiting</p><button id="more">More</button><script>
let next = 1; const waiting = new Map();
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise((done) => {
  waiting.set(next, done);
  send({ id: next++, method, params });
});
const show = (text) => { document.getElementById("shown").textContent = text; };
addEventListener("message", ({ data }) => {
  if (data.id !== undefined && waiting.has(data.id)) waiting.get(data.id)(data.error ?? data.result);
  else if (data.method === "ui/notifications/tool-result") show("result " + data.params.content[0].text);
});
ask("ui/initialize", { protocolVersion: "2026-01-26", appInfo: { name: "page", version: "1" }, appCapabilities: {} })
  .then(() => send({ method: "ui/notifications/initialized", params: {} }));
document.getElementById("more").onclick = async () => {
  let reach = "nothing";
  try { reach = parent.document.title } catch { }
  try { await fetch("/api/state"); reach = "the inspector" } catch { }
  show("more " + (await ask("tools/call", { name: "fail", arguments: {} })).content[0].text + ", reached " + reach);
};
</script>"""


def build() -> Server:
    server = Server("weather", version="2.1.0", instructions="Ask before you travel.")

    @server.tool(title="Forecast", annotations={"readOnlyHint": True})
    async def forecast(
        place: Place, days: int = 3, unit: Literal["C", "F"] = "C", tags: list[str] | None = None
    ) -> Forecast:
        """The weather of the next days."""
        names = ("Mon", "Tue", "Wed", "Thu")
        return Forecast(place.city, [Day(name, 10 + at) for at, name in enumerate(names[:days])])

    @server.tool
    async def draw(shape: Circle | Box) -> str:
        """Draw one of two shapes."""
        return repr(shape)

    @server.tool
    async def book(flight: str, ctx: Context) -> str:
        """Ask for a seat."""
        answer = await ctx.elicit("Which seat would you like?", Seat)
        return repr(answer.data) if answer.action == "accept" else answer.action

    @server.tool
    async def count(ctx: Context, steps: int = 3) -> str:
        """Report progress and log, then show Markdown."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
            await ctx.warning(f"counted {step + 1}")
        return "# Counted\n\n- one\n- **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"

    @server.tool
    async def wait(ctx: Context) -> str:
        """Wait until cancelled."""
        await ctx.report_progress(1, 4, "a quarter")
        await asyncio.get_running_loop().create_future()
        return ""

    @server.tool
    async def think(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("Say something", max_tokens=10)).text

    @server.tool
    async def media() -> list[str | Image | Audio | ResourceLink]:
        """A picture, a sound and a link."""
        link = ResourceLink(name="now", uri="weather://oslo/now")
        return ["look:", Image(data=PIXEL, format="png"), Audio(data=b"beep", format="wav"), link]

    @server.tool
    async def where(ctx: Context) -> list[str]:
        """Ask for the roots."""
        return [root.uri for root in await ctx.list_roots()]

    @server.tool
    async def mute() -> str:
        return "it does not say what it is for"

    @server.tool
    async def fail() -> str:
        """Fail."""
        raise ToolError("out of paper")

    @server.tool
    async def large(size: int) -> str:
        """As many characters as are asked for."""
        return "x" * size

    @server.tool
    async def chatter(ctx: Context, messages: int) -> str:
        """Many messages."""
        for message in range(messages):
            await ctx.report_progress(message, messages)
            if message % 500 == 0:
                await asyncio.sleep(0)
        return "said"

    @server.tool
    async def flow(ctx: Context, seconds: int) -> str:
        """A thousand messages a second."""
        loop = asyncio.get_running_loop()
        begun, said = loop.time(), 0
        while (passed := loop.time() - begun) < seconds:
            for _ in range(said, int(passed * 1000)):
                await ctx.report_progress(said, seconds * 1000)
                said += 1
            await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.01)
        return str(said)

    @server.tool(task="required")
    async def job(ctx: Context) -> str:
        """Runs as a task."""
        await ctx.report_progress(1, 1)
        return "worked"

    @server.tool(task="optional")
    async def render(ctx: Context) -> str:
        """A job that asks."""
        return f"rendered {(await ctx.elicit('Go on?', bool)).data}"

    @server.tool(app=App(html=PAGE))
    async def chart() -> str:
        """A result with a separate page."""
        return "forty-two"

    @server.tool
    async def touch() -> str:
        """Say that the weather has changed."""
        await server.notify_resource_updated("weather://oslo/now")
        return "touched"

    @server.resource("weather://oslo/now", mime_type="application/json")
    async def now() -> str:
        """The weather now."""
        return '{"degrees": 3}'

    @server.resource("weather://{city}/week")
    async def week(city: str) -> str:
        """A week."""
        return f"all of {city}"

    @server.completion(ref="weather://{city}/week", argument="city")
    async def cities(value: str) -> list[str]:
        return [city for city in ("oslo", "bergen", "berlin") if city.startswith(value)]

    @server.prompt
    async def plan(city: str) -> str:
        """Plan a trip."""
        return f"Plan a trip to {city}."

    @server.completion(ref="plan", argument="city")
    async def towns(value: str) -> list[str]:
        return [city for city in ("Oslo", "Bergen") if city.startswith(value)]

    return server


def build_hostile() -> Server:
    """Every text a script, every link one that runs something."""
    server = Server(SCRIPT, version=SCRIPT, instructions=SCRIPT)

    async def talk() -> list[str | Image]:
        return [
            f"# {SCRIPT}\n\n[click](javascript:window.hacked=1) ![x](javascript:window.hacked=1)"
            " [data](data:text/html,<script>top.hacked=1</script>) **bold** <b>no</b>\n",
            SCRIPT,
            Image(data=EVIL_SVG, format="svg+xml"),
        ]

    server.add_tool(talk, name="talk", title=SCRIPT, description=f"**{SCRIPT}**\n\n{SCRIPT}")

    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit(SCRIPT, Seat)
        return answer.action

    server.add_tool(ask, name="ask", description=SCRIPT)

    @server.resource("evil://page", mime_type="text/html", description=SCRIPT, title=SCRIPT)
    async def page() -> str:
        return SCRIPT

    return server


server = build()
