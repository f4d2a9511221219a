"""Timeouts of calls: what counts, what extends them, and the cancellation that the server receives."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Timeouts
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import ProtocolError, RequestTimeout
from dovetail.testing import FakeClock

from ..support.aio import run
from ..support.waiting import HANG, turns, until
from .fake_http import EVENTS, INITIALIZED, Handler, Reply, Request, result, serving
from .scripted import Peer, Scripted, legacy, modern, text

STAMPS = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
TOOL = {"name": "x", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}


def endless_modern() -> Scripted:
    """Makes a task of every call, and never ends one."""

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        task = {"taskId": "t1", "status": "working", "pollIntervalMs": 20, "ttlMs": None, **STAMPS}
        match message["method"]:
            case "tools/call":
                peer.result(message, {"resultType": "task", **task})
            case "tasks/get":
                peer.result(message, {"resultType": "complete", **task})
            case _:
                peer.result(message, {"resultType": "complete"})

    return modern(answer, extensions={"io.modelcontextprotocol/tasks": {}})


def endless_legacy() -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        task = {"taskId": "t1", "status": "working", "ttl": 1000, **STAMPS}
        match message.get("method"):
            case "tools/list":
                peer.result(message, {"tools": [TOOL]})
            case "tools/call":
                peer.result(message, {"task": task})
            case "tasks/cancel":
                peer.result(message, {**task, "status": "cancelled"})

    served = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
    return legacy(answer, "2025-11-25", **served)


BOTH = pytest.mark.parametrize("server", [endless_modern, endless_legacy])


def cancelled(target: Scripted) -> list[str]:
    return [m["params"]["taskId"] for m in target.peer.heard if m.get("method") == "tasks/cancel"]


@BOTH
@pytest.mark.parametrize("given", ["of the call", "of the client"])
@run
async def test_a_call_that_became_a_task_ends_with_the_total_limit_and_so_does_the_task(
    server: Callable[[], Scripted], given: str
) -> None:
    target, limit = server(), Timeouts(total=0.6)
    async with Client(target, timeouts=limit if given == "of the client" else None) as client:
        await client.list_tools() if server is endless_legacy else None
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("x", timeout=None if given == "of the client" else 0.6)
        assert caught.value.limit == "total"
        assert cancelled(target) == ["t1"]


@BOTH
@run
async def test_a_call_that_became_a_task_is_cancelled_with_its_caller(server: Callable[[], Scripted]) -> None:
    target = server()
    async with Client(target) as client:
        await client.list_tools() if server is endless_legacy else None
        call = asyncio.create_task(client.call_tool("x"))
        waits = "tasks/get" if server is endless_modern else "tasks/result"
        await until(lambda: waits in target.peer.methods)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert cancelled(target) == ["t1"]


def endless_erlmcp() -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.result(message, {"taskId": "t1"} if message.get("method") == "tasks/create" else {})

    return legacy(answer, "2025-11-25", experimental={"features": ["task_management"]})


ALL = pytest.mark.parametrize("server", [endless_modern, endless_legacy, endless_erlmcp])
MAKING = ("tools/call", "tasks/create")


@ALL
@pytest.mark.parametrize("ended", ["limit", "caller"])
@run
async def test_a_task_reported_after_a_timeout_does_not_keep_running(
    server: Callable[[], Scripted], ended: str
) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") in MAKING:
            held.append(message)
        elif message.get("method") == "notifications/cancelled":
            prompt.answer(peer, held[0])  # it was on its way
            prompt.answer(peer, held[0])
        else:
            prompt.answer(peer, message)

    held: list[dict[str, Any]] = []
    prompt = server()
    target = Scripted(answer)
    async with Client(target) as client:
        limit = 0.2 if ended == "limit" else None
        call = asyncio.create_task(client.call_tool("x", task=True, timeout=limit))
        await until(lambda: held)
        if ended == "caller":
            call.cancel()
        with pytest.raises(RequestTimeout if ended == "limit" else asyncio.CancelledError):
            await call
        await until(lambda: cancelled(target))
        await turns()
        assert cancelled(target) == ["t1"]


@ALL
@pytest.mark.parametrize("first", ["answer", "caller"])
@run
async def test_a_task_does_not_run_on_whose_answer_comes_as_its_caller_is_cancelled(
    server: Callable[[], Scripted], first: str
) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        making = message.get("method") in MAKING
        if making and first == "caller":
            asyncio.get_running_loop().call_soon(call.cancel)
        prompt.answer(peer, message)
        if making and first == "answer":
            asyncio.get_running_loop().call_soon(call.cancel)

    prompt = server()
    target = Scripted(answer)
    async with Client(target) as client:
        call = asyncio.create_task(client.call_tool("x", task=True))
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: cancelled(target))
        assert "notifications/cancelled" not in target.peer.methods


@run
async def test_an_answer_that_names_no_task_is_not_spoken_of_when_it_is_late() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "tools/call":
            held.append(message)
        elif message["method"] == "notifications/cancelled":
            peer.result(held[0], {"resultType": "complete", **text("done")})

    held: list[dict[str, Any]] = []
    target = modern(answer, extensions={"io.modelcontextprotocol/tasks": {}})
    async with Client(target) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await until(lambda: held)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await turns()
        assert target.peer.methods[-1] == "notifications/cancelled"


@run
async def test_nothing_is_said_of_a_task_when_the_connection_is_lost_with_its_caller() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        endless.answer(peer, message)
        if message["method"] == "tools/call":
            peer.drop()
            asyncio.get_running_loop().call_soon(call.cancel)

    endless = endless_modern()
    target = Scripted(answer)
    async with Client(target, reconnect=False) as client:
        call = asyncio.create_task(client.call_tool("x"))
        with pytest.raises(asyncio.CancelledError):
            await call
        await turns()
        assert cancelled(target) == []


@pytest.mark.parametrize("ended", ["limit", "caller"])
@run
async def test_a_task_whose_id_was_not_returned_is_cancelled(ended: str) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] not in ("subscriptions/listen", "notifications/cancelled"):
            silent.answer(peer, message)

    silent = endless_modern()
    target = Scripted(answer)
    async with Client(target, on_task=print, timeouts=Timeouts(idle=None, total=0.4)) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await until(lambda: "subscriptions/listen" in target.peer.methods)
        if ended == "caller":
            call.cancel()
        with pytest.raises(RequestTimeout if ended == "limit" else asyncio.CancelledError):
            await call
        assert cancelled(target) == ["t1"]


@pytest.mark.parametrize("answers", [True, False])
@run
async def test_a_task_whose_input_request_cannot_be_answered_does_not_wait_for_the_answer(
    answers: bool,
) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "tasks/get":
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            asked = {"q": {"method": "elicitation/create", "params": form}}
            task = {"taskId": "t1", "status": "input_required", "ttlMs": None, **STAMPS}
            peer.result(message, {"resultType": "complete", **task, "inputRequests": asked})
        else:
            endless.answer(peer, message)

    async def broken(_: Any) -> None:
        raise LookupError

    endless = endless_modern()
    target = Scripted(answer)
    async with Client(target, on_elicit=broken if answers else None) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("x")
        assert isinstance(caught.value.__cause__, LookupError) == answers
        assert cancelled(target) == ["t1"]


@run
async def test_a_handle_is_awaited_for_the_clients_timeout_and_its_task_continues() -> None:
    target = endless_modern()
    async with Client(target, timeouts=Timeouts(total=0.6)) as client:
        handle = await client.call_tool("x", task=True)
        with pytest.raises(RequestTimeout) as caught:
            await handle.result()
        assert caught.value.limit == "total"
        assert cancelled(target) == []
        assert await handle.status() == "working"


# --- progress --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [legacy, modern])
@run
async def test_progress_extends_the_idle_timeout_even_without_a_progress_callback(era: Any) -> None:
    clock, asked = FakeClock(), list[dict[str, Any]]()
    target = era(lambda peer, message: asked.append(message))
    async with Client(target, clock=clock, timeouts=Timeouts(idle=10, total=100)) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await turns()
        token = asked[0]["params"]["_meta"]["progressToken"]
        for step in range(1, 4):
            clock.advance(8)
            params = {"progressToken": token, "progress": step}
            target.peer.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await turns()
        target.peer.result(asked[0], text("done", resultType="complete"))
        assert (await call).text == "done"


@run
async def test_without_an_idle_limit_no_progress_is_asked_for() -> None:
    asked = list[dict[str, Any]]()

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        asked.append(message)
        peer.result(message, text("done"))

    async with Client(legacy(answer), timeouts=Timeouts(idle=None)) as client:
        await client.call_tool("x")
    assert "_meta" not in asked[0]["params"]


# --- connecting ------------------------------------------------------------------------------------------------------

FAKE = Path(__file__).with_name("fake_stdio.py")


@pytest.mark.parametrize("mode", ["hang", "silent"])
@run
async def test_the_probe_leaves_time_for_the_rest_of_a_short_connect_limit(mode: str, tmp_path: Path) -> None:
    command = [sys.executable, "-S", str(FAKE), mode, str(tmp_path / "log")]
    limits = Timeouts(connect=4.5)
    async with Client(command, timeouts=limits, server_cache=ServerCache(), on_stderr=len) as client:
        assert client.revision == "2025-06-18"


@pytest.mark.parametrize("wrong", [-1, -0.5, float("nan"), "10", [1]])
@pytest.mark.parametrize("name", ["connect", "idle", "total"])
def test_a_limit_that_is_no_time_is_refused_at_once(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match="number of seconds"):
        Timeouts(**{name: wrong})


@run
async def test_a_call_whose_timeout_is_no_time_is_not_sent() -> None:
    target = legacy(lambda peer, message: None)
    async with Client(target, revision="legacy") as client:
        with pytest.raises(ValueError, match="number of seconds"):
            await client.call_tool("x", timeout=-1)
        assert "tools/call" not in target.peer.methods


# --- HTTP+SSE: the POST hangs ----------------------------------------------------------------------------------------


def pair(hangs: str) -> Handler:
    """HTTP+SSE; the POST of ``hangs`` is taken and never answered, nor is anything said on the stream."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def stream() -> AsyncIterator[bytes]:
        yield b"event: endpoint\ndata: /messages\n\n"
        while True:
            yield b"event: message\ndata: %b\n\n" % await answers.get()

    def handler(request: Request) -> Reply:
        if request.verb == "GET":
            return Reply(200, EVENTS, stream=stream())
        if request.path != "/messages" or request.method == hangs:
            return Reply(405) if request.path != "/messages" else Reply(hang=True)
        if request.method == "initialize":
            answers.put_nowait(result(request, INITIALIZED).body)
        return Reply(202)

    return handler


@pytest.mark.parametrize("asked", ["tools/call", "tools/list"])
@run
async def test_a_post_that_is_never_answered_ends_with_the_limit_of_the_call(asked: str) -> None:
    async with serving(pair(asked)) as (_, url), Client(url, server_cache=ServerCache()) as client:
        async with asyncio.timeout(HANG / 4):
            with pytest.raises(RequestTimeout) as caught:
                await (
                    client.call_tool("x", timeout=0.2) if "call" in asked else client.list_tools(timeout=0.2)
                )
        assert caught.value.limit == "total"


@run
async def test_a_post_that_is_never_answered_ends_with_the_connect_limit() -> None:
    async with serving(pair("initialize")) as (_, url), asyncio.timeout(HANG / 4):
        with pytest.raises(RequestTimeout) as caught:
            await Client(url, timeouts=Timeouts(connect=0.5), server_cache=ServerCache()).open()
        assert caught.value.limit == "connect"
