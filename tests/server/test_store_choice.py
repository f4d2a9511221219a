"""A server with a store: its life, its keys, and news that reaches the subscribers of other processes."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.stores import MemoryStore, SqliteStore, StoreUnreadable
from tests.support.aio import run
from tests.support.waiting import turns, until


def make(path: Path, **options: Any) -> Server:
    server = Server("shop", store=SqliteStore(path), page_size=1, **options)

    @server.tool
    async def first() -> str:
        return "1"

    @server.tool
    async def second() -> str:
        return "2"

    @server.resource("shop://stock")
    async def stock() -> str:
        return "42"

    return server


async def cursor(server: Server) -> str:
    reply = await server.handle(LIST % b"", {"revision": "2025-06-18"})
    assert reply is not None
    return reply.partition(b'"nextCursor":"')[2].partition(b'"')[0].decode()


LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{%s}}'


@run
async def test_what_one_process_sealed_another_opens_also_after_a_restart(tmp_path: Path) -> None:
    one, two = make(tmp_path / "s.db"), make(tmp_path / "s.db")
    async with one.running():
        sealed = await cursor(one)
    async with two.running():
        reply = await two.handle(LIST % f'"cursor":"{sealed}"'.encode(), {"revision": "2025-06-18"})
        assert reply is not None
        assert b'"second"' in reply


@run
async def test_keys_that_were_given_are_used_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = secrets.token_hex(32)
    monkeypatch.setenv("DOVETAIL_SEAL_KEYS", f"{secrets.token_urlsafe(32)},{key}")
    server = make(tmp_path / "s.db")
    async with server.running():
        sealed = await cursor(server)
    store = SqliteStore(tmp_path / "s.db")
    assert await store.get("seal/key") is None
    await store.close()
    other = make(tmp_path / "t.db")
    async with other.running():
        reply = await other.handle(LIST % f'"cursor":"{sealed}"'.encode(), {"revision": "2025-06-18"})
        assert b'"second"' in (reply or b"")
    monkeypatch.setenv("DOVETAIL_SEAL_KEYS", "short")
    with pytest.raises(ValueError, match="32 bytes"):
        make(tmp_path / "s.db")


@run
async def test_a_store_is_open_before_the_lifespan_and_closed_after_it(tmp_path: Path) -> None:
    seen: list[bytes | None] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str, None]:
        assert server.lifecycle.store is not None
        seen.append(await server.lifecycle.store.get("seal/key"))
        yield "value"

    server = make(tmp_path / "s.db", lifespan=lifespan)
    async with server.running():
        assert server.lifecycle.lifespan_value == "value"
    assert seen[0] is not None


@run
async def test_a_store_that_cannot_be_read_keeps_the_server_from_starting(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"this is no database" * 100)
    server = make(tmp_path / "s.db")
    with pytest.raises(StoreUnreadable):
        await server.lifecycle.start()
    await server.lifecycle.stop()


def test_a_store_is_named_by_url_or_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(Server("a", store="memory://").lifecycle.store, MemoryStore)
    monkeypatch.setenv("DOVETAIL_STORE", f"sqlite:///{tmp_path}/s.db")
    assert isinstance(Server("a").lifecycle.store, SqliteStore)
    assert isinstance(Server("a", store="memory://").lifecycle.store, MemoryStore)
    monkeypatch.delenv("DOVETAIL_STORE")
    assert Server("a").lifecycle.store is None


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_a_message_of_one_process_reaches_the_subscribers_of_another(
    tmp_path: Path, revision: str
) -> None:
    one, two = make(tmp_path / "s.db"), make(tmp_path / "s.db")
    stranger = Server("other", store=SqliteStore(tmp_path / "s.db"))
    updated: list[str] = []
    changed: list[str] = []
    async with one.running(), two.running(), stranger.running():
        client = Client(
            two, revision=revision, on_resource_updated=updated.append, on_list_changed=changed.append
        )
        async with client:
            await client.list_resources()
            await client.subscribe_resource("shop://stock")
            await one.notify_resource_updated("shop://stock")
            await until(lambda: updated == ["shop://stock"])
            one.remove_tool("second")
            await until(lambda: len(changed) == 1)
            await stranger.notify_resource_updated("shop://stock")
            await turns()
            assert updated == ["shop://stock"], "another server's news is none of ours, and ours comes once"
