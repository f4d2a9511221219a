"""Losing a connection and reconnecting: states, delays, retries and restored state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dovetail import Client, Reconnect, Timeouts
from dovetail.client.reconnect import delay
from dovetail.errors import RequestTimeout, SessionLost, StateError, TransportError
from dovetail.middleware import Middleware
from dovetail.testing import FakeClock

from ..support.aio import run
from ..support.waiting import HANG
from .scripted import Peer, Scripted, legacy, modern, text

READ_ONLY = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
IDEMPOTENT = {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}}
PLAIN = {"name": "pay", "inputSchema": {"type": "object"}}


def server(drops: int) -> Scripted:
    """Dies under the first ``drops`` tool calls."""
    left = [drops]

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "tools/list":
                peer.result(message, {"tools": [READ_ONLY, IDEMPOTENT, PLAIN]})
            case "tools/call" if left[0]:
                left[0] -= 1
                peer.drop("reset")
            case "tools/call":
                peer.result(message, text("done"))
            case "resources/subscribe" | "logging/setLevel":
                peer.result(message, {})
            case _ if "id" in message:
                peer.error(message, -32601)

    return legacy(answer, "2025-06-18")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("tool", ["look", "set"])
@run
async def test_a_harmless_call_is_repeated_after_the_reconnect(tool: str) -> None:
    clock = FakeClock()
    target = server(1)
    async with Client(target, clock=clock, revision="legacy") as client:
        await client.list_tools()
        call = asyncio.create_task(client.call_tool(tool))
        await settle()
        assert client.state == "backoff"
        await clock.run(2)
        assert (await call).text == "done"
        assert len(target.peers) == 2
        assert client.state == "ready"


@run
async def test_a_call_that_may_do_harm_is_never_repeated() -> None:
    clock = FakeClock()
    target = server(1)
    async with Client(target, clock=clock, revision="legacy") as client:
        await client.list_tools()
        with pytest.raises(SessionLost) as caught:
            await client.call_tool("pay")
        assert caught.value.maybe_executed is True
        assert caught.value.cause == "reset"
        await clock.run(2)
        assert client.state == "ready"
        assert target.peer.methods.count("tools/call") == 0


@run
async def test_a_tool_that_was_never_listed_is_not_repeated() -> None:
    async with Client(server(1), clock=FakeClock(), revision="legacy") as client:
        with pytest.raises(SessionLost):
            await client.call_tool("look")


@run
async def test_repeats_can_be_switched_off() -> None:
    client = Client(server(1), clock=FakeClock(), revision="legacy", reconnect=Reconnect(retry_calls=False))
    async with client:
        await client.list_tools()
        with pytest.raises(SessionLost):
            await client.call_tool("look")


@run
async def test_a_call_is_not_repeated_for_ever() -> None:
    clock = FakeClock()
    target = server(100)
    async with Client(target, clock=clock, revision="legacy") as client:
        await client.list_tools()
        call = asyncio.create_task(client.call_tool("look"))
        for _ in range(4):
            await settle()
            await clock.run(5)
        with pytest.raises(SessionLost):
            await call


@run
async def test_what_the_client_had_is_restored() -> None:
    clock = FakeClock()
    target = server(0)
    async with Client(target, clock=clock, revision="legacy") as client:
        await client.list_tools()
        await client.subscribe_resource("file:///a")
        await client.set_logging_level("info")
        target.peer.drop()
        await settle()
        await clock.run(2)
        assert client.state == "ready"
        assert target.peer.methods[:2] == ["initialize", "notifications/initialized"]
        assert sorted(target.peer.methods[2:]) == ["logging/setLevel", "resources/subscribe", "tools/list"]


@run
async def test_pauses_double_up_to_the_maximum_and_then_it_is_given_up() -> None:
    clock = FakeClock()
    target = server(0)
    seen: list[str] = []
    reconnect = Reconnect(initial_delay=1, max_delay=4, jitter=0, max_attempts=4)
    client = Client(target, clock=clock, revision="legacy", reconnect=reconnect, on_state=seen.append)
    await client.open()
    target.refuse = 100
    target.peer.drop()
    await settle()
    waits: list[float] = []
    while client.state == "backoff":
        waits.append(clock.waiting[0] - clock())
        await clock.run(waits[-1], steps=1)
        await settle()
    assert waits == [1, 2, 4, 4]
    assert client.state == "failed"
    with pytest.raises(StateError, match="nobody listens"):
        await client.ping()
    await client.close()
    assert client.state == "closed"
    assert seen[:4] == ["negotiating", "ready", "backoff", "starting"]


def test_the_jitter_stays_within_its_share() -> None:
    reconnect = Reconnect(initial_delay=1, max_delay=30, jitter=0.2)
    assert delay(reconnect, 1, lambda low, high: low) == pytest.approx(0.8)
    assert delay(reconnect, 1, lambda low, high: high) == pytest.approx(1.2)
    assert delay(reconnect, 50, lambda low, high: high) == pytest.approx(36)
    assert delay(reconnect, 10_000, lambda low, high: 0) == 30


@run
async def test_calls_during_the_backoff_fail_at_once_or_queue() -> None:
    clock = FakeClock()
    for queue in (0, 1):
        target = server(0)
        client = Client(target, clock=clock, revision="legacy", reconnect=Reconnect(queue=queue, jitter=0))
        async with client:
            target.peer.drop()
            await settle()
            first = asyncio.create_task(client.call_tool("pay"))
            await settle()
            with pytest.raises(StateError):
                await client.call_tool("pay")
            await clock.run(1.5)
            if queue:
                assert (await first).text == "done"
            else:
                with pytest.raises(StateError):
                    await first


@pytest.mark.parametrize("middleware", [[], [Middleware()]])
@pytest.mark.parametrize("given", ["of the call", "of the client"])
@run
async def test_a_queued_call_waits_no_longer_than_the_connect_limit(
    middleware: list[Middleware], given: str
) -> None:
    target = server(0)
    reconnect = Reconnect(queue=5, initial_delay=60, max_delay=60)
    short, long = Timeouts(connect=0.5), Timeouts(connect=HANG)
    own, general = (short, long) if given == "of the call" else (None, short)
    async with (
        asyncio.timeout(HANG / 2),
        Client(
            target, revision="legacy", reconnect=reconnect, timeouts=general, middleware=middleware
        ) as client,
    ):
        target.peer.drop()
        await settle()
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("pay", timeout=own)
        assert caught.value.limit == "connect"


@pytest.mark.parametrize("middleware", [[], [Middleware()]])
@run
async def test_a_queued_call_waits_no_longer_than_its_total_limit(middleware: list[Middleware]) -> None:
    target = server(0)
    reconnect = Reconnect(queue=5, initial_delay=60, max_delay=60)
    async with (
        asyncio.timeout(HANG / 2),
        Client(target, revision="legacy", reconnect=reconnect, middleware=middleware) as client,
    ):
        target.peer.drop()
        await settle()
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("pay", timeout=0.5)
        assert caught.value.limit == "total"


@run
async def test_without_reconnecting_a_loss_is_final() -> None:
    target = server(0)
    async with Client(target, revision="legacy", reconnect=False) as client:
        target.peer.drop()
        await settle()
        assert client.state == "failed"


@run
async def test_the_first_connection_is_tried_once() -> None:
    target = server(0)
    target.refuse = 1
    client = Client(target)
    with pytest.raises(TransportError, match="nobody listens"):
        await client.open()
    assert client.state == "failed"
    await client.open()
    assert client.state == "ready"
    await client.close()


@run
async def test_closing_while_connecting_ends_the_opener() -> None:
    target = Scripted(lambda peer, message: None)
    client = Client(target)
    opening = asyncio.create_task(client.open())
    await settle()
    assert client.state == "negotiating"
    await client.close()
    with pytest.raises(StateError, match="closed"):
        await opening
    assert client.state == "closed"


@run
async def test_closing_during_the_backoff_does_not_wait() -> None:
    clock = FakeClock()
    target = server(0)
    client = await Client(target, clock=clock, revision="legacy").open()
    target.peer.drop()
    await settle()
    assert client.state == "backoff"
    await asyncio.wait_for(client.close(), HANG)
    assert client.state == "closed"


@run
async def test_a_modern_client_listens_again_and_counts_everything_as_changed() -> None:
    clock = FakeClock()
    changed: list[str] = []

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "subscriptions/listen":
            wanted = message["params"]["notifications"]
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            params = {"notifications": wanted, "_meta": meta}
            peer.say(
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
            )

    target = modern(answer)
    async with Client(target, clock=clock, on_list_changed=changed.append) as client:
        await client.subscribe_resource("file:///a")
        listen = [m for m in target.peer.heard if m["method"] == "subscriptions/listen"][-1]
        assert listen["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": ["file:///a"],
        }
        target.peer.drop()
        await settle()
        await clock.run(2)
        again = [m for m in target.peer.heard if m["method"] == "subscriptions/listen"][-1]
        assert again["params"]["notifications"] == listen["params"]["notifications"]
        meta = {"io.modelcontextprotocol/subscriptionId": again["id"]}
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}
        target.peer.say(notice)
        await settle()
        assert changed[-1] == "tools"


@run
async def test_what_a_legacy_client_watches_counts_as_changed_after_a_reconnect() -> None:
    clock, updated = FakeClock(), list[str]()
    target = server(0)
    async with Client(target, clock=clock, revision="legacy", on_resource_updated=updated.append) as client:
        await client.subscribe_resource("file:///a")
        assert updated == []
        target.peer.drop()
        await settle()
        await clock.run(2)
        assert updated == ["file:///a"]


@pytest.mark.parametrize("reconnect", [True, False])
@run
async def test_a_client_that_refuses_calls_does_not_say_that_it_is_ready(reconnect: bool) -> None:
    released, states = asyncio.Event(), list[str]()

    class Slow(Scripted):
        async def release(self, link: Any) -> None:
            await released.wait()
            await super().release(link)

    target = server(0)
    target.__class__ = Slow
    async with Client(target, revision="legacy", reconnect=reconnect, on_state=states.append) as client:
        target.peer.drop()
        await settle()
        with pytest.raises(StateError):
            await client.call_tool("pay")
        assert client.state == ("backoff" if reconnect else "failed")
        assert not client.connected
        released.set()
    assert states[:3] == ["negotiating", "ready", "backoff" if reconnect else "failed"]
