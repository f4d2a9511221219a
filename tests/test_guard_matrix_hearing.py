"""Every way to complete or to subscribe × every guard that concerns it × every revision that has it.

One decision holds for reading, subscribing, completing and hearing of a change: refused in one is refused in all.
`Policy` with names of tools, caching and task guards have no cell: they do not concern these. A listen stream leaves
out what it may not hear of, so it has no error.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Principal, Server
from dovetail.gateway import Proxy
from dovetail.middleware import Audit, Middleware, RateLimit, Redaction
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.test_guard_matrix import SECRET

ALL = (*LEGACY, MODERN)


class Home:
    """A server with one open and one closed component of each kind."""

    def __init__(self, *guards: Any) -> None:
        self.completed = 0
        self.server = server = Server("home", middleware=guards)

        async def get(kind: str = "") -> str:
            return "said"

        async def read() -> str:
            return "read"

        async def read_one(id: str) -> str:
            return id

        async def values(value: str) -> list[str]:
            self.completed += 1
            return [SECRET]

        for name in ("look", "secret", "open"):
            rights: dict[str, Any] = {"scopes": ["admin"]} if name == "secret" else {}
            server.add_prompt(get, name=name, **rights)
            server.add_resource(f"x://{name}", read, name=name, **rights)
            server.add_resource(f"t://{name}/{{id}}", read_one, name=f"{name}s", **rights)
            server.completion(ref=name, argument="kind")(values)
            server.completion(ref=f"t://{name}/{{id}}", argument="id")(values)


def mounted(home: Server) -> Server:
    server = Server("whole")
    server.mount(home, prefix="far")
    return server


def renamed(home: Server) -> Server:
    home.transform(
        rename={f"prompt:{one}": f"new_{one}" for one in ("look", "secret", "open")}
        | {f"x://{one}": f"y://{one}" for one in ("look", "secret", "open")}
    )
    return home


AROUND: dict[str, Callable[[Server], Server]] = {
    "direct": lambda home: home,
    "transform": renamed,
    "mount": mounted,
    "proxy": lambda home: Proxy(home, name="front"),
}
NAMES = {
    "prompt": {"direct": "{}", "transform": "new_{}", "mount": "far_{}", "proxy": "{}"},
    "template": {
        "direct": "t://{}/{{id}}",
        "transform": "t://{}/{{id}}",
        "mount": "t://far/{}/{{id}}",
        "proxy": "t://{}/{{id}}",
    },
    "resource": {"direct": "x://{}", "transform": "y://{}", "mount": "x://far/{}", "proxy": "x://{}"},
    "own": {"direct": "own://{}", "transform": "own://{}", "mount": "own://far/{}"},
    "instance": {"direct": "t://{}/1", "transform": "t://{}/1", "mount": "t://far/{}/1", "proxy": "t://{}/1"},
}
UPDATED = "notifications/resources/updated"
completions = pytest.mark.parametrize(
    ("kind", "place", "revision"),
    [
        (kind, place, one)
        for kind in ("prompt", "template")
        for place in AROUND
        for one in ALL
        if one != LEGACY[0]
    ],
)
"""2024-11-05 has completions, but no capability for them."""
# What a proxy hears of comes from a server that knows no principal of the client.
subscriptions = pytest.mark.parametrize(
    ("kind", "place", "revision"),
    [
        (kind, place, one)
        for kind in ("resource", "instance")
        for place in ("direct", "transform", "mount")
        for one in ALL
    ],
)


class Cell:
    def __init__(self, kind: str, place: str, revision: str, *guards: Any) -> None:
        self.kind, self.place, self.revision = kind, place, revision
        self.home = Home(*guards)
        self.server = AROUND[place](self.home.server)

    def peer(self, principal: Principal | None = None) -> Peer:
        peer = Peer(self.server, self.revision)
        peer.principal = principal
        return peer

    def address(self, name: str, place: str | None = None) -> str:
        kind = "resource" if name == "open" else self.kind
        return NAMES[kind][place or self.place].format(name)

    async def complete(self, name: str, principal: Principal | None = None) -> dict[str, Any]:
        named = NAMES[self.kind][self.place].format(name)
        ref = (
            {"type": "ref/prompt", "name": named}
            if self.kind == "prompt"
            else {"type": "ref/resource", "uri": named}
        )
        argument = {"name": "kind" if self.kind == "prompt" else "id", "value": ""}
        return await self.peer(principal).send("completion/complete", ref=ref, argument=argument)

    async def heard(
        self, *names: str, principal: Principal | None = None, before: Callable[[], None] = lambda: None
    ) -> set[str]:
        """Which of ``names`` a subscriber hears of; ``before`` is called between subscribing and the news."""
        peer, names = self.peer(principal), (*names, "open")
        uris = {self.address(name): name for name in names}
        listening: asyncio.Future[Any] | None = None
        if self.revision == MODERN:
            wish = {"resourceSubscriptions": list(uris)}
            listening = asyncio.ensure_future(peer.send("subscriptions/listen", notifications=wish))
            await peer.told.wait()
        else:
            for uri in uris:
                await peer.send("resources/subscribe", uri=uri)
        before()
        found = set[str]()
        for name in names:
            await self.home.server.notify_resource_updated(self.address(name, "direct"))
        while "open" not in found:  # it is notified last, and every caller may hear of it
            peer.told.clear()
            found = {uris[one["params"]["uri"]] for one in peer.notes if one["method"] == UPDATED}
            if "open" not in found:
                await peer.told.wait()
        if listening is not None:
            listening.cancel()
        return found - {"open"}


def guarded(
    scenario: Callable[[Cell], Awaitable[None]], kind: str, place: str, revision: str, *guards: Any
) -> None:
    @run
    async def cell() -> None:
        one = Cell(kind, place, revision, *guards)
        async with one.server.running():
            await scenario(one)
        await one.home.server.lifecycle.stop()

    cell()


class Without(Middleware):
    """Admits nothing that is called like this."""

    def __init__(self, name: str = "look") -> None:
        self.name = name

    def admits(self, component: Any) -> bool:
        return self.name not in component.name


class Switch(Without):
    on = False

    def admits(self, component: Any) -> bool:
        return not self.on or super().admits(component)


@completions
def test_what_is_not_admitted_is_not_completed(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert "error" in await cell.complete("look")
        assert cell.home.completed == 0
        assert "result" in await cell.complete("open")

    guarded(scenario, kind, place, revision, Without())


@completions
def test_a_completion_needs_the_scopes_of_what_it_completes(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert "error" in await cell.complete("secret", Principal("bob"))
        assert cell.home.completed == 0
        if place != "proxy":  # an upstream server does not know the principal of the client
            assert "result" in await cell.complete("secret", Principal("ann", scopes=frozenset({"admin"})))

    guarded(scenario, kind, place, revision)


@completions
def test_secrets_are_no_completions(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        said = json.dumps(await cell.complete("look"))
        assert "[masked]" in said
        assert SECRET not in said

    guarded(scenario, kind, place, revision, Redaction("secrets"))


@completions
def test_completions_count_for_a_rate(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        replies = [await cell.complete("look") for _ in range(12)]
        assert "result" in replies[0]
        assert "error" in replies[-1]
        assert cell.home.completed <= 10

    guarded(scenario, kind, place, revision, RateLimit(total="10/h", burst=10))


@completions
def test_completions_can_be_audited(kind: str, place: str, revision: str, tmp_path: Path) -> None:
    async def scenario(cell: Cell) -> None:
        await cell.complete("look")
        lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
        name = NAMES[kind]["direct"].format("look")
        assert [(line["name"], line["outcome"]) for line in lines if "method" in line] == [(name, "ok")]

    guarded(
        scenario, kind, place, revision, Audit(tmp_path / "audit", methods=frozenset({"completion/complete"}))
    )


@subscriptions
def test_a_component_that_is_not_admitted_sends_no_notifications(
    kind: str, place: str, revision: str
) -> None:
    async def scenario(cell: Cell) -> None:
        assert await cell.heard(
            "look", "secret", principal=Principal("ann", scopes=frozenset({"admin"}))
        ) == {"secret"}

    guarded(scenario, kind, place, revision, Without())


@subscriptions
def test_a_caller_that_loses_access_is_no_longer_notified(kind: str, place: str, revision: str) -> None:
    switch = Switch()

    async def scenario(cell: Cell) -> None:
        assert await cell.heard("look") == {"look"}
        assert await cell.heard("look", before=lambda: setattr(switch, "on", True)) == set()

    guarded(scenario, kind, place, revision, switch)


@subscriptions
def test_notifications_require_the_scopes_of_the_component(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert await cell.heard("look", "secret", principal=Principal("bob")) == {"look"}
        admin = Principal("ann", scopes=frozenset({"admin"}))
        assert await cell.heard("look", "secret", principal=admin) == {"look", "secret"}

    guarded(scenario, kind, place, revision)


# A mounted server hears of a subscription, but the request itself ends at the server around it.
@pytest.mark.parametrize(
    ("kind", "place", "revision"),
    [
        (kind, place, one)
        for kind in ("resource", "instance")
        for place in ("direct", "transform")
        for one in ALL
    ],
)
def test_subscriptions_count_for_a_rate(kind: str, place: str, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        peer = cell.peer()
        uri = NAMES[kind][place].format("look")
        if revision == MODERN:
            wish = {"resourceSubscriptions": [uri]}
            streams = [
                asyncio.ensure_future(peer.send("subscriptions/listen", notifications=wish)) for _ in range(3)
            ]
            done, _ = await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
            assert ["error" in one.result() for one in done] == [True]
            for one in streams:
                one.cancel()
        else:
            replies = [await peer.send("resources/subscribe", uri=uri) for _ in range(3)]
            assert ["error" in one for one in replies] == [False, False, True]

    guarded(scenario, kind, place, revision, RateLimit(total="2/h", burst=2))


@subscriptions
def test_a_right_by_address_is_one_decision(kind: str, place: str, revision: str) -> None:
    """``auth`` that takes the URI and the arguments: reading and hearing of it go together."""

    async def scenario(cell: Cell) -> None:
        asked: list[tuple[str, dict[str, Any]]] = []

        def owns(principal: Principal | None, uri: str, arguments: Any) -> bool:
            asked.append((uri, dict(arguments)))
            owner = arguments.get("id") or uri.rpartition("/")[2]
            return principal is not None and principal.subject == owner

        async def read() -> str:
            return "of one"

        async def read_one(id: str) -> str:
            return f"of {id}"

        server = cell.home.server
        if kind == "resource":
            for one in ("ann", "bob"):
                server.add_resource(f"own://{one}", read, name=one, auth=owns)
        else:
            server.add_resource("own://{id}", read_one, name="own", auth=owns)
        cell.kind = "own"
        for reader in ("ann", "bob"):
            readable = set[str]()
            for owner in ("ann", "bob"):
                uri = NAMES["own"][place].format(owner)
                answer = await cell.peer(Principal(reader)).send("resources/read", uri=uri)
                readable |= {owner} if "result" in answer else set()
            assert readable == {reader}
            assert await cell.heard("ann", "bob", principal=Principal(reader)) == {reader}
        assert ("own://ann", {} if kind == "resource" else {"id": "ann"}) in asked
        listed = await cell.peer(Principal("ann")).send("resources/list")
        uris = {one["uri"] for one in listed["result"]["resources"] if one["uri"].startswith("own")}
        assert uris == ({NAMES["own"][place].format("ann")} if kind == "resource" else set())

    guarded(scenario, kind, place, revision)


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
def test_a_completion_is_guarded_whatever_the_reference_says_it_is(revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        references = [
            {"type": "ref/prompt", "name": "t://look/{id}"},
            {"type": "ref/resource", "uri": "t://look/{id}"},
            {"type": "ref/resource", "uri": "look"},
            {"type": "ref/prompt", "name": "look"},
        ]
        for ref in references:
            for argument in ("kind", "id"):
                said = {"name": argument, "value": ""}
                assert "error" in await cell.peer().send("completion/complete", ref=ref, argument=said)
        assert cell.home.completed == 0

    class OfOneKind(Middleware):
        def admits(self, component: Any) -> bool:
            wanted = {"look": "prompt", "t://look/{id}": "template"}
            return component.kind != wanted.get(component.name)

    guarded(scenario, "prompt", "direct", revision, OfOneKind())
