"""Bad clients and bad handlers against a real server: the documented answer, others go on, nothing is left."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail import Context, Limits, Server
from dovetail.drivers.duplex import accept, lifespan
from dovetail.transports import memory, tcp
from tests.support.aio import run, run_limited
from tests.support.everything import build
from tests.support.rawclient import MODERN, RawClient, until
from tests.support.waiting import HANG

from .parrot import call, said


@asynccontextmanager
async def listening(server: Server, **options: Any):  # type: ignore[no-untyped-def]
    async with lifespan(server.dispatcher):
        listener = await tcp.listen(server.dispatcher, **options)
        try:
            yield listener
        finally:
            await listener.close()


async def shouts(listener: tcp.StreamListener) -> None:
    """Another client is served."""
    client = RawClient(MODERN)
    await tcp.connect(client, *listener.address)
    assert said(await client.request("tools/call", call("shout", words="hi"))) == "HI"
    await client.close()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """The test ends with no more threads than it began with."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(HANG)
        assert not thread.is_alive(), f"{thread} is left"


@pytest.mark.usefixtures("nothing_left")
@run
async def test_a_flood_is_answered_or_refused_and_others_are_served() -> None:
    async with listening(build(limits=Limits(max_requests_per_connection=100))) as listener:
        client = RawClient(MODERN, check=False)
        await tcp.connect(client, *listener.address)
        ids = [client.start("tools/call", call("shout", words="x")) for _ in range(5000)]
        await shouts(listener)
        answers = [await client.response(id) for id in ids]
        refused = [answer["error"]["code"] for answer in answers if "error" in answer]
        assert set(refused) <= {1008}
        assert len(refused) < 5000
        assert said(await client.request("tools/call", call("shout", words="still here"))) == "STILL HERE"
        await client.close()


@pytest.mark.usefixtures("nothing_left")
@run
async def test_a_client_that_stalls_during_a_message_blocks_no_other_client() -> None:
    async with listening(build(), idle=1.5) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(b'{"jsonrpc":"2.0","id":1,"meth')
        await shouts(listener)
        assert await reader.read() == b""  # and in the end it is hung up on
        writer.close()


@pytest.mark.usefixtures("nothing_left")
@run
async def test_a_client_that_vanishes_under_its_calls_leaves_no_task_and_no_thread() -> None:
    async with listening(build()) as listener:
        client = RawClient(MODERN)
        await tcp.connect(client, *listener.address)
        for _ in range(10):
            client.start("tools/call", call("wait", key="k"))
            client.start("tools/call", call("stuck", seconds=0.2))
        await client.request("tools/call", call("count", steps=1))
        client.link.abort()
        await shouts(listener)
        await until(lambda: not listener.connections)


@run
async def test_a_handler_that_never_returns_is_stopped_by_its_timeout() -> None:
    server = Server("t")

    @server.tool(timeout=0.05)
    async def forever() -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    client = RawClient(MODERN)
    duplex = accept(server.dispatcher)
    memory.connect(client, duplex)
    result = await client.request("tools/call", call("forever"))
    assert result["isError"] is True
    assert "0.05" in said(result)
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_handler_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    server = Server("t")
    release = asyncio.Event()

    @server.tool
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        return ""

    client = RawClient(MODERN)
    duplex = accept(server.dispatcher)
    memory.connect(client, duplex)
    client.start("tools/call", call("stubborn"))
    await client.request("tools/list")
    await duplex.close()  # it would go on until it is released
    release.set()
    await client.over


@run
async def test_a_client_that_answers_something_else_gets_an_error_result_and_goes_on() -> None:
    server = Server("t")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.list_roots())

    answers = {"roots/list": lambda params: {"roots": "none"}}
    client = RawClient("2025-06-18", answers=answers)
    duplex = accept(server.dispatcher)
    memory.connect(client, duplex)
    await client.open()
    answer = await client.response(client.start("tools/call", call("ask")))
    assert "error" in answer or answer["result"]["isError"]
    assert await client.request("ping") == {}
    await client.close()
    await duplex.wait_closed()


@pytest.mark.parametrize(("dialect", "code"), [("official", -32600), ("erlmcp", -32012)])
def test_a_message_over_the_limit_has_the_number_of_its_dialect(dialect: str, code: int) -> None:
    @run
    async def scenario() -> None:
        server = Server("t", dialect=dialect, limits=Limits(max_message_bytes=2000))
        client = RawClient("2024-11-05", check=False)
        duplex = accept(server.dispatcher)
        memory.connect(client, duplex, limits=server.limits)
        await client.open()
        client.send_bytes(b'{"x":"' + b"x" * 3000 + b'"}')
        await client.request("ping")
        error = client.received_messages[-2]["error"]
        assert error["code"] == code
        assert (error["data"]["maxSize"], error["data"]["unit"]) == (2000, "bytes")
        await client.close()
        await duplex.wait_closed()

    scenario()


@run
async def test_listeners_that_do_not_read_cannot_make_the_server_grow() -> None:
    server = build(limits=Limits(max_write_buffer_bytes=2000))
    client = RawClient(MODERN)
    duplex = accept(server.dispatcher)
    memory.connect(client, duplex, limits=server.limits)
    client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await client.notification("notifications/subscriptions/acknowledged")
    client.link.pause()

    async def another() -> str:
        return ""

    for _ in range(500):
        server.add_tool(another)
        await asyncio.sleep(0)
        server.remove_tool("another")
        await asyncio.sleep(0)
    heard = len(client.received_messages)
    client.link.resume()
    await client.request("tools/call", call("shout", words="x"))
    assert len(json.dumps(client.received_messages[heard:])) < 10 * server.limits.max_write_buffer_bytes
    changes = [one for one in client.notifications if one["method"] == "notifications/tools/list_changed"]
    assert 0 < len(changes) < 100
    await client.close()
    await duplex.wait_closed()


garbage = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0")},
        optional={
            "id": st.none() | st.integers() | st.text(max_size=4) | st.floats(allow_nan=False),
            "method": st.sampled_from(
                ["tools/call", "initialize", "ping", "notifications/cancelled", "x", ""]
            ),
            "params": st.none()
            | st.lists(st.integers(), max_size=2)
            | st.dictionaries(
                st.sampled_from(["name", "arguments", "_meta", "requestId", "cursor"]),
                st.integers() | st.text(max_size=4),
            ),
            "result": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
            "error": st.none()
            | st.fixed_dictionaries({"code": st.integers(), "message": st.text(max_size=3)}),
        },
    ).map(lambda value: json.dumps(value).encode()),
)


@pytest.mark.parametrize("revision", ["2025-03-26", MODERN])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(garbage, max_size=8))
def test_after_any_garbage_the_next_request_is_served(revision: str, messages: list[bytes]) -> None:
    async def scenario() -> None:
        async with lifespan(SERVER.dispatcher):
            await conversation()

    async def conversation() -> None:
        client = RawClient(revision, check=False)
        duplex = accept(SERVER.dispatcher)
        memory.connect(client, duplex)
        await client.open()
        for message in messages:
            client.send_bytes(message)
        client.ids = iter(["the-one-id-no-garbage-has", "another"])  # type: ignore[assignment]
        assert said(await client.request("tools/call", call("shout", words="ok"))) == "OK"
        await client.close()
        await duplex.wait_closed()

    run_limited(scenario())


SERVER = build()
