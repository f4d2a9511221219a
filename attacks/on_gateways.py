"""Attacks of an upstream server on a gateway and on clients of other upstream servers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import suppress

from dovetail import Client, DovetailError, Server, Timeouts
from dovetail.gateway import Proxy

from .on_callers import LEGACY, SAID, Flood, Words, talking
from .on_clients import TRAP, Pulse, answer, hostile, usual
from .report import GotThrough, Scale, attack
from .victim import MODERN, Json
from .weight import mine

SECONDS = (0.8, 4.0)
"""The timeout of an upstream call: in the short form, and in full."""
MOST = 160
"""Mebibytes; the upstream server runs in this process, too."""


async def _through(url: str, what: str, scale: Scale) -> str:
    """Call the hostile server through a gateway, and an honest tool of the gateway's own next to it."""
    front = Server("front")

    @front.tool
    async def echo(text: str) -> str:
        return text

    seconds = scale.of(*SECONDS)
    front.mount(Proxy(url, timeout=seconds), prefix="bad")
    clock, before, outcome, slowest = asyncio.get_running_loop().time, mine(), "answered", 0.0
    async with Client(front, timeouts=Timeouts(30, 30, 30)) as client:
        await client.call_tool("echo", {"text": "first"})
        begun = clock()
        async with Pulse() as pulse:
            calling = asyncio.create_task(_trap(client))
            while not calling.done():
                asked = clock()
                await client.call_tool("echo", {"text": "still there?"})
                slowest = max(slowest, clock() - asked)
                await asyncio.sleep(0.02)
            try:
                await calling
            except DovetailError as error:
                outcome = f"{type(error).__name__} {error.kind}"
        took = clock() - begun
    grown = (mine() - before) >> 20
    detail = f"{what}: {outcome} after {took:.1f} s, others waited {slowest * 1000:.0f} ms, loop away {pulse.worst * 1000:.0f} ms, {grown} MiB"  # noqa: E501
    if slowest > 1.5 or took > 3 * seconds + 8 or grown > MOST:
        raise GotThrough(detail)
    return detail


async def _trap(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("bad_trap", {})


@attack("client", seconds=300)
async def a_server_behind_that_talks(scale: Scale) -> str:
    """An upstream server sends thousands of notifications, requests and forged responses."""
    told, times = list[str](), scale.of(300, 3000)
    for way in ("http", "tcp"):
        for what, words in SAID.items():
            revision = LEGACY if what in ("pings", "questions", "unknown requests") else MODERN

            def flood(message: Json, words: Words = words, revision: str = revision) -> Iterator[bytes]:
                for _ in range(times):
                    yield words(message)
                yield _result(message)

            async with talking(way, revision, flood) as url:
                told.append(await _through(url, f"{way} {what}", scale))
        async with talking(way, MODERN, _endless(SAID["log messages"])) as url:
            told.append(await _through(url, f"{way} without end", scale))
    return "; ".join(told)


def _result(message: Json) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", "content": []}}
    ).encode()


def _endless(words: Words) -> Flood:
    def pour(message: Json) -> Iterator[bytes]:
        while True:
            yield words(message)

    return pour


@attack("client", seconds=200)
async def a_server_behind_with_strange_lists(scale: Scale) -> str:
    """An upstream server has very many tools, very long ones, endless lists, or names of another server."""
    many = [{**TRAP, "name": f"t{n}", "description": "x" * 1000} for n in range(scale.of(500, 5000))]
    long = [{**TRAP, "name": f"t{n}", "description": "x" * (1 << 20)} for n in range(12)]
    names = ["echo", "bad_echo", "../echo", "x" * 100_000, "\x1b[2J", "\u202etrap", "", " ", "a\nb", "trap"]
    schema = json.loads('{"items":' * 900 + "{}" + "}" * 900)
    deep = [{**TRAP, "inputSchema": {"type": "object", "properties": {"a": schema}}}]
    told: list[str] = []
    for what, tools in {"many": [*many, TRAP], "long": [*long, TRAP], "names": [{**TRAP, "name": n} for n in names], "deep": deep}.items():  # noqa: E501  # fmt: skip

        def reply(message: Json, tools: list[Json] = tools) -> tuple[str, bytes, dict[str, str]]:
            return usual(message, tools)

        async with hostile(reply) as url:
            told.append(await _through(url, what, scale))

    def pages(message: Json) -> tuple[str, bytes, dict[str, str]]:
        if message.get("method") == "tools/list":
            tool = {**TRAP, "name": f"t{message['id']}"}
            page = {"tools": [tool], "nextCursor": f"{message['id']}", "ttlMs": 0, "cacheScope": "private"}
            return answer(message, page)
        return usual(message, [TRAP])

    async with hostile(pages) as url:
        told.append(await _through(url, "pages", scale))
    return "; ".join(told)


@attack("client", seconds=60)
async def long_names_through_a_gateway(scale: Scale) -> str:
    """A client calls tools, prompts and resources through a gateway whose names are megabytes and never come twice."""

    def reply(message: Json) -> tuple[str, bytes, dict[str, str]]:
        found = json.loads(usual(message, [TRAP])[1])
        if message.get("method") == "server/discover":
            found["result"]["capabilities"] = {"tools": {}, "resources": {}, "prompts": {}}
        return "application/json", json.dumps(found).encode(), {}

    count, before = scale.of(20, 100), mine()
    async with (
        hostile(reply) as url,
        Client(Proxy(url, timeout=SECONDS[1]), timeouts=Timeouts(30, 30, 30)) as client,
    ):
        for number in range(count):
            name = f"{number}{'x' * (1 << 20)}"
            for ask in (
                client.get_prompt(name),
                client.read_resource(f"thing://{name}"),
                client.call_tool(name, {}),
            ):
                with suppress(DovetailError):
                    await ask
    grown = (mine() - before) >> 20
    if grown > 96:
        raise GotThrough(f"{3 * count} names of a mebibyte cost {grown} MiB")
    return f"{3 * count} names of a mebibyte cost {grown} MiB"


RESTLESS = """
import json, os, sys, threading

mode = sys.argv[1]
said = {
    "changed lists": {"method": "notifications/tools/list_changed"},
    "updates": {"method": "notifications/resources/updated", "params": {"uri": "x://a"}},
    "pings": {"id": 1, "method": "ping"},
    "questions": {"id": 1, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
}


def flood(descriptor, data):
    while True:
        os.write(descriptor, data)


def say(**members):
    os.write(1, json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\\n")


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        offers = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": None}
        info = {"name": "restless", "version": "0"}
        say(id=id, result={"protocolVersion": "2025-06-18", "capabilities": offers, "serverInfo": info})
        if mode in said:
            data = json.dumps({"jsonrpc": "2.0", **said[mode]}).encode() + b"\\n"
            threading.Thread(target=flood, args=(1, data * 50), daemon=True).start()
        elif mode == "stderr":
            threading.Thread(target=flood, args=(2, b"x" * 65536), daemon=True).start()
    elif method == "tools/list":
        names = [f"t{n}" for n in range(20_000 if mode == "many tools" else 1)] * (2 if mode == "twice" else 1)
        say(id=id, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
    elif id is not None and method == "server/discover":
        say(id=id, error={"code": -32601, "message": "no"})
    elif id is not None and method is not None:
        say(id=id, result={"resources": [], "resourceTemplates": [], "content": []})
"""
RESTLESS_MODES = ("pings", "changed lists", "stderr", "many tools", "updates", "questions", "twice")


@attack("client", seconds=200)
async def a_server_behind_that_never_rests(scale: Scale) -> str:
    """An upstream program repeats a message endlessly, or has very many tools; then the gateway closes it."""
    told: list[str] = []
    for mode in RESTLESS_MODES[: scale.of(4, len(RESTLESS_MODES))]:
        front = Server("front")
        front.add_tool(lambda: "x", name="echo", description="d")
        command = [sys.executable, "-c", RESTLESS, mode]
        front.mount(Proxy(command, timeout=4, on_stderr=lambda _: None), prefix="bad")
        clock, before, slowest = asyncio.get_running_loop().time, mine(), 0.0
        async with Client(front, timeouts=Timeouts(30, 30, 30)) as client:
            end = clock() + scale.of(1.0, 4.0)
            while clock() < end:
                asked = clock()
                await client.call_tool("echo", {})
                slowest = max(slowest, clock() - asked)
                await asyncio.sleep(0.02)
            await client.list_tools(fresh=True)
            left = clock()
        took, grown = clock() - left, (mine() - before) >> 20
        told.append(f"{mode}: others waited {slowest * 1000:.0f} ms, left within {took:.1f} s, {grown} MiB")
        if slowest > 1.5 or took > 10 or grown > MOST:
            raise GotThrough(told[-1])
    return "; ".join(told)
