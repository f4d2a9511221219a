"""The exchange driver: one message or batch, its reply, nothing kept."""

import asyncio
import json
from typing import Any

import pytest

from dovetail.core.channel import Call, Channel, ServerRequestsNotSupported, Session
from dovetail.drivers.exchange import NULL_WRITER, ResponseWriter, exchange
from dovetail.drivers.run import Runner
from dovetail.errors import ProtocolError, Refusal
from dovetail.model import ClientCapabilities, ProgressNotificationParams, RequestParams
from dovetail.settings import Limits
from dovetail.wire.frames import decode
from tests.support import schemas
from tests.support.aio import run
from tests.support.rawclient import META, MODERN
from tests.support.waiting import HANG

from .parrot import Gate, Parrot, text

WITH_BATCHES = "2025-03-26"


class Pages:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.drained = 0

    def notify(self, message: bytes) -> None:
        self.messages.append(message)

    async def drain(self) -> None:
        self.drained += 1


def request(name: str, id: int = 7, *, modern: bool = True) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name}
    if modern:
        params["_meta"] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def session(service: Parrot, revision: str = WITH_BATCHES) -> Session:
    codec = service.admission.codecs[revision]
    return Session(revision=codec.revision, codec=codec, capabilities=ClientCapabilities(), phase="ready")


async def exchanged(service: Parrot, name: str) -> tuple[int, Any, Pages]:
    pages = Pages()
    status, reply = await exchange(service, json.dumps(request(name)), writer=pages)
    assert reply is not None
    schemas.validate(reply, MODERN, method="tools/call")
    return status, json.loads(reply), pages


async def batched(
    service: Parrot, *messages: Any, writer: ResponseWriter = NULL_WRITER, runner: Runner | None = None
) -> tuple[int, Any]:
    data = json.dumps(messages).encode()
    status, reply = await exchange(service, data, session=session(service), writer=writer, runner=runner)
    return status, None if reply is None else json.loads(reply)


@run
async def test_a_result_is_one_reply_in_the_callers_own_task() -> None:
    tasks: list[Any] = []

    async def look(call: Call, channel: Channel) -> Any:
        tasks.extend(asyncio.all_tasks())
        return text("seen")

    status, reply, pages = await exchanged(Parrot(look=look), "look")
    assert (status, reply["id"], reply["result"]["content"][0]["text"]) == (200, 7, "seen")
    assert pages.messages == []
    assert tasks == [asyncio.current_task()]


@run
async def test_bytes_text_and_a_frame_are_the_same_message() -> None:
    service = Parrot()
    data = json.dumps(request("echo")).encode()
    replies = [await exchange(service, one) for one in (data, data.decode(), decode(data))]
    assert replies[0] == replies[1] == replies[2]


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
async def test_messages_after_the_reply_are_dropped() -> None:
    channels: list[Channel] = []

    async def keep(call: Call, channel: Channel) -> Any:
        channels.append(channel)
        return text("done")

    _, _, pages = await exchanged(Parrot(keep=keep), "keep")
    channels[0].notify("notifications/progress", ProgressNotificationParams("t", 1))
    assert pages.messages == []


@run
async def test_there_is_no_way_back() -> None:
    async def ask(call: Call, channel: Channel) -> Any:
        with pytest.raises(ServerRequestsNotSupported):
            await channel.request("roots/list", RequestParams())
        return text("as expected")

    _, reply, _ = await exchanged(Parrot(ask=ask), "ask")
    assert "result" in reply


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ProtocolError("rate_limited"), 429, 1003),
        (Refusal(1001), 200, 1001),
        (ValueError("secret"), 200, -32603),
    ],
)
def test_an_error_has_its_status(error: Exception, status: int, code: int) -> None:
    async def fail(call: Call, channel: Channel) -> Any:
        raise error

    @run
    async def scenario() -> None:
        found, reply, _ = await exchanged(Parrot(fail=fail), "fail")
        assert (found, reply["error"]["code"]) == (status, code)
        assert "secret" not in json.dumps(reply)

    scenario()


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
        (b" " * 1001, 413, -32600),
        ("\u00fc" * 501, 413, -32600),
    ],
)
def test_what_is_no_call_is_refused_with_its_status(message: bytes | str, status: int, code: int) -> None:
    @run
    async def scenario() -> None:
        service = Parrot(Limits(max_message_bytes=1000))
        found, reply = await exchange(service, message, session=session(service))
        assert reply is not None
        assert (found, json.loads(reply)["error"]["code"]) == (status, code)

    scenario()


@run
async def test_a_notification_is_passed_to_the_service_and_has_no_reply() -> None:
    service = Parrot()
    message = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
    assert await exchange(service, message, session=session(service)) == (202, None)
    assert await batched(service, json.loads(message), json.loads(message)) == (202, None)
    assert [notice.method for notice in service.notices] == ["notifications/roots/list_changed"] * 3
    assert await exchange(service, b'{"jsonrpc":"2.0","method":"no/such"}') == (202, None)


@run
async def test_listening_is_refused_without_a_stream() -> None:
    message = request("echo")
    message["method"], message["params"]["notifications"] = "subscriptions/listen", {}
    status, reply = await exchange(Parrot(), json.dumps(message))
    assert reply is not None
    assert (status, "error" in json.loads(reply)) == (200, True)


@run
async def test_cancelling_the_caller_cancels_the_call_and_silences_it() -> None:
    gate = Gate()
    channels: list[Channel] = []

    async def held(call: Call, channel: Channel) -> Any:
        channels.append(channel)
        return await gate(call, channel)

    service, pages = Parrot(held=held), Pages()
    working = asyncio.ensure_future(exchange(service, json.dumps(request("held")), writer=pages))
    await gate.reached.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert gate.cancelled
    channels[0].notify("notifications/progress", ProgressNotificationParams("t", 1))
    assert pages.messages == []


# --- batches ------------------------------------------------------------------------------------------------


@run
async def test_the_calls_of_a_batch_run_together_and_are_answered_together() -> None:
    meeting = asyncio.Barrier(3)

    async def meet(call: Call, channel: Channel) -> Any:
        channel.notify("notifications/progress", ProgressNotificationParams("t", 1))
        async with asyncio.timeout(HANG):
            await meeting.wait()
        return text("met")

    async def broken(call: Call, channel: Channel) -> Any:
        await meeting.wait()
        raise SystemExit(1)

    pages = Pages()
    calls = [request("meet", 1, modern=False), request("meet", 2, modern=False)]
    status, replies = await batched(
        Parrot(meet=meet, broken=broken), *calls, request("broken", 3, modern=False), writer=pages
    )
    assert status == 200
    assert {reply["id"]: "result" in reply for reply in replies} == {1: True, 2: True, 3: False}
    assert len(pages.messages) == 2


@run
async def test_a_batch_obeys_the_rules_of_every_connection() -> None:
    status, replies = await batched(
        Parrot(),
        request("echo", 1, modern=False),
        request("echo", 1, modern=False),
        request("echo", 2),
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
        17,
    )
    assert status == 200
    assert [reply["id"] for reply in replies if "result" in reply] == [1]
    assert sorted(str(reply.get("id")) for reply in replies if "error" in reply) == ["1", "2", "3", "None"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_batch_is_refused_where_the_revision_has_none(revision: str) -> None:
    @run
    async def scenario() -> None:
        service = Parrot()
        data = json.dumps([request("echo", 1, modern=False)])
        status, reply = await exchange(service, data, session=session(service, revision))
        assert reply is not None
        assert (status, json.loads(reply)["error"]["code"]) == (400, -32600)

    scenario()


@run
async def test_a_call_that_its_own_batch_cancels_does_not_run() -> None:
    gate = Gate()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    status, replies = await batched(Parrot(held=gate), request("held", 1, modern=False), cancel)
    assert (status, replies) == (202, None)
    assert not gate.reached.is_set()


@pytest.mark.parametrize("draining", [True, False])
def test_what_cancels_the_caller_ends_every_call_of_its_batch(draining: bool) -> None:
    @run
    async def scenario() -> None:
        gates = Gate(), Gate()
        service = Parrot(one=gates[0], two=gates[1])
        runner = Runner(service)
        calls = [request("one", 1, modern=False), request("two", 2, modern=False)]
        working = asyncio.ensure_future(batched(service, *calls, runner=runner))
        for gate in gates:
            await gate.reached.wait()
        runner.draining = draining
        working.cancel()
        if draining:
            _, replies = await working
            assert {(reply["id"], reply["error"]["code"]) for reply in replies} == {(1, 1008), (2, 1008)}
            assert working.cancelling() == 0
        else:
            with pytest.raises(asyncio.CancelledError):
                await working
        assert all(gate.cancelled for gate in gates)

    scenario()
