"""A server with one of everything, for tests on every revision and transport. Also a file for ``dovetail run``."""

import asyncio
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from dovetail import Audio, Context, Image, PromptMessage, ResourceLink, Server, TextContent, ToolError

PIXEL = b"\x89PNG\r\n\x1a\n"


@dataclass
class Sum:
    total: int


class Numbers(Struct, forbid_unknown_fields=True):
    numbers: list[int]


@dataclass
class Seat:
    row: int
    window: bool = False


def spin(seconds: float) -> str:
    """For a process: busy, and deaf to everything but a signal."""
    _blocking()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return str(os.getpid())


def _blocking() -> None:
    """Report that only a signal can end this call now."""
    print("blocking", file=sys.stderr, flush=True)


def build(**options: Any) -> Server:
    server = Server("everything", version="1.2.3", instructions="Try everything.", **options)
    receipts: dict[str, int] = {}
    stopped: set[str] = set()

    @server.tool
    async def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(a + b)

    @server.tool
    def shout(words: str) -> str:
        """Shout, from a thread."""
        return words.upper()

    @server.tool
    async def picture() -> list[str | Image]:
        """Show a picture."""
        return ["look:", Image(data=PIXEL, format="png")]

    @server.tool
    async def sound() -> Audio:
        """Play a sound."""
        return Audio(data=b"beep", format="wav")

    @server.tool
    async def link() -> ResourceLink:
        """Point at a resource."""
        return ResourceLink(name="note", uri="notes://static")

    @server.tool
    async def fail() -> str:
        """Fail in a way the model may read."""
        raise ToolError("out of paper")

    @server.tool
    async def crash() -> str:
        """Fail with an exception that clients must not see."""
        raise KeyError("a secret")

    @server.tool
    async def count(ctx: Context, steps: int = 3) -> str:
        """Report progress."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        return "counted"

    @server.tool
    async def talk(ctx: Context) -> str:
        """Log at two levels."""
        await ctx.debug("a detail")
        await ctx.warning({"careful": True}, logger="talk")
        return "said"

    @server.tool
    async def wait(key: str) -> str:
        """Wait for ever."""
        _blocking()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            stopped.add(key)
            raise
        return ""

    @server.tool
    async def was_stopped(key: str) -> bool:
        """Whether `wait` was cancelled."""
        return key in stopped

    @server.tool
    async def grow(name: str) -> str:
        """Register another tool."""
        server.add_tool(shout, name=name)
        return name

    @server.tool
    async def touch(uri: str) -> str:
        """Say that a resource has changed."""
        await server.notify_resource_updated(uri)
        return uri

    @server.tool
    async def seat(ctx: Context) -> str:
        """Ask for a seat."""
        answer = await ctx.elicit("Which seat?", Seat)
        return repr(answer.data) if answer.action == "accept" else answer.action

    @server.tool
    async def think(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("Say something", max_tokens=10)).text

    @server.tool
    async def where(ctx: Context) -> list[str]:
        """Ask for the roots."""
        return [root.uri for root in await ctx.list_roots()]

    @server.tool
    async def pay(order: str, ctx: Context) -> str:
        """Ask, pay, ask again: the payment happens once."""

        def charge() -> int:
            receipts[order] = receipts.get(order, 0) + 1
            return receipts[order]

        first = await ctx.sample("Pay?", max_tokens=10)
        paid = await ctx.step("pay", charge)
        roots = await ctx.list_roots()
        return f"{first.text}:{paid}:{len(roots)}"

    @server.tool
    async def payments(order: str) -> int:
        """How often an order was paid."""
        return receipts.get(order, 0)

    @server.tool
    def printing() -> str:
        """Print, write to the descriptor, start a child that prints."""
        print("a print")
        os.write(1, b"a write\n")
        os.system("echo a child")
        sys.stdout.write("unflushed")
        return "printed"

    @server.tool
    def stuck(seconds: float) -> str:
        """Block a thread."""
        _blocking()
        time.sleep(seconds)
        return "awake"

    @server.tool
    async def frozen(seconds: float) -> str:
        """Block the event loop."""
        _blocking()
        time.sleep(seconds)  # noqa: ASYNC251  that is its fault
        return "awake"

    server.add_tool(spin, run="process", timeout=30)

    @server.resource("notes://static", mime_type="text/plain")
    async def static() -> str:
        """A text."""
        return "a note"

    @server.resource("notes://binary", mime_type="application/octet-stream")
    async def binary() -> bytes:
        return b"\x00\x01"

    @server.resource("notes://{name}/page/{number}")
    async def page(name: str, number: int) -> dict[str, Any]:
        """A page of a note."""
        return {"name": name, "number": number}

    @server.prompt
    async def greet(name: str, style: str = "warm") -> list[PromptMessage]:
        """Greet a person."""
        return [PromptMessage("user", TextContent(f"Greet {name}, {style}."))]

    @server.completion(ref="greet", argument="style")
    def complete_style(value: str) -> list[str]:
        return [style for style in ("warm", "wry", "cold") if style.startswith(value)]

    @server.completion(ref="notes://{name}/page/{number}", argument="name")
    def complete_name(value: str) -> list[str]:
        return [value + "x"]

    add_methods(server)
    return server


def add_methods(server: Server) -> None:
    """Methods of the author's own: typed, untyped, one that asks, one of two revisions only, a notification."""
    seen: list[Any] = []

    @server.method("acme/sum", params=Numbers, result=Sum, capability="extensions.com.acme/sum")
    async def add_up(numbers: Numbers, ctx: Context) -> Sum:
        for done in range(len(numbers.numbers)):
            await ctx.report_progress(done + 1, len(numbers.numbers))
        return Sum(sum(numbers.numbers))

    @server.method("acme/echo")
    def echo(params: dict[str, Any]) -> dict[str, Any]:
        return {"said": params, "thread": threading.current_thread() is not threading.main_thread()}

    @server.method("acme/seat")
    async def choose(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        words = (await ctx.sample("Pay?", max_tokens=10)).text
        roots = await ctx.list_roots()
        return {"words": words, "roots": [root.uri for root in roots], **params}

    @server.method(
        "acme/between", since="2025-06-18", until="2025-11-25", capability="extensions.com.acme/old"
    )
    async def between() -> None: ...

    server.add_notification("acme/seen", seen.append)

    @server.method("acme/was_seen")
    async def was_seen(ctx: Context) -> dict[str, Any]:
        await ctx.notify("acme/heard", {"words": ["a"]})
        await ctx.notify("acme/counted", Sum(0))
        await ctx.notify("acme/bare")
        return {"seen": seen}


server = build()
