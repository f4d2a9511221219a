"""The exchange driver: one call, one reply, no task of its own."""

import asyncio
import json
import logging
from typing import Any

import pytest

from dovetail.core.channel import Call, Channel, NoBackChannel
from dovetail.drivers.exchange import exchange
from dovetail.errors import ProtocolError
from dovetail.model import ProgressNotificationParams, RequestParams
from dovetail.wire.frames import decode
from tests.support import schemas
from tests.support.aio import run
from tests.support.rawclient import META, MODERN

from .parrot import Gate, Parrot, text


class Pages:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.drained = 0

    def notify(self, message: bytes) -> None:
        self.messages.append(message)

    async def drain(self) -> None:
        self.drained += 1


def admitted(service: Parrot, name: str) -> Call:
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "_meta": meta}}
    call = service.admission.admit(decode(json.dumps(message).encode()), None)
    assert isinstance(call, Call)
    return call


async def exchanged(service: Parrot, name: str) -> tuple[Any, Any, Pages]:
    pages = Pages()
    reply, error = await exchange(service, admitted(service, name), pages)
    schemas.validate(reply, MODERN, method="tools/call")
    return json.loads(reply), error, pages


@run
async def test_a_result_is_one_reply_in_the_callers_own_task() -> None:
    tasks: list[Any] = []

    async def look(call: Call, channel: Channel) -> Any:
        tasks.extend(asyncio.all_tasks())
        return text("seen")

    reply, error, pages = await exchanged(Parrot(look=look), "look")
    assert (reply["id"], reply["result"]["content"][0]["text"]) == (7, "seen")
    assert error is None
    assert pages.messages == []
    assert tasks == [asyncio.current_task()]


@run
async def test_notifications_go_to_the_writer_before_the_reply() -> None:
    async def count(call: Call, channel: Channel) -> Any:
        channel.notify("notifications/progress", ProgressNotificationParams("t", 1))
        await channel.drain()
        return text("done")

    _, _, pages = await exchanged(Parrot(count=count), "count")
    assert [json.loads(message)["method"] for message in pages.messages] == ["notifications/progress"]
    assert pages.drained == 1


@run
async def test_there_is_no_way_back() -> None:
    async def ask(call: Call, channel: Channel) -> Any:
        with pytest.raises(NoBackChannel):
            await channel.request("roots/list", RequestParams())
        return text("as expected")

    reply, _, _ = await exchanged(Parrot(ask=ask), "ask")
    assert "result" in reply


@run
async def test_errors_come_with_the_reply_for_the_status() -> None:
    async def fail(call: Call, channel: Channel) -> Any:
        raise ProtocolError("rate_limited")

    reply, error, _ = await exchanged(Parrot(fail=fail), "fail")
    assert error.kind == "rate_limited"
    assert reply["error"]["code"] == 1003


@pytest.mark.parametrize("failure", [KeyError("secret"), SystemExit(1), asyncio.CancelledError()])
def test_anything_else_is_masked(failure: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    async def crash(call: Call, channel: Channel) -> Any:
        raise failure

    @run
    async def scenario() -> None:
        with caplog.at_level(logging.ERROR, "dovetail"):
            reply, error, _ = await exchanged(Parrot(crash=crash), "crash")
        assert error.kind == "internal_error"
        assert "secret" not in json.dumps(reply)
        assert reply["error"]["data"]["incident"] in caplog.text

    scenario()


@run
async def test_cancelling_the_caller_cancels_the_call_and_silences_it() -> None:
    gate = Gate()

    async def stubborn(call: Call, channel: Channel) -> Any:
        try:
            await gate(call, channel)
        finally:
            call.cancelled = True
            channel.notify("notifications/progress", ProgressNotificationParams("t", 1))

    service, pages = Parrot(stubborn=stubborn), Pages()
    working = asyncio.ensure_future(exchange(service, admitted(service, "stubborn"), pages))
    await gate.reached.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert gate.cancelled
    assert pages.messages == []
