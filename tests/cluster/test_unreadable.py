"""What a newer version has written, or a disk has damaged: refused with a reason, never half."""

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Handle, Server, ToolError
from dovetail.cluster.stored_sessions import storage_name
from dovetail.extensions.tasks.task_methods import tasks_of
from dovetail.extensions.tasks.task_store import WORK
from dovetail.model.meta import IDEMPOTENCY_KEY
from dovetail.stores import SqliteStore
from tests.http.talk import NEWEST
from tests.support.aio import run
from tests.support.waiting import found, until
from tests.support.web import Web, modern, served

UNREADABLE = {"newer": b'9 {"anything":"at all"}', "damaged": b'1 {"half', "empty": b""}


def shop(store: SqliteStore, ran: list[str]) -> Server:
    server = Server("shop", store=store)

    @server.tool
    async def buy(thing: str) -> str:
        ran.append(thing)
        return "bought"

    @server.tool
    async def keep(ctx: Context) -> str:
        return await ctx.create_handle({"a": 1})

    @server.tool
    async def look(cart: Handle[dict[str, int]]) -> int:
        return cart.value["a"]

    @server.tool(task="required", annotations={"idempotentHint": True})
    async def slow(thing: str) -> str:
        ran.append(thing)
        return "done"

    return server


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_a_session_that_cannot_be_read_is_not_there(tmp_path: Path, data: bytes) -> None:
    @run
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "state.db")
        async with served(shop(store, [])) as site:
            session, _ = await Web(site).initialize(NEWEST)
            other, _ = await Web(site).initialize(NEWEST)
            await store.put(f"session/{storage_name(session)}/state", data)
            # A process that has not seen it yet has to read it.
            async with served(shop(SqliteStore(tmp_path / "state.db"), [])) as second:
                for _ in range(2):
                    assert (await Web(second).legacy(NEWEST, session, "tools/list")).status == 404
                assert (await Web(second).legacy(NEWEST, other, "tools/list")).status == 200

    scenario()


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_a_call_whose_record_is_unreadable_is_not_run_and_its_caller_gets_an_error(
    tmp_path: Path, data: bytes
) -> None:
    @run
    async def scenario() -> None:
        store, ran = SqliteStore(tmp_path / "state.db"), list[str]()
        server = shop(store, ran)
        call = modern("tools/call", {"name": "buy", "arguments": {"thing": "tea"}})
        call["params"]["_meta"][IDEMPOTENCY_KEY] = "k1"
        async with server.running():
            await server.handle(json.dumps(call).encode())
            ((key, _),) = await store.scan("once/-")
            await store.put(key, data)
            reply: Any = await server.handle(json.dumps(call).encode())
        error = json.loads(reply)["error"]
        assert ran == ["tea"]
        assert (error["code"], error["data"]["kind"]) == (1009, "dependency_failed")
        assert str(tmp_path) not in json.dumps(error)

    scenario()


@run
async def test_a_handle_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db")
    async with Client(shop(store, [])) as client:
        handle = (await client.call_tool("keep")).text
        assert (await client.call_tool("look", {"cart": handle})).data == 1
        for data in UNREADABLE.values():
            ((key, _),) = await store.scan("handle/-")
            await store.put(key, data)
            with pytest.raises(ToolError, match="handle"):
                await client.call_tool("look", {"cart": handle})


def test_an_unreadable_task_does_not_hide_readable_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.cluster.durable_tasks.TASK_HEARTBEAT_INTERVAL", 0.05)

    @run
    async def scenario() -> None:
        store, ran = SqliteStore(tmp_path / "state.db"), list[str]()
        async with Client(shop(store, [])) as client:
            task = await client.create_task("slow", {"thing": "tea"})
            await task.result()
            ((key, record),) = await store.scan("task/-")
        folder = key.rpartition("/")[0]
        # As if a newer process, and one of this version, had died: the task of the newer one is checked first.
        await store.put(f"{folder}/0-newer", UNREADABLE["newer"])
        await store.put(f"{WORK}/0-newer", f"{folder}/0-newer".encode())
        dead = record.replace(b'"status":"completed"', b'"status":"working"')
        assert dead != record
        await store.put(key, dead)
        await store.put(f"{WORK}/{task.id}", key.encode())
        server = shop(SqliteStore(tmp_path / "state.db"), ran)
        tasks_of(server.dispatcher)
        async with server.running():
            await until(lambda: ran == ["tea"])
            # A process that cannot read the task does not hold it, so another process can resume it.
            theirs = f"{folder}/0-newer"

            async def free() -> int | None:
                return await store.lease(theirs, "newer process", 10) or None

            assert await found(free)
            assert await store.get(f"{folder}/0-newer") == UNREADABLE["newer"]

    scenario()
