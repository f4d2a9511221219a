"""Handles and state: data that handlers store for a caller."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Handle, Server, ToolError
from dovetail.errors import StateError
from dovetail.stores import MemoryStore, SqliteStore, Store
from dovetail.wire.dialects.dialect import VENDOR
from tests.stores.contract import Clock
from tests.support.aio import run
from tests.support.peer import Peer


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)


def shop(store: Store | None = None, clock: Any = None) -> Server:
    server = Server("shop", store=store, **({} if clock is None else {"clock": clock}))

    @server.tool
    async def open_cart(ctx: Context, ttl: float | None = None) -> str:
        return await ctx.create_handle(Cart(), ttl=ttl)

    @server.tool
    async def add(cart: Handle[Cart], item: str) -> list[str]:
        cart.value.items.append(item)
        await cart.save()
        return cart.value.items

    @server.tool
    def look(ctx: Context, cart: Handle[Cart] | None = None) -> str:
        """A plain function, in a thread, that asks for its context too."""
        return f"{ctx.request_id is not None} {None if cart is None else cart.value.items}"

    @server.tool
    async def close_cart(cart: Handle[Cart]) -> str:
        await cart.release()
        await cart.release()
        return repr(cart)

    @server.tool
    async def keep_text(ctx: Context) -> str:
        return await ctx.create_handle("just text")

    @server.tool
    async def remember(key: str, value: Any, ctx: Context, ttl: float | None = None) -> None:
        await ctx.state.set(key, value, ttl)

    @server.tool
    async def recall(key: str, ctx: Context) -> Any:
        return await ctx.state.get(key, "nothing")

    @server.tool
    async def forget(key: str, ctx: Context) -> None:
        await ctx.state.delete(key)

    return server


async def text(peer: Peer, tool: str, **arguments: Any) -> str:
    result = await peer.result("tools/call", name=tool, arguments=arguments)
    assert not result.get("isError"), result
    return result["content"][0]["text"] if result["content"] else ""


async def refused(peer: Peer, tool: str, **arguments: Any) -> tuple[str, str]:
    result = await peer.result("tools/call", name=tool, arguments=arguments)
    assert result["isError"] is True
    return result["content"][0]["text"], result["_meta"][VENDOR + "kind"]


@run
async def test_a_handle_is_text_to_clients_and_loaded_to_the_function() -> None:
    async with Client(shop()) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        schema = tools["add"].input_schema["properties"]["cart"]
        assert schema["type"] == "string"
        handle = (await client.call_tool("open_cart")).text
        assert len(handle) >= 32
        await client.call_tool("add", {"cart": handle, "item": "tea"})
        assert (await client.call_tool("add", {"cart": handle, "item": "milk"})).data == ["tea", "milk"]
        assert (await client.call_tool("look", {"cart": handle})).text == "True ['tea', 'milk']"
        assert (await client.call_tool("look")).text == "True None"
        assert (
            await client.call_tool("close_cart", {"cart": handle})
        ).text == "Handle(Cart(items=['tea', 'milk']))"
        with pytest.raises(ToolError, match="handle"):
            await client.call_tool("look", {"cart": handle})


@run
async def test_unknown_expired_released_foreign_and_other_handles_are_one_and_the_same_error() -> None:
    clock = Clock()
    server = shop(clock=clock)
    ann, bob, nobody = Peer(server, principal="ann"), Peer(server, principal="bob"), Peer(server)
    handle = await text(ann, "open_cart", ttl=10)
    assert await text(ann, "look", cart=handle) == "True []"
    seen = {
        await refused(bob, "look", cart=handle),
        await refused(nobody, "look", cart=handle),
        await refused(ann, "look", cart="made-up"),
        await refused(ann, "look", cart="../" + handle),
        await refused(ann, "look", cart=await text(ann, "keep_text")),
    }
    clock.now += 9
    await text(ann, "add", cart=handle, item="tea")  # saving starts the time again
    clock.now += 9
    assert await text(ann, "look", cart=handle) == "True ['tea']"
    clock.now += 1
    seen.add(await refused(ann, "look", cart=handle))
    assert seen == {("Unknown or expired handle", "handle_not_found")}


@run
async def test_what_is_no_text_is_an_invalid_argument_like_any_other() -> None:
    peer = Peer(shop())
    for wrong in (5, "", "x" * 129, None, ["a"]):
        result = await peer.result("tools/call", name="add", arguments={"cart": wrong, "item": "tea"})
        assert result["isError"] is True
        assert result["_meta"][VENDOR + "kind"] == "invalid_tool_arguments"


@run
async def test_handles_are_known_to_every_process_with_the_same_store(tmp_path: Path) -> None:
    one, two = shop(SqliteStore(tmp_path / "s.db")), shop(SqliteStore(tmp_path / "s.db"))
    async with one.running(), two.running():
        handle = await text(Peer(one, principal="ann"), "open_cart")
        await text(Peer(two, principal="ann"), "add", cart=handle, item="tea")
        assert await text(Peer(one, principal="ann"), "look", cart=handle) == "True ['tea']"


@run
async def test_state_belongs_to_the_principal_on_every_connection() -> None:
    server = shop()
    ann, bob = Peer(server, principal="ann"), Peer(server, principal="bob")
    await text(ann, "remember", key="a/b ü", value={"n": [1]})
    again = Peer(server, principal="ann")
    assert await text(again, "recall", key="a/b ü") == '{"n":[1]}'
    assert await text(bob, "recall", key="a/b ü") == "nothing"
    await text(ann, "forget", key="a/b ü")
    await text(ann, "forget", key="a/b ü")
    assert await text(again, "recall", key="a/b ü") == "nothing"


@run
async def test_without_a_principal_state_belongs_to_the_legacy_session() -> None:
    server = shop()
    async with Client(server, revision="2025-06-18") as one, Client(server, revision="2025-06-18") as two:
        await one.call_tool("remember", {"key": "k", "value": 1})
        assert (await one.call_tool("recall", {"key": "k"})).text == "1"
        assert (await two.call_tool("recall", {"key": "k"})).text == "nothing"


@run
async def test_with_neither_the_handler_gets_an_error_with_the_alternatives() -> None:
    server = Server("nobody")
    told: list[str] = []

    @server.tool
    async def use(ctx: Context) -> None:
        try:
            await ctx.state.get("k")
        except StateError as error:
            told.append(error.message)

    await Peer(server).result("tools/call", name="use", arguments={})
    assert "ctx.create_handle" in told[0]
    assert "Handle[" in told[0]


@run
async def test_state_that_is_over_is_gone() -> None:
    clock = Clock()
    peer = Peer(shop(clock=clock), principal="ann")
    await text(peer, "remember", key="k", value=1, ttl=5)
    clock.now += 5
    assert await text(peer, "recall", key="k") == "nothing"


@run
async def test_what_is_too_large_or_no_json_is_refused_to_the_handler() -> None:
    server = Server("large")
    refused: list[type[Exception]] = []

    @server.tool
    async def use(ctx: Context) -> None:
        for value in ("x" * (1 << 21), object()):
            for way in (ctx.create_handle(value), ctx.state.set("k", value)):
                try:
                    await way
                except (TypeError, ValueError) as error:
                    refused.append(type(error))

    await Peer(server, principal="ann").result("tools/call", name="use", arguments={})
    assert refused == [ValueError, ValueError, TypeError, TypeError]


@run
async def test_two_who_change_one_handle_at_once_both_finish() -> None:
    peer = Peer(shop(), principal="ann")
    handle = await text(peer, "open_cart")
    await asyncio.gather(*(text(peer, "add", cart=handle, item=str(n)) for n in range(5)))
    assert "True [" in await text(peer, "look", cart=handle)


@run
async def test_what_is_kept_lies_in_the_store_that_was_given_even_while_it_is_empty() -> None:
    store = MemoryStore()
    assert Server("shop", store=store).lifecycle.state_store is store
