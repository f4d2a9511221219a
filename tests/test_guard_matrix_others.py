"""Every way to read a resource or get a prompt × every guard that concerns them × every revision.

The guards of tools alone (`Policy`, `CircuitBreaker`, rates per tool) have no cell here: they do not concern these.
`Caching` keeps resources, and no prompts.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Principal, Server
from dovetail.gateway import Proxy
from dovetail.middleware import Audit, Caching, ConcurrencyLimit, Middleware, RateLimit, Redaction, Timeout
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.test_guard_matrix import SECRET

ALL = (*LEGACY, MODERN)
NAMES = ("look", "wait", "secret")


class Home:
    """The server with the components and the guard, and what ran there."""

    def __init__(self, *guards: Any) -> None:
        self.ran: list[str] = []
        self.gate, self.running = asyncio.Event(), asyncio.Event()
        self.server = server = Server("home", middleware=guards)

        async def look() -> str:
            self.ran.append("look")
            return f"seen {len(self.ran)} {SECRET}"

        async def wait() -> str:
            self.ran.append("wait")
            self.running.set()
            await self.gate.wait()
            return "waited"

        async def secret() -> str:
            self.ran.append("secret")
            return "open"

        for name, handler in (("look", look), ("wait", wait), ("secret", secret)):
            rights: dict[str, Any] = {"scopes": ["admin"]} if name == "secret" else {}
            server.add_prompt(handler, name=name, **rights)
            server.add_resource(f"x://{name}", handler, name=name, **rights)
            server.add_resource(f"t://{name}/{{id}}", _with_id(handler), name=f"{name}s", **rights)


def _with_id(handler: Callable[[], Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    async def read(id: str) -> str:
        return await handler()

    return read


def mounted(home: Server) -> Server:
    server = Server("whole")
    server.mount(home, prefix="far")
    return server


def transformed(home: Server) -> Server:
    home.transform(
        rename={
            **{f"prompt:{name}": f"new_{name}" for name in NAMES},
            **{f"x://{name}": f"y://{name}" for name in NAMES},
        }
    )
    return home


AROUND: dict[str, Callable[[Server], Server]] = {
    "direct": lambda home: home,
    "transform": transformed,
    "mount": mounted,
    "proxy": lambda home: Proxy(home, name="front"),
}
ADDRESS = {
    "resource": {"direct": "x://{}", "transform": "y://{}", "mount": "x://far/{}", "proxy": "x://{}"},
    "template": {"direct": "t://{}/1", "transform": "t://{}/1", "mount": "t://far/{}/1", "proxy": "t://{}/1"},
    "prompt": {"direct": "{}", "transform": "new_{}", "mount": "far_{}", "proxy": "{}"},
}
CELLS = [
    pytest.param(kind, place, revision, id=f"{kind}-{place}-{revision}")
    for kind in ADDRESS
    for place in AROUND
    for revision in ALL
]
cells = pytest.mark.parametrize(("kind", "place", "revision"), CELLS)


class Cell:
    def __init__(self, kind: str, place: str, revision: str, *guards: Any) -> None:
        self.kind, self.place, self.revision = kind, place, revision
        self.home = Home(*guards)
        self.server = AROUND[place](self.home.server)

    async def use(
        self, name: str, principal: Principal | None = None, peer: Peer | None = None
    ) -> dict[str, Any]:
        peer = peer or Peer(self.server, self.revision)
        peer.principal = principal
        address = ADDRESS[self.kind][self.place].format(name)
        if self.kind == "prompt":
            return await peer.send("prompts/get", name=address)
        return await peer.send("resources/read", uri=address)


def guarded(
    kind: str, place: str, revision: str, scenario: Callable[[Cell], Awaitable[None]], *guards: Any
) -> None:
    @run
    async def cell() -> None:
        one = Cell(kind, place, revision, *guards)
        async with one.server.running():
            await scenario(one)
        await one.home.server.lifecycle.stop()

    cell()


@cells
def test_a_rate_of_the_whole_server_counts(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        replies = [await cell.use("look") for _ in range(12)]
        assert "result" in replies[0]
        assert "error" in replies[-1]
        assert len(cell.home.ran) <= 10

    guarded(kind, place, revision, scenario, RateLimit(total="10/h", burst=10))


@cells
def test_uses_at_once_are_limited(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        first = asyncio.ensure_future(cell.use("wait"))
        await cell.home.running.wait()
        assert "error" in await cell.use("look")
        cell.home.gate.set()
        assert "result" in await first
        assert cell.home.ran == ["wait"]

    guarded(kind, place, revision, scenario, ConcurrencyLimit(total=1, queue=0))


@cells
def test_a_use_ends_after_its_time(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert "error" in await cell.use("wait")

    guarded(kind, place, revision, scenario, Timeout(0.02))


@cells
def test_secrets_do_not_leave(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        said = json.dumps(await cell.use("look"))
        assert "[masked]" in said
        assert SECRET not in said

    guarded(kind, place, revision, scenario, Redaction("secrets"))


@cells
def test_an_audit_has_a_line(kind: str, place: str, revision: str, tmp_path: Path) -> None:
    async def scenario(cell: Cell) -> None:
        await cell.use("look")
        lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
        used = [line for line in lines if line.get("method") in ("resources/read", "prompts/get")]
        inner = ADDRESS[kind]["direct"].format("look")
        assert [(line["name"], line["outcome"]) for line in used] == [(inner, "ok")]

    guarded(kind, place, revision, scenario, Audit(tmp_path / "audit"))


@cells
def test_what_is_cached_is_not_run_again(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        peer = Peer(cell.server, revision)
        for _ in range(3):
            assert "result" in await cell.use("look", Principal("ann"), peer)
        assert len(cell.home.ran) == (3 if kind == "prompt" else 1)

    guarded(kind, place, revision, scenario, Caching(60))


@cells
def test_a_component_needs_its_scopes(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        admin = Principal("ann", scopes=frozenset({"admin"}))
        if place == "proxy":  # an upstream server does not know the principal of the client
            assert "error" in await cell.use("secret", admin)
            return
        assert "error" in await cell.use("secret", Principal("bob"))
        assert cell.home.ran == []
        assert "result" in await cell.use("secret", admin)

    guarded(kind, place, revision, scenario)


@cells
def test_what_is_not_admitted_is_not_used(kind: str, place: str, revision: str) -> None:
    class Without(Middleware):
        def admits(self, component: Any) -> bool:
            return "look" not in component.name

    async def scenario(cell: Cell) -> None:
        assert "error" in await cell.use("look")
        assert cell.home.ran == []

    guarded(kind, place, revision, scenario, Without())


class Nosy(Middleware):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def read_resource(self, request: Any, call_next: Any) -> Any:
        self.seen.append((request.operation, request.component.name))
        return await call_next(request)

    async def get_prompt(self, request: Any, call_next: Any) -> Any:
        return await self.read_resource(request, call_next)


@cells
def test_a_middleware_sees_one_canonical_component(kind: str, place: str, revision: str) -> None:
    nosy = Nosy()

    async def scenario(cell: Cell) -> None:
        await cell.use("look")
        operation = "get_prompt" if kind == "prompt" else "read_resource"
        assert nosy.seen == [(operation, ADDRESS[kind]["direct"].format("look"))]

    guarded(kind, place, revision, scenario, nosy)
