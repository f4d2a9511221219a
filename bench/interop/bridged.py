"""Every client revision with every server revision, over pipes and HTTP, through a bridge.

It also stands between our server and other people's clients, and between other people's servers and our client.

A feature that a revision lacks is not an empty cell: these are known (`cannot`), and they are tried all the
same, to see that it is refused, in time and in words.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dovetail import CapabilityError, Client, ProtocolError, Timeouts, ToolError
from dovetail.model.meta import TASKS_EXTENSION

from ..processes import free_port
from . import hosts, matrix, ours, theirs
from .features import OK, Case, Row
from .hosts import HERE, OURS, Host
from .ours import want

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
TRANSPORTS = ("stdio", "http")
STEP = 20.0
"""Seconds one feature may take."""
SINCE = {"elicit": "2025-06-18", "tasks": "2025-11-25"}
"""What came later than the first revision."""
SAID = (ToolError, ProtocolError, CapabilityError)


def cannot(feature: str, front: str, back: str) -> str | None:
    """Why there is nothing to try between these two."""
    for side, revision in (("in front", front), ("behind", back)):
        if revision < SINCE.get(feature, ""):
            return f"{revision} {side} has no words for it"
    return None


class Cell(NamedTuple):
    """One pair of revisions on one transport."""

    front: str
    back: str
    transport: str
    outcome: dict[str, str]

    def failures(self) -> list[str]:
        where = f"{self.front} in front of {self.back}, {self.transport}"
        return [f"{where}: {name}: {why}" for name, why in self.outcome.items() if why not in (OK, "refused")]


class Visit(ours.Visit):
    """Dovetail's client, connected to the bridge."""

    def __init__(self, target: Any, revision: str) -> None:
        super().__init__(target, revision, hosts.environ())
        self.changed = asyncio.Event()
        self.progress: list[Any] = []
        self.client = Client(
            target,
            revision=revision,
            on_elicit=lambda request: {"ok": True},
            on_sample=self._sample,
            on_roots=[{"uri": "file:///tmp", "name": "tmp"}],
            on_resource_updated=lambda uri: self.updated.set(),
            on_list_changed=lambda kind: self.changed.set(),
            env=hosts.environ(),
            on_stderr=lambda _: None,
            discovery_timeout=30,
            timeouts=Timeouts(connect=60),
        )


async def tools(visit: Visit) -> None:
    want({"add", "ask"} <= {tool.name for tool in await visit.client.list_tools()}, "no such tools")
    text = await visit.text("add", {"a": 2, "b": 3})
    want(text == "5", text)


async def resources(visit: Visit) -> None:
    want("interop://note" in [one.uri for one in await visit.client.list_resources()], "no such resource")
    text = (await visit.client.read_resource("interop://note")).text
    want(text == "a note", text)


async def prompts(visit: Visit) -> None:
    want("greet" in [one.name for one in await visit.client.list_prompts()], "no such prompt")
    text = (await visit.client.get_prompt("greet", {"name": "Ada"})).text
    want(text == "Say hello to Ada.", text)


async def completion(visit: Visit) -> None:
    values = (await visit.client.complete("greet", "name", "A")).completion.values
    want(values == ["Ada", "Alan"], values)


async def elicit(visit: Visit) -> None:
    text = await visit.text("ask")
    want(text == "yes", text)


async def sample(visit: Visit) -> None:
    text = await visit.text("think")
    want(text == "a thought", text)


async def roots(visit: Visit) -> None:
    text = await visit.text("where")
    want(text == "file:///tmp", text)


async def progress(visit: Visit) -> None:
    await visit.client.call_tool("steps", {}, on_progress=lambda *news: visit.progress.append(news))
    want(visit.progress and visit.progress[0][:2] == (1, 2), visit.progress)


async def cancel(visit: Visit) -> None:
    call = asyncio.ensure_future(visit.client.call_tool("forever", {}))
    await asyncio.sleep(0.2)
    call.cancel()
    while await visit.text("endings") != "forever":  # noqa: ASYNC110  it is in another process
        await asyncio.sleep(0.02)


async def list_changed(visit: Visit) -> None:
    visit.changed.clear()
    await visit.client.call_tool("grow", {})
    await visit.changed.wait()
    want("late" in {tool.name for tool in await visit.client.list_tools()}, "the list is the old one")


async def updated(visit: Visit) -> None:
    await visit.client.subscribe_resource("interop://note")
    await visit.client.call_tool("touch", {})
    await visit.updated.wait()
    await visit.client.unsubscribe_resource("interop://note")


async def tasks(visit: Visit) -> None:
    offered = visit.client.server_capabilities
    if not offered.has("tasks") and offered.extension(TASKS_EXTENSION) is None:
        raise CapabilityError("tasks", "the server does not offer tasks")
    handle = await visit.client.call_tool("long", {"n": 4}, task=True)
    text = (await handle.result()).text
    want(text == "8", text)


CHECKS: dict[str, Callable[[Visit], Awaitable[None]]] = {
    check.__name__: check
    for check in (
        *(tools, resources, prompts, completion, elicit, sample, roots),
        *(progress, cancel, list_changed, updated, tasks),
    )
}


async def _tried(visit: Visit, name: str, why_not: str | None) -> str:
    try:
        async with asyncio.timeout(STEP):
            await CHECKS[name](visit)
    except Exception as error:
        if why_not is not None and isinstance(error, SAID):
            return "refused"
        return f"{type(error).__name__}: {error}"[:300]
    return OK if why_not is None else f"it went through although {why_not}"


async def visited(target: Any, front: str, back: str) -> dict[str, str]:
    """Try everything from the front."""
    visit = Visit(target, front)
    async with visit.client:
        want(visit.client.revision == front, visit.client.revision)
        return {name: await _tried(visit, name, cannot(name, front, back)) for name in CHECKS}


def bridge(target: str, *options: str) -> list[str]:
    """The command of a bridge to ``target``."""
    known = hosts.environ()
    passed = [f"--env={name}={known[name]}" for name in known if name.startswith(("BENCH_", "FASTMCP_"))]
    return [sys.executable, "-m", "dovetail.cli.main", "bridge", target, *passed, *options]


@contextmanager
def between(command: list[str], transport: str, behind: str, *options: str) -> Iterator[Any]:
    """A bridge to a server whose command takes a transport and a port; its command or its URL."""
    how = ("--revision", behind, *options)
    if transport == "stdio":
        yield bridge(shlex.join([*command, "stdio"]), *how)
        return
    port, front = free_port(), free_port()
    with (
        hosts.running([*command, transport, str(port)], port),
        hosts.running(bridge(f"http://127.0.0.1:{port}/mcp", *how, "--http", "--port", str(front)), front),
    ):
        yield f"http://127.0.0.1:{front}/mcp"


def pairs(only: str = "") -> Iterator[Cell]:
    """Five client revisions with five server revisions, twice."""
    file = str(HERE / "servers" / "bridged_server.py")
    for transport in TRANSPORTS:
        for front in REVISIONS:
            for back in REVISIONS:
                if only and only not in f"{front} {back} {transport}":
                    continue
                command = [sys.executable, file, back]
                try:
                    with between(command, transport, back, "--serve-revision", front) as target:
                        found = asyncio.run(visited(target, front, back))
                except Exception as error:
                    found = dict.fromkeys(CHECKS, f"{type(error).__name__}: {error}"[:300])
                yield Cell(front, back, transport, found)


# --- other people's clients and servers, with a bridge that also changes the era --------------------------------------

OTHER = {"legacy": "modern", "modern": "legacy"}


def with_peers(only: str = "") -> Iterator[Row]:
    """Other clients through the bridge to Dovetail's server, and other servers through it to Dovetail's client."""
    for guest in (*theirs.GUESTS, theirs.INSPECTING):
        for transport in OURS.transports:
            for era in OURS.eras:
                case = Case(guest.name, f"bridge ({OTHER[era]}) → Dovetail", transport, era)
                if only.lower() in str(case).lower():
                    yield _guest(guest, case)
    for host in hosts.HOSTS:
        for transport in (way for way in host.transports if way in TRANSPORTS):
            for era in host.eras:
                case = Case("Dovetail", f"bridge ({era}) → {host.name}", transport, OTHER[era])
                if only.lower() in str(case).lower():
                    yield _host(host, era, case)


def _guest(guest: theirs.Guest, case: Case) -> Row:
    absent = dict(guest.absent)
    try:
        with between(OURS.command(), case.transport, OTHER[case.era]) as target:
            words = target if isinstance(target, list) else [target]
            if guest is theirs.INSPECTING:
                return Row(case, *theirs.inspect(case.transport, case.era, words), absent)
            return Row(case, *theirs.visit(guest, case.transport, case.era, words), absent)
    except Exception as error:
        return matrix.failed(case, error, absent)


def _host(host: Host, behind: str, case: Case) -> Row:
    stage = ours.EVERYTHING if host.name == "server-everything" else ours.INTEROP
    absent = host.lacks(case.transport, behind)
    try:
        if case.transport == "stdio":
            target: Any = bridge(shlex.join(host.command("stdio")), "--revision", behind)
            return Row(
                case, *asyncio.run(ours.visit(target, case.era, stage, absent, hosts.environ())), absent
            )
        port = free_port()
        with (
            hosts.listening(host, "http") as url,
            hosts.running(bridge(url, "--revision", behind, "--http", "--port", str(port)), port),
        ):
            found = asyncio.run(ours.visit(f"http://127.0.0.1:{port}/mcp", case.era, stage, absent))
            return Row(case, *found, absent)
    except Exception as error:
        return matrix.failed(case, error, absent)


def markdown(cells: list[Cell]) -> list[str]:
    """The section of the page; ``·`` marks a feature that a revision does not have."""
    words = {OK: "yes", "refused": "·"}
    lines = [
        "## A bridge between all pairs of revisions",
        "",
        "A bridge connects a Dovetail client of one revision with a Dovetail server of another. A dot means that a",
        "revision does not have the feature and the caller gets an error: elicitation is new in 2025-06-18, tasks in",
        "2025-11-25.",
        "",
        "| downstream | upstream | transport | " + " | ".join(CHECKS) + " |",
        "|" + "---|" * (3 + len(CHECKS)),
    ]
    for cell in cells:
        marks = [words.get(cell.outcome[name], "**no**") for name in CHECKS]
        lines.append("| " + " | ".join((cell.front, cell.back, cell.transport, *marks)) + " |")
    return [*lines, ""]


def plain(cell: Cell) -> str:
    """One line for the terminal."""
    marks = {OK: "yes", "refused": "·"}
    told = "  ".join(f"{name} {marks.get(cell.outcome[name], 'NO')}" for name in CHECKS)
    return f"{cell.front} in front of {cell.back}, {cell.transport:6} {told}"
