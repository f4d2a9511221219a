"""The duplex driver: what it does with calls, answers, cancellations and the end of a connection."""

import asyncio
import json
import logging
from typing import Any

import pytest

from dovetail.core.channel import Call, Channel, Link, ServerRequestsNotSupported
from dovetail.drivers.duplex import accept
from dovetail.errors import ProtocolError, SessionLost, ToolError, TransportError
from dovetail.model import ProgressNotificationParams, RequestParams
from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.rawclient import LEGACY, META, MODERN, REVISIONS, until
from tests.support.waiting import turns

from .parrot import Gate, Parrot, call, connected, said, text


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_is_answered_on_every_revision(revision: str) -> None:
    @run
    async def scenario() -> None:
        client, duplex = await connected(Parrot(), revision)
        assert said(await client.request("tools/call", call("echo"))) == "echo"
        await client.close()
        await duplex.wait_closed()

    scenario()


@run
async def test_a_slow_call_does_not_hold_up_the_next() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    slow = client.start("tools/call", call("slow"))
    assert said(await client.request("tools/call", call("echo"))) == "echo"
    gate.open.set()
    assert said((await client.response(slow))["result"]) == "through"
    await client.close()
    await duplex.wait_closed()


@run
async def test_answers_ready_in_one_turn_leave_in_one_write() -> None:
    class Counting(Link):
        """A link without a peer; it counts the messages of each write."""

        def __init__(self) -> None:
            self.writes: list[int] = []

        def send(self, message: bytes) -> None:
            self.writes.append(1)

        def send_many(self, messages: list[bytes]) -> None:
            self.writes.append(len(messages))

        def close(self) -> None:
            duplex.lost(None)

    duplex, link = accept(Parrot()), Counting()
    duplex.connected(link)
    for number in (10, 1):
        for id in range(number):
            message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call("echo")}
            message["params"]["_meta"] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
            duplex.received(json.dumps(message).encode())
        await until(lambda: not duplex.busy)
    assert link.writes == [10, 1]
    await duplex.close()


@run
async def test_a_cancelled_call_is_stopped_and_never_answered() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    id = client.start("tools/call", call("slow"))
    await gate.reached.wait()
    client.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    await client.request("tools/call", call("echo"))
    assert gate.cancelled
    assert [message.get("id") for message in client.received_messages] == [id + 1]
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_call_cancelled_in_the_same_breath_never_starts() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    id = client.start("tools/call", call("slow"))
    client.notify("notifications/cancelled", {"requestId": id})
    await client.request("tools/call", call("echo"))
    assert not gate.reached.is_set()
    assert not duplex.endpoint.in_flight
    assert not duplex.busy
    await client.close()
    await duplex.wait_closed()


@run
async def test_an_id_may_be_used_again_though_the_cancelled_handler_goes_on() -> None:
    gate, second = Gate(), Gate()

    async def stubborn(call: Call, channel: Channel) -> Any:
        try:
            await gate(call, channel)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return text("too late")

    client, duplex = await connected(Parrot(stubborn=stubborn, slow=second))
    client.start("tools/call", call("stubborn"), id="same")
    await gate.reached.wait()
    client.notify("notifications/cancelled", {"requestId": "same"})
    client.start("tools/call", call("slow"), id="same")
    await second.reached.wait()
    await client.request("tools/call", call("echo"))
    assert duplex.busy
    second.open.set()
    assert said((await client.response("same"))["result"]) == "through"
    await client.close()
    await duplex.wait_closed()


@run
async def test_an_id_in_use_is_refused_and_the_first_call_goes_on() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    client.start("tools/call", call("slow"), id="same")
    await gate.reached.wait()
    first = client.futures["same"]
    second = client.start("tools/call", call("echo"), id="same")
    assert (await client.response(second))["error"]["code"] == -32600
    client.futures["same"] = first
    gate.open.set()
    assert said((await client.response("same"))["result"]) == "through"
    await client.close()
    await duplex.wait_closed()


@run
async def test_more_calls_than_the_limit_are_refused_and_the_others_go_on() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(Limits(max_requests_per_connection=2), slow=gate))
    running = [client.start("tools/call", call("slow")) for _ in range(2)]
    refused = await client.response(client.start("tools/call", call("echo")))
    assert refused["error"]["code"] == 1008
    gate.open.set()
    for id in running:
        assert "result" in await client.response(id)
    await client.close()
    await duplex.wait_closed()


@run
async def test_cancelled_calls_that_do_not_end_count_as_under_way() -> None:
    gate, release = Gate(), asyncio.Event()

    async def stubborn(call: Call, channel: Channel) -> Any:
        try:
            await gate(call, channel)
        finally:
            await release.wait()

    client, duplex = await connected(Parrot(Limits(max_requests_per_connection=2), stubborn=stubborn))
    for id in ("a", "b"):
        client.start("tools/call", call("stubborn"), id=id)
        await gate.reached.wait()
        gate.reached.clear()
        client.notify("notifications/cancelled", {"requestId": id})
    refused = await client.response(client.start("tools/call", call("echo")))
    assert refused["error"]["code"] == 1008
    release.set()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert "result" in await client.response(client.start("tools/call", call("echo")))
    await client.close()
    await duplex.wait_closed()


@run
async def test_what_a_service_lets_escape_is_masked_and_logged_under_its_incident(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(call: Call, channel: Channel) -> Any:
        raise KeyError("secret")

    client, duplex = await connected(Parrot(broken=broken))
    with caplog.at_level(logging.ERROR, "dovetail"):
        answer = await client.response(client.start("tools/call", call("broken")))
    error = answer["error"]
    assert error["code"] == -32603
    assert "secret" not in str(error)
    assert error["data"]["incident"] in caplog.text
    assert "secret" in caplog.text
    await client.close()
    await duplex.wait_closed()


@pytest.mark.parametrize("failure", [asyncio.CancelledError, SystemExit, StopAsyncIteration, RecursionError])
def test_no_exception_of_a_handler_ends_the_connection(failure: type[BaseException]) -> None:
    async def broken(call: Call, channel: Channel) -> Any:
        raise failure

    @run
    async def scenario() -> None:
        client, duplex = await connected(Parrot(broken=broken))
        answer = await client.response(client.start("tools/call", call("broken")))
        assert answer["error"]["code"] == -32603
        assert said(await client.request("tools/call", call("echo"))) == "echo"
        await client.close()
        await duplex.wait_closed()

    scenario()


@run
async def test_a_result_that_cannot_be_written_becomes_an_error() -> None:
    async def broken(call: Call, channel: Channel) -> Any:
        return text(b"\xff")  # type: ignore[arg-type]

    async def unencodable(call: Call, channel: Channel) -> Any:
        result = text("x")
        result.structured_content = object()
        return result

    client, duplex = await connected(Parrot(unencodable=unencodable))
    answer = await client.response(client.start("tools/call", call("unencodable")))
    assert answer["error"]["code"] == -32603
    assert not duplex.busy
    await client.close()
    await duplex.wait_closed()


@run
async def test_notifications_of_a_call_arrive_before_its_answer() -> None:
    async def counting(call: Call, channel: Channel) -> Any:
        for step in range(3):
            channel.notify("notifications/progress", ProgressNotificationParams("t", step))
            await channel.drain()
        return text("done")

    client, duplex = await connected(Parrot(counting=counting))
    await client.request("tools/call", call("counting"), meta={"progressToken": "t"})
    kinds = [message.get("method", "answer") for message in client.received_messages]
    assert kinds == ["notifications/progress"] * 3 + ["answer"]
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_cancelled_call_says_nothing_more() -> None:
    gate = Gate()

    async def stubborn(call: Call, channel: Channel) -> Any:
        try:
            await gate(call, channel)
        except asyncio.CancelledError:
            channel.notify("notifications/progress", ProgressNotificationParams("t", 1))
            raise

    client, duplex = await connected(Parrot(stubborn=stubborn))
    id = client.start("tools/call", call("stubborn"), meta={"progressToken": "t"})
    await gate.reached.wait()
    client.notify("notifications/cancelled", {"requestId": id})
    await client.request("tools/call", call("echo"))
    assert client.notifications == []
    await client.close()
    await duplex.wait_closed()


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_call_can_ask_the_client(revision: str) -> None:
    async def asking(call: Call, channel: Channel) -> Any:
        result = await channel.request("roots/list", RequestParams())
        return text(result.roots[0].uri)

    @run
    async def scenario() -> None:
        answers = {"roots/list": lambda params: {"roots": [{"uri": "file:///home"}]}}
        client, duplex = await connected(Parrot(asking=asking), revision, answers=answers)
        assert said(await client.request("tools/call", call("asking"))) == "file:///home"
        await client.close()
        await duplex.wait_closed()

    scenario()


@run
async def test_a_modern_call_has_no_way_back() -> None:
    async def asking(call: Call, channel: Channel) -> Any:
        with pytest.raises(ServerRequestsNotSupported):
            await channel.request("roots/list", RequestParams())
        return text("as expected")

    client, duplex = await connected(Parrot(asking=asking), MODERN)
    assert said(await client.request("tools/call", call("asking"))) == "as expected"
    await client.close()
    await duplex.wait_closed()


@run
async def test_an_error_of_the_client_is_raised_where_it_was_asked() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18")
    with pytest.raises(ProtocolError) as caught:
        await duplex.request("roots/list")
    assert caught.value.code == -32601
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_second_answer_to_the_same_input_request_is_dropped() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18")
    question = asyncio.ensure_future(duplex.request("roots/list"))
    await until(lambda: client.questions)
    # The first was refused by the client's own table; both of these come too late.
    for _ in range(2):
        client.send({"id": client.questions[0]["id"], "result": {"roots": []}})
    with pytest.raises(ProtocolError):
        await question
    await client.request("ping")
    assert duplex.endpoint.violations == {"late_answer": 2}
    await client.close()
    await duplex.wait_closed()


@run
async def test_an_unanswered_input_request_of_a_handler_times_out_and_is_withdrawn() -> None:
    failures: list[TransportError] = []

    async def asking(call: Call, channel: Channel) -> Any:
        with pytest.raises(TransportError) as caught:
            await channel.request("roots/list", RequestParams())
        failures.append(caught.value)
        return text("went on")

    service = Parrot(Limits(client_response_timeout=0.02), asking=asking)
    client, duplex = await connected(service, "2025-06-18", answers={"roots/list": lambda params: None})
    assert said(await client.request("tools/call", call("asking"))) == "went on"
    assert (failures[0].cause, failures[0].message) == ("idle", "the client did not respond in time")
    cancelled = await client.notification("notifications/cancelled")
    assert cancelled["requestId"] == client.questions[0]["id"]
    assert not duplex.endpoint.pending
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_cancelled_caller_sends_a_cancellation_to_the_peer() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18", answers={"roots/list": lambda params: None})
    asked = asyncio.ensure_future(duplex.request("roots/list"))
    await until(lambda: client.questions)
    asked.cancel()
    assert (await client.notification("notifications/cancelled"))["requestId"] == client.questions[0]["id"]
    assert not duplex.endpoint.pending
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_lost_connection_fails_every_input_request_with_its_cause() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18", answers={"roots/list": lambda params: None})
    asked = [asyncio.ensure_future(duplex.request("roots/list")) for _ in range(3)]
    await until(lambda: len(client.questions) >= 3)
    client.link.abort()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [SessionLost] * 3
    assert {result.cause for result in results} == {"reset"}  # type: ignore[union-attr]
    await duplex.wait_closed()
    with pytest.raises(SessionLost):
        await duplex.request("roots/list")


@run
async def test_a_vanished_client_takes_its_calls_and_its_session_with_it() -> None:
    gate = Gate()
    service = Parrot(slow=gate)
    client, duplex = await connected(service, "2025-06-18")
    client.start("tools/call", call("slow"))
    await gate.reached.wait()
    client.link.abort()
    await duplex.wait_closed()
    assert gate.cancelled
    assert service.closed == service.opened
    assert not duplex.endpoint.in_flight


@run
async def test_closing_lets_calls_finish_within_the_drain_and_refuses_new_ones() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    id = client.start("tools/call", call("slow"))
    await gate.reached.wait()
    closing = asyncio.ensure_future(duplex.close(drain=5))
    await asyncio.sleep(0)
    late = await client.response(client.start("tools/call", call("echo")))
    assert late["error"]["code"] == 1008
    gate.open.set()
    assert said((await client.response(id))["result"]) == "through"
    await closing
    assert await client.over is None


@run
async def test_the_end_of_input_does_not_cut_a_drain_short_but_a_hard_close_does() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    client.start("tools/call", call("slow"))
    await gate.reached.wait()
    draining = asyncio.ensure_future(duplex.close(drain=60))
    await asyncio.sleep(0)
    duplex.ended()
    await turns()
    assert not gate.cancelled
    await duplex.close()
    assert gate.cancelled
    await draining
    await client.over


@run
async def test_closing_without_a_drain_cancels_what_runs() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    client.start("tools/call", call("slow"))
    await gate.reached.wait()
    await duplex.close()
    assert gate.cancelled
    await client.over


@run
async def test_when_the_peer_stops_sending_calls_get_the_grace_time() -> None:
    gate = Gate()
    client, duplex = await connected(Parrot(slow=gate))
    id = client.start("tools/call", call("slow"))
    await gate.reached.wait()
    duplex.ended()
    gate.open.set()
    assert said((await client.response(id))["result"]) == "through"
    await duplex.wait_closed()


@run
async def test_shutdown_is_answered_and_then_the_connection_ends() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18", open=False, check=False)
    await client.open(experimental={"dialect": {"name": "erlmcp"}})
    assert await client.request("shutdown") == {}
    await duplex.wait_closed()
    await client.over


@run
async def test_an_oversized_message_is_refused_with_its_limit() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18", limits=Limits(max_message_bytes=2000))
    client.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 3000 + b'"}')
    await client.request("ping")
    refused = client.received_messages[-2]["error"]
    assert refused["code"] == -32600
    assert refused["data"] | {"maxSize": 2000, "unit": "bytes"} == refused["data"]
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_client_that_does_not_read_gets_each_notification_once_and_nothing_piles_up() -> None:
    client, duplex = await connected(Parrot(), "2025-06-18", limits=Limits(max_write_buffer_bytes=1000))
    client.link.pause()
    for _ in range(1000):
        duplex.notify("notifications/tools/list_changed")
    client.link.resume()
    await client.request("ping")
    await client.notification("notifications/tools/list_changed")
    assert len(client.notifications) < 20
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_batch_is_answered_as_one_array_where_the_revision_has_batches() -> None:
    client, duplex = await connected(Parrot(), "2025-03-26")
    client.send_bytes(
        b'[{"jsonrpc":"2.0","id":"a","method":"ping"},'
        b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},'
        b'{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo"}}]'
    )
    await client.request("ping")
    batch = next(message for message in client.received_messages if isinstance(message, list))
    assert {answer["id"] for answer in batch} == {"a", "b"}
    await client.close()
    await duplex.wait_closed()


@run
async def test_a_tool_error_that_reaches_the_driver_is_no_crash() -> None:
    async def failing(call: Call, channel: Channel) -> Any:
        raise ToolError("the model may read this")

    client, duplex = await connected(Parrot(failing=failing))
    answer = await client.response(client.start("tools/call", call("failing")))
    assert answer["error"]["message"] == "the model may read this"
    await client.close()
    await duplex.wait_closed()
