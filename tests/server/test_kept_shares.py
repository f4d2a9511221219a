"""Each caller has a share of the sessions and handles in a store, so one caller cannot fill it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from dovetail import Context, Handle, Server
from dovetail.core.principal import Principal
from dovetail.extensions.tasks import owner_index
from dovetail.server.handles import MAX_HANDLE_SLOTS_PER_OWNER, MAX_STATE_SLOTS_PER_OWNER, owner
from dovetail.settings import Limits
from dovetail.stores import MemoryStore, Store
from dovetail.stores.quotas import BYTES_PER_SLOT
from tests.http.talk import NEWEST
from tests.support.aio import run, run_limited
from tests.support.peer import Peer
from tests.support.shared import Shared
from tests.support.waiting import HANG, turns
from tests.support.web import Response, Web, legacy_headers, request, served

ADA, BOB = {"X-User": "ada"}, {"X-User": "bob"}
OWN = 10
"""Sessions of a principal that are kept where one is the most in memory."""


def named(scope: Mapping[str, Any]) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


def make(store: Store | None = None, **limits: int) -> Server:
    server = Server("shares", store=store, limits=Limits(**limits))

    @server.resource("x://stock")
    async def stock() -> str:
        return "42"

    @server.tool
    async def keep(ctx: Context, count: int = 1) -> list[str]:
        return [await ctx.create_handle("x") for _ in range(count)]

    @server.tool
    async def release(kept: Handle[str]) -> None:
        await kept.save()
        await kept.release()

    @server.tool
    async def keep_large(ctx: Context, count: int, size: int) -> list[str]:
        return [await ctx.create_handle("x" * size) for _ in range(count)]

    @server.tool
    async def grow(kept: Handle[str], size: int) -> None:
        kept.value = "x" * size
        await kept.save()

    @server.tool
    async def remember(ctx: Context, first: int, count: int = 1, size: int = 1) -> None:
        for number in range(first, first + count):
            await ctx.state.set(f"k{number}", "x" * size)

    @server.tool
    async def forget(ctx: Context, number: int) -> None:
        await ctx.state.delete(f"k{number}")

    @server.tool
    async def at_once(ctx: Context, times: int, ttl: float | None = None) -> int:
        await asyncio.gather(*(ctx.state.set("same", number, ttl) for number in range(times)))
        return await ctx.state.get("same")

    return server


async def initialize(web: Web, who: dict[str, str]) -> Response:
    params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps(request("initialize", params)).encode()
    return await web.ask("POST", legacy_headers(None) | who, body)


def test_a_principal_has_a_share_of_the_sessions_in_a_store(shared: Shared) -> None:
    async def scenario() -> None:
        one, two = (make(shared.store(), max_sessions=100, max_sessions_per_principal=1) for _ in range(2))
        async with served(one, principal=named) as first, served(two, principal=named) as second:
            webs = Web(first), Web(second)
            opened = [(await webs[n % 2].initialize(NEWEST, ADA))[0] for n in range(OWN)]
            for web in webs:
                refused = await initialize(web, ADA)
                assert refused.status == 503
                assert refused.message["error"]["code"] == 1079
            assert (await initialize(webs[0], BOB)).status == 200
            # What was kept is still served; one that ends, wherever that is, makes room for one.
            assert (await webs[1].legacy(NEWEST, opened[0], "ping", headers=ADA)).status == 200
            ended = await webs[1].ask("DELETE", legacy_headers(NEWEST, opened[0]) | ADA)
            assert ended.status in (200, 204)
            assert (await initialize(webs[0], ADA)).status == 200
            assert (await initialize(webs[0], ADA)).status == 503

    run_limited(scenario())


def test_an_address_without_a_principal_has_a_share_as_well(shared: Shared) -> None:
    async def scenario() -> None:
        async with served(make(shared.store(), max_sessions=3), principal=named) as site:
            web = Web(site)
            assert [(await initialize(web, {})).status for _ in range(7)] == [200] * 6 + [503]
            assert (await initialize(web, BOB)).status == 200

    run_limited(scenario())


def test_a_session_with_long_subscriptions_counts_for_more_than_one(shared: Shared) -> None:
    async def scenario() -> None:
        async with served(make(shared.store(), max_sessions=3), principal=named) as site:
            web = Web(site)
            session, _ = await web.initialize(NEWEST)
            long = "x://" + "y" * 8000
            answers = [
                (await web.legacy(NEWEST, session, "resources/subscribe", {"uri": f"{long}{number}"})).message
                for number in range(60)
            ]
            # Six places of 64 KiB are all there is for this address.
            refused = [number for number, answer in enumerate(answers) if "error" in answer]
            assert refused == list(range(49, 60))
            assert answers[-1]["error"]["code"] == 1079
            assert (await initialize(web, {})).status == 503
            assert (await initialize(web, BOB)).status == 200
            # What holds continues, can be given up, and makes room with its session.
            assert (await web.legacy(NEWEST, session, "ping")).status == 200
            for number in range(20, 49):
                params = {"uri": f"{long}{number}"}
                assert (await web.legacy(NEWEST, session, "resources/unsubscribe", params)).status == 200
            assert (await initialize(web, {})).status == 200
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status in (200, 204)
            assert [(await initialize(web, {})).status for _ in range(6)] == [200] * 5 + [503]

    run_limited(scenario())


async def refused(peer: Peer, **arguments: Any) -> int:
    return (await peer.error("tools/call", name="keep", arguments=arguments))["code"]


@run
async def test_a_principal_has_a_share_of_the_handles() -> None:
    server = make()
    ada, bob = Peer(server, principal="ada"), Peer(server, principal="bob")
    kept = await ada.result(
        "tools/call", name="keep", arguments={"count": MAX_HANDLE_SLOTS_PER_OWNER * 3 // 4}
    )
    handles = kept["structuredContent"]
    assert await refused(ada, count=MAX_HANDLE_SLOTS_PER_OWNER // 2) == 1079
    await bob.result("tools/call", name="keep", arguments={})
    await Peer(server).result("tools/call", name="keep", arguments={})
    await ada.result("tools/call", name="release", arguments={"kept": handles[0]})
    assert len((await ada.result("tools/call", name="keep", arguments={}))["structuredContent"]) == 1
    assert await refused(ada) == 1079


LARGE = 15 * BYTES_PER_SLOT
"""A value that takes sixteen places."""


def roomy(**options: Any) -> MemoryStore:
    return MemoryStore(max_entries=1_000_000, max_bytes=1 << 30, **options)


async def code(peer: Peer, tool: str, **arguments: Any) -> int:
    """0, or the code of the error."""
    answer = await peer.send("tools/call", name=tool, arguments=arguments)
    return answer.get("error", {"code": 0})["code"]


@run
async def test_a_large_value_counts_for_as_many_places_as_it_needs() -> None:
    server = make(roomy())
    async with server.running():
        ada, bob = Peer(server, principal="ada"), Peer(server, principal="bob")
        handles = await ada.result(
            "tools/call",
            name="keep_large",
            arguments={"count": MAX_HANDLE_SLOTS_PER_OWNER // 16, "size": LARGE},
        )
        assert await refused(ada) == 1079
        assert await code(bob, "keep") == 0
        # One that has become smaller leaves room, and one that grows needs some.
        first, second, *_ = handles["structuredContent"]
        assert await code(ada, "grow", kept=first, size=1) == 0
        assert await code(ada, "keep", count=15) == 0
        assert await code(ada, "grow", kept=first, size=LARGE) == 1079
        assert await code(ada, "release", kept=second) == 0
        assert await code(ada, "grow", kept=first, size=LARGE) == 0


@run
async def test_a_principal_has_a_share_of_the_state_in_keys_and_in_bytes() -> None:
    server = make(roomy())
    async with server.running():
        ada, bob = Peer(server, principal="ada"), Peer(server, principal="bob")
        assert await code(ada, "remember", first=0, count=MAX_STATE_SLOTS_PER_OWNER) == 0
        assert await code(ada, "remember", first=MAX_STATE_SLOTS_PER_OWNER) == 1079
        assert await code(bob, "remember", first=0) == 0
        # What is there can be set again and forgotten, which makes room.
        assert await code(ada, "remember", first=7) == 0
        assert await code(ada, "remember", first=7, size=BYTES_PER_SLOT) == 1079
        assert await code(ada, "forget", number=3) == 0
        assert await code(ada, "remember", first=7, size=BYTES_PER_SLOT) == 0
        assert await code(ada, "remember", first=MAX_STATE_SLOTS_PER_OWNER) == 1079
        assert await code(ada, "remember", first=7) == 0
        assert await code(ada, "remember", first=MAX_STATE_SLOTS_PER_OWNER) == 0


@run
async def test_a_session_has_a_share_of_the_state_as_well() -> None:
    server = make(roomy())
    async with server.running():
        one, other = Peer(server, NEWEST), Peer(server, NEWEST)
        assert await code(one, "remember", first=0, count=MAX_STATE_SLOTS_PER_OWNER // 16, size=LARGE) == 0
        assert await code(one, "remember", first=MAX_STATE_SLOTS_PER_OWNER) == 1079
        assert await code(other, "remember", first=0) == 0


@run
async def test_one_key_takes_one_place_though_many_set_it_at_once() -> None:
    server = make(roomy())
    async with server.running():
        ada = Peer(server, principal="ada")
        assert await code(ada, "remember", first=0, count=MAX_STATE_SLOTS_PER_OWNER - 1) == 0
        for _ in range(3):
            assert await code(ada, "at_once", times=8) == 0
        assert await code(ada, "remember", first=MAX_STATE_SLOTS_PER_OWNER) == 1079
        assert await code(ada, "forget", number=0) == 0
        assert await code(ada, "remember", first=MAX_STATE_SLOTS_PER_OWNER) == 0


@run
async def test_state_that_an_older_version_has_written_is_read_and_counted_from_then_on() -> None:
    store = roomy()
    folder = f"state/{owner(Principal('ada'))}"
    await store.put(f"{folder}/same", b"1 17")
    await store.put(f"{folder}/k0", b'1 "old"')
    server = make(store)
    async with server.running():
        ada = Peer(server, principal="ada")
        found = await ada.result("tools/call", name="at_once", arguments={"times": 0})
        assert found["structuredContent"] == 17
        assert await code(ada, "remember", first=0, count=MAX_STATE_SLOTS_PER_OWNER) == 0
        assert await code(ada, "at_once", times=1) == 1079
        assert await code(ada, "forget", number=0) == 0
        assert await code(ada, "at_once", times=1) == 0


TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


async def rendered(peer: Peer, **arguments: Any) -> tuple[str, str]:
    """A task that renders something, and the state in which it ends."""
    id = (await peer.result("tools/call", name="render", arguments=arguments))["taskId"]
    async with asyncio.timeout(HANG):
        while (task := await peer.result("tasks/get", taskId=id))["status"] == "working":
            await turns(1)
    return id, task["status"]


@run
async def test_a_principal_has_a_share_of_the_bytes_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_index, "MAX_TASK_SLOTS_PER_PRINCIPAL", 40)
    server = make(roomy())

    @server.tool(task="required")
    async def render(size: int, given: str = "") -> str:
        return "x" * size

    async with server.running():
        ada, bob = (Peer(server, principal=name, capabilities=TASKS) for name in ("ada", "bob"))
        # A result is there twice, as text and as structured content: each takes 31 places.
        assert (await rendered(ada, size=LARGE))[1] == "completed"
        assert (await rendered(ada, size=LARGE))[1] == "failed"
        bobs, status = await rendered(bob, size=LARGE)
        assert status == "completed"
        assert (await rendered(ada, size=1))[1] == "completed"
        # The requested task counts, too: only finished tasks of the same caller are removed for it.
        assert (await rendered(ada, size=1, given="x" * LARGE))[1] == "completed"
        assert await code(ada, "render", size=1, given="x" * (60 * BYTES_PER_SLOT)) != 0
        assert (await bob.result("tasks/get", taskId=bobs))["status"] == "completed"
