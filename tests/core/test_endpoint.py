"""One end of a connection: ids, answers, cancellation, progress, batches, limits."""

import gc
import itertools
import json
from typing import Any

import pytest
from msgspec import Raw

from dovetail.core import phases
from dovetail.core.channel import Call, Cancel, Notice, PeerResponse, Reply, Session, Violation
from dovetail.core.endpoint import Endpoint
from dovetail.errors import LocalProtocolError, ProtocolError, Refusal, RemoteProtocolError, StateError
from dovetail.model import (
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequestParams,
    NotificationParams,
    ProgressNotificationParams,
    Result,
    TextContent,
)
from dovetail.settings import Limits
from dovetail.wire.dialects import ERLMCP
from dovetail.wire.revisions import R4, R5
from tests.core.messages import (
    CAPABILITIES,
    CLIENT_INFO,
    SERVER,
    VERSION,
    client_admission,
    connected,
    initialize,
    modern,
    notification,
    read,
    request,
    server_admission,
)
from tests.support.held import held
from tests.support.schemas import validate

DONE = CallToolResult([TextContent("done")])
SAMPLING = CreateMessageRequestParams([], 5)


def fresh(**limits: int) -> Endpoint:
    return Endpoint(server_admission(), Limits(**limits))


def client(modern: bool = True, **more: Any) -> Endpoint:
    endpoint = Endpoint(client_admission(sampling={}), **more)
    endpoint.establish(R5 if modern else R4, {"sampling": {}}, {"name": "me", "version": "1"})
    return endpoint


def start(endpoint: Endpoint, message: bytes) -> Call:
    call = endpoint.receive(message)
    assert isinstance(call, Call), call
    return call


def answer(id: Any, **members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, **members}).encode()


def kind_of(event: Any) -> str:
    assert isinstance(event, Violation), event
    return event.kind


# --- the peer's requests ------------------------------------------------------------------------------------


def test_a_call_is_answered_once_and_its_id_is_free_again() -> None:
    endpoint = fresh()
    call = start(endpoint, modern("tools/call", {"name": "add"}, 7))
    data = endpoint.send_result(call, DONE)
    assert data is not None
    validate(data, "2026-07-28", method="tools/call", kind="result")
    assert endpoint.send_result(call, DONE) is None
    assert endpoint.send_error(call, ProtocolError("internal_error")) is None
    assert start(endpoint, modern("tools/call", {"name": "add"}, 7)) is not call


def test_an_error_is_an_answer_too() -> None:
    endpoint = fresh()
    call = start(endpoint, modern("tools/list", None, "a"))
    data = endpoint.send_error(call, ProtocolError("invalid_cursor"))
    assert data is not None
    validate(data, "2026-07-28", kind="error")
    assert json.loads(data)["id"] == "a"
    assert endpoint.in_flight == {}


def test_an_id_in_use_is_refused_while_the_first_goes_on() -> None:
    endpoint = fresh()
    call = start(endpoint, modern("tools/list", None, 1))
    assert read(endpoint.receive(modern("tools/list", None, 1)))["code"] == -32600
    assert start(endpoint, modern("tools/list", None, "1")) is not call, "a string is another id"
    assert endpoint.send_result(call, DONE) is not None


def test_a_result_this_revision_cannot_carry_leaves_the_call_open_for_an_error() -> None:
    endpoint = fresh()
    call = start(endpoint, modern("tools/call", {"name": "a"}))
    with pytest.raises(LocalProtocolError):
        endpoint.send_result(call, CallToolResult([], structured_content=object()))
    assert endpoint.send_error(call, ProtocolError("internal_error")) is not None


def test_one_request_above_the_limit_is_refused_and_room_is_made_by_an_answer() -> None:
    endpoint = fresh(max_requests_per_connection=2)
    calls = [start(endpoint, modern("tools/list", None, id)) for id in (1, 2)]
    assert read(endpoint.receive(modern("tools/list", None, 3)))["code"] == 1008
    endpoint.send_result(calls[0], DONE)
    start(endpoint, modern("tools/list", None, 3))


# --- cancellation -------------------------------------------------------------------------------------------


def cancel(id: Any, **more: Any) -> bytes:
    return notification("notifications/cancelled", {"requestId": id, **more})


@pytest.mark.parametrize("make", [fresh, connected])
def test_a_cancelled_call_is_never_answered(make: Any) -> None:
    endpoint = make()
    lived = endpoint.session is not None
    call = start(endpoint, request("tools/list", {}, 3) if lived else modern("tools/list", None, 3))
    event = endpoint.receive(cancel(3, reason="bored"))
    assert isinstance(event, Cancel)
    assert (event.call, event.reason, call.cancelled) == (call, "bored", True)
    assert endpoint.send_result(call, DONE) is None
    assert endpoint.send_notification("notifications/progress", None, call=call) is None


def test_the_answer_of_a_cancelled_call_does_not_go_to_the_next_one_with_its_id() -> None:
    endpoint = fresh()
    first = start(endpoint, modern("tools/list", None, 3))
    endpoint.receive(cancel(3))
    second = start(endpoint, modern("tools/list", None, 3))
    assert endpoint.send_result(first, DONE) is None
    assert endpoint.send_result(second, DONE) is not None


@pytest.mark.parametrize("id", [99, "3", 1])
def test_cancelling_what_is_unknown_or_finished_is_counted_and_ignored(id: Any) -> None:
    endpoint = fresh()
    endpoint.send_result(start(endpoint, modern("tools/list", None, 1)), DONE)
    call = start(endpoint, modern("tools/list", None, 3))
    assert kind_of(endpoint.receive(cancel(id))) == "unknown_cancel"
    assert endpoint.violations == {"unknown_cancel": 1}
    assert endpoint.send_result(call, DONE) is not None


def test_initialize_cannot_be_cancelled() -> None:
    endpoint = fresh()
    call = start(endpoint, initialize(id=0))
    assert kind_of(endpoint.receive(cancel(0))) == "unexpected_cancel"
    assert endpoint.send_result(call, phases.handshake(call, {}, SERVER)) is not None


# --- the handshake ------------------------------------------------------------------------------------------


def test_requests_sent_together_with_initialize_find_their_session() -> None:
    opened: list[Session] = []
    endpoint = Endpoint(server_admission(), on_session=opened.append)
    first = start(endpoint, initialize("2025-06-18"))
    endpoint.receive(notification("notifications/initialized"))
    second = start(endpoint, request("tools/list", {}, 1))
    assert second.session is first.session is endpoint.session
    assert opened == [first.session]
    assert opened[0].phase == "ready"


def test_an_initialize_that_fails_leaves_no_session() -> None:
    endpoint = fresh()
    call = start(endpoint, initialize())
    lived = endpoint.session
    assert lived is not None
    assert endpoint.send_error(call, ProtocolError("internal_error")) is not None
    assert endpoint.session is None
    assert lived.phase == "closed"
    assert isinstance(endpoint.receive(initialize(id=1)), Call)


def test_a_second_initialize_is_refused_and_the_session_lives_on() -> None:
    endpoint = connected("2025-03-26")
    assert read(endpoint.receive(initialize("2025-03-26", id=5)), "2025-03-26")["code"] == -32600
    assert start(endpoint, request("tools/list")).revision.name == "2025-03-26"


# --- our own requests ---------------------------------------------------------------------------------------


def test_ids_count_up_and_answers_find_their_requests() -> None:
    endpoint = connected()
    ids = [endpoint.send_request("sampling/createMessage", SAMPLING)[0] for _ in range(3)]
    assert ids == [1, 2, 3]
    event = endpoint.receive(answer(2, result={"role": "assistant"}))
    assert isinstance(event, PeerResponse)
    assert (event.id, event.method, event.error) == (2, "sampling/createMessage", None)
    assert json.loads(bytes(event.result)) == {"role": "assistant"}  # type: ignore[arg-type]
    assert list(endpoint.pending) == [1, 3]


def test_an_outgoing_request_is_valid_on_its_revision() -> None:
    endpoint = connected("2025-06-18")
    _, data = endpoint.send_request("sampling/createMessage", SAMPLING, meta={"com.example/a": 1})
    validate(data, "2025-06-18", kind="request")
    assert json.loads(data)["params"]["_meta"] == {"com.example/a": 1}


def test_a_modern_client_puts_version_capabilities_and_name_into_every_request() -> None:
    endpoint = client()
    for params in (
        None,
        CallToolRequestParams("add"),
        CallToolRequestParams("add", meta={"traceparent": "t"}),
    ):
        method = "tools/list" if params is None else "tools/call"
        _, data = endpoint.send_request(method, params, meta={"com.example/a": 1})
        validate(data, "2026-07-28", kind="request")
        meta = json.loads(data)["params"]["_meta"]
        assert meta[VERSION] == "2026-07-28"
        assert meta[CAPABILITIES] == {"sampling": {}}
        assert meta[CLIENT_INFO] == {"name": "me", "version": "1"}
        assert meta["com.example/a"] == 1
    assert meta["traceparent"] == "t"


def test_a_legacy_client_sends_no_metadata_by_itself() -> None:
    _, data = client(modern=False).send_request("tools/list")
    assert "params" not in json.loads(data)


def test_raw_params_go_out_as_they_are() -> None:
    _, data = client().send_request("tools/call", Raw(b'{"name":"add","_meta":{}}'))
    assert json.loads(data)["params"] == {"name": "add", "_meta": {}}


def test_an_error_answer_becomes_the_exception_to_raise() -> None:
    endpoint = client(modern=False)
    ids = [endpoint.send_request("tools/list")[0] for _ in range(3)]
    errors = [
        {"code": -32002, "message": "gone", "data": {"uri": "a:b"}},
        {"code": 1003, "message": "slow down", "data": {"retryAfterMs": 1500}},
        {"code": "oops"},
    ]
    events = [endpoint.receive(answer(id, error=error)) for id, error in zip(ids, errors, strict=True)]
    assert all(isinstance(event, PeerResponse) for event in events)
    gone, slow, broken = (event.error for event in events)  # type: ignore[union-attr]
    assert isinstance(gone, ProtocolError)
    assert (gone.kind, gone.code, gone.data) == ("resource_not_found", -32002, {"uri": "a:b"})
    assert isinstance(slow, Refusal)
    assert slow.retry_after == 1.5
    assert isinstance(broken, RemoteProtocolError)
    assert endpoint.pending == {}
    assert endpoint.violations == {"malformed_answer": 1}


@pytest.mark.parametrize("body", [{"result": {}, "error": {"code": 1, "message": ""}}, {}])
def test_a_malformed_answer_fails_its_request_at_once(body: Any) -> None:
    endpoint = client()
    id, _ = endpoint.send_request("tools/list")
    event = endpoint.receive(answer(id, **body))
    assert isinstance(event, PeerResponse)
    assert isinstance(event.error, RemoteProtocolError)
    assert endpoint.pending == {}


def test_a_malformed_request_with_the_id_of_a_pending_request_does_not_complete_it() -> None:
    endpoint = connected()
    id, _ = endpoint.send_request("ping")
    assert read(endpoint.receive(answer(id, method=5)), "2025-11-25")["id"] == id
    assert list(endpoint.pending) == [id]


def test_late_and_unknown_responses_are_distinguished_and_dropped() -> None:
    endpoint = client()
    id, _ = endpoint.send_request("tools/list")
    endpoint.send_cancel(id)
    assert kind_of(endpoint.receive(answer(id, result={}))) == "late_answer"
    assert kind_of(endpoint.receive(answer(99, result={}))) == "unknown_answer"
    assert kind_of(endpoint.receive(answer("1", result={}))) == "unknown_answer"
    other, _ = endpoint.send_request("tools/list")
    assert isinstance(endpoint.receive(answer(other, result={})), PeerResponse)
    assert kind_of(endpoint.receive(answer(other, result={}))) == "late_answer"


@pytest.mark.parametrize("members", [{"id": None}, {}])
def test_an_error_without_an_id_answers_nothing_even_if_only_one_request_waits(members: Any) -> None:
    endpoint = client()
    id, _ = endpoint.send_request("tools/list")
    message = {"jsonrpc": "2.0", **members, "error": {"code": -32700, "message": "what?"}}
    event = endpoint.receive(json.dumps(message).encode())
    assert kind_of(event) == "anonymous_error"
    assert list(endpoint.pending) == [id]


def test_tombstones_are_bounded_and_keep_an_id_from_being_used_again() -> None:
    ids = itertools.chain(["a", "a", "a", "b"], map(str, itertools.count()))
    endpoint = client(limits=Limits(max_tombstones=3), next_id=ids.__next__)
    first, _ = endpoint.send_request("tools/list")
    endpoint.receive(answer(first, result={}))
    assert [first, endpoint.send_request("tools/list")[0]] == ["a", "b"]
    sizes: list[int] = []
    for _ in range(20):
        for _ in range(10):
            endpoint.send_cancel(endpoint.send_request("tools/list")[0])
        sizes.append(held(endpoint))
    assert sizes[-1] < sizes[0] + 100


def test_a_generator_that_repeats_itself_for_ever_is_an_error() -> None:
    endpoint = client(next_id=lambda: 1)
    endpoint.send_request("tools/list")
    with pytest.raises(LocalProtocolError):
        endpoint.send_request("tools/list")


def test_one_outgoing_request_above_the_limit_is_refused() -> None:
    endpoint = client(limits=Limits(max_outgoing_requests=2))
    ids = [endpoint.send_request("tools/list")[0] for _ in range(2)]
    with pytest.raises(Refusal):
        endpoint.send_request("tools/list")
    endpoint.receive(answer(ids[0], result={}))
    endpoint.send_request("tools/list")


def test_an_outgoing_cancellation_is_sent_once_and_never_for_initialize() -> None:
    endpoint = client()
    id, _ = endpoint.send_request("tools/list")
    data = endpoint.send_cancel(id, "timeout")
    assert data is not None
    validate(data, "2026-07-28", kind="notification")
    assert json.loads(data)["params"] == {"requestId": id, "reason": "timeout"}
    assert endpoint.send_cancel(id) is None
    starting = Endpoint(client_admission())
    id, _ = starting.send_request("initialize", Raw(b"{}"), codec=starting.admission.codecs["2025-11-25"])
    assert starting.send_cancel(id) is None
    assert starting.pending == {}


@pytest.mark.parametrize(
    ("version", "method"),
    [("2025-11-25", "tools/list"), ("2025-03-26", "elicitation/create"), ("2025-11-25", "server/discover")],
)
def test_what_a_revision_does_not_have_is_not_sent(version: str, method: str) -> None:
    endpoint = connected(version)
    with pytest.raises(LocalProtocolError):
        endpoint.send_request(method, SAMPLING)
    assert endpoint.pending == {}


def test_after_close_nothing_is_sent_and_the_lost_requests_are_named() -> None:
    endpoint = connected()
    lived = endpoint.session
    call = start(endpoint, request("tools/list"))
    ids = [endpoint.send_request("ping")[0] for _ in range(2)]
    assert endpoint.close() == ids
    assert endpoint.send_result(call, DONE) is None
    assert call.cancelled
    assert lived is not None
    assert lived.phase == "closed"
    assert endpoint.close() == []
    with pytest.raises(StateError):
        endpoint.send_request("ping")


def test_a_server_ends_a_listen_stream_by_cancelling_the_clients_request() -> None:
    endpoint = client()
    id, _ = endpoint.send_request("subscriptions/listen", Raw(b'{"notifications":{}}'))
    event = endpoint.receive(cancel(id))
    assert isinstance(event, Notice)
    assert event.params.request_id == id
    assert list(endpoint.pending) == [id]


# --- progress -----------------------------------------------------------------------------------------------


def progress(token: Any, value: float) -> bytes:
    return notification("notifications/progress", {"progressToken": token, "progress": value})


def test_progress_is_passed_on_while_it_grows_and_its_request_waits() -> None:
    endpoint = client()
    id, data = endpoint.send_request("tools/call", CallToolRequestParams("a"), progress=True)
    assert json.loads(data)["params"]["_meta"]["progressToken"] == id
    assert isinstance(endpoint.receive(progress(id, 0)), Notice)
    assert isinstance(endpoint.receive(progress(id, 0.5)), Notice)
    assert kind_of(endpoint.receive(progress(id, 0.5))) == "stale_progress"
    assert kind_of(endpoint.receive(progress("other", 1))) == "invalid_progress_token"
    endpoint.receive(answer(id, result={}))
    assert kind_of(endpoint.receive(progress(id, 1))) == "progress_token_expired"


def test_a_token_of_the_callers_own_is_followed_too() -> None:
    endpoint = client()
    id, _ = endpoint.send_request("tools/list", meta={"progressToken": "mine"})
    assert isinstance(endpoint.receive(progress("mine", 1)), Notice)
    endpoint.send_cancel(id)
    assert kind_of(endpoint.receive(progress("mine", 2))) == "progress_token_expired"


def test_a_notification_speaks_the_revision_of_the_call_it_belongs_to() -> None:
    endpoint = connected("2024-11-05")
    params = ProgressNotificationParams("t", 1, message="half")
    legacy = endpoint.send_notification("notifications/progress", params)
    call = start(endpoint, modern("tools/list", None, 9))
    newer = endpoint.send_notification("notifications/progress", params, call=call)
    assert legacy is not None
    assert newer is not None
    validate(legacy, "2024-11-05", kind="notification")
    validate(newer, "2026-07-28", kind="notification")
    assert "message" not in json.loads(legacy)["params"]
    assert json.loads(newer)["params"]["message"] == "half"


# --- batches ------------------------------------------------------------------------------------------------


def batch(*messages: Any) -> bytes:
    return b"[" + b",".join(m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages) + b"]"


def calls_of(events: Any) -> list[Call]:
    assert isinstance(events, list)
    return [event for event in events if isinstance(event, Call)]


def test_the_replies_of_a_batch_leave_together_when_the_last_one_is_there() -> None:
    endpoint = connected("2025-03-26")
    bad = {"jsonrpc": "2.0", "id": 3, "method": "no/such"}
    events = endpoint.receive(
        batch(request("tools/list", {}, 1), bad, request("ping", None, 2), notification("x"), 7)
    )
    first, second = calls_of(events)
    assert not any(isinstance(event, Reply) for event in events)  # type: ignore[union-attr]
    assert endpoint.send_result(second, Result()) is None
    data = endpoint.send_error(first, ProtocolError("invalid_cursor"))
    assert data is not None
    replies = json.loads(data)
    assert [reply.get("id") for reply in replies] == [1, 3, 2, None]
    validate([reply for reply in replies if reply["id"] is not None], "2025-03-26")


def test_a_modern_request_has_no_place_in_a_batch() -> None:
    endpoint = connected("2025-03-26")
    events = endpoint.receive(batch(modern("tools/list", {}, 1), request("ping", None, 2)))
    [ping] = calls_of(events)
    data = endpoint.send_result(ping, Result())
    assert data is not None
    refused, answered = json.loads(data)
    assert (refused["id"], refused["error"]["code"]) == (1, -32600)
    assert answered["id"] == 2


def test_a_batch_of_notifications_and_answers_is_not_answered() -> None:
    endpoint = connected("2025-03-26")
    id, _ = endpoint.send_request("ping")
    events = endpoint.receive(batch(notification("notifications/roots/list_changed"), answer(id, result={})))
    assert isinstance(events, list)
    assert [type(event) for event in events] == [Notice, PeerResponse]


def test_a_batch_of_nothing_but_refusals_is_answered_at_once() -> None:
    endpoint = connected("2025-03-26")
    events = endpoint.receive(batch({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, 5))
    assert isinstance(events, list)
    (reply,) = events
    assert isinstance(reply, Reply)
    assert [entry["error"]["code"] for entry in json.loads(reply.data)] == [-32601, -32600]


def test_a_malformed_answer_in_a_batch_fails_its_request_whatever_else_is_in_the_batch() -> None:
    endpoint = connected("2025-03-26")
    id, _ = endpoint.send_request("sampling/createMessage", SAMPLING)
    broken = {"jsonrpc": "2.0", "id": id, "result": {}, "error": {}}
    events = endpoint.receive(batch(request("ping", None, 1), broken))
    assert isinstance(events, list)
    assert [type(event) for event in events] == [Call, PeerResponse]
    assert endpoint.pending == {}


def test_a_cancelled_request_does_not_hold_up_its_batch() -> None:
    endpoint = connected("2025-03-26")
    first, second = calls_of(endpoint.receive(batch(request("ping", None, 1), request("ping", None, 2))))
    assert endpoint.send_result(first, Result()) is None
    events = endpoint.receive(cancel(2))
    assert isinstance(events, list)
    stopped, reply = events
    assert isinstance(stopped, Cancel)
    assert stopped.call is second
    assert isinstance(reply, Reply)
    assert [entry["id"] for entry in json.loads(reply.data)] == [1]


def test_a_batch_whose_requests_are_all_cancelled_is_not_answered() -> None:
    endpoint = connected("2025-03-26")
    events = endpoint.receive(batch(request("ping", None, 1), cancel(1)))
    assert isinstance(events, list)
    assert [type(event) for event in events] == [Call, Cancel]
    assert endpoint.in_flight == {}


def test_an_id_twice_in_a_batch_is_served_once() -> None:
    endpoint = connected("2025-03-26")
    (call,) = calls_of(endpoint.receive(batch(request("ping", None, 1), request("ping", None, 1))))
    data = endpoint.send_result(call, Result())
    assert data is not None
    assert ["error" in entry for entry in json.loads(data)] == [False, True]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_only_2025_03_26_has_batches(version: str) -> None:
    endpoint = connected(version)
    assert read(endpoint.receive(batch(request("ping"))), version)["code"] == -32600
    assert read(fresh().receive(batch(request("ping"))))["code"] == -32600


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_erlmcp_has_batches_on_every_legacy_revision(version: str) -> None:
    endpoint = connected(version, ERLMCP)
    (call,) = calls_of(endpoint.receive(batch(request("ping", None, 1))))
    assert json.loads(endpoint.send_result(call, Result()) or b"")[0]["id"] == 1


@pytest.mark.parametrize("data", [b"[]", b"[1", b"[" + b"1," * 20 + b"1]"])
def test_an_empty_broken_or_oversized_batch_gets_one_error_that_is_no_array(data: bytes) -> None:
    endpoint = connected("2025-03-26", limits=Limits(max_batch_size=10))
    error = read(endpoint.receive(data), "2025-03-26")
    assert error["code"] == (-32700 if data == b"[1" else -32600)
    assert error["id"] is None


def test_initialize_inside_a_batch_is_refused() -> None:
    endpoint = connected("2025-03-26")
    events = endpoint.receive(batch(initialize(id=8)))
    assert isinstance(events, list)
    assert isinstance(events[0], Reply)
    assert json.loads(events[0].data)[0]["error"]["code"] == -32600


# --- a client and what servers send by mistake --------------------------------------------------------------


@pytest.mark.parametrize("line", [b"Listening on port 8000", b"", b"[]", b"null", b'{"jsonrpc":"1.0"}'])
def test_a_client_does_not_answer_what_a_server_prints_by_mistake(line: bytes) -> None:
    for endpoint in (client(), client(modern=False), Endpoint(client_admission())):
        assert kind_of(endpoint.receive(line)) == "unreadable"


def test_a_legacy_client_answers_a_malformed_request_whose_id_is_readable() -> None:
    error = read(client(modern=False).receive(b'{"jsonrpc":"2.0","id":5,"method":7}'), "2025-11-25")
    assert (error["code"], error["id"]) == (-32600, 5)


def test_notifications_of_a_server_reach_the_client() -> None:
    for endpoint in (client(), client(modern=False)):
        event = endpoint.receive(notification("notifications/tools/list_changed"))
        assert isinstance(event, Notice)
        assert isinstance(event.params, NotificationParams)


REFUSED = {
    "unreadable": b"{",
    "no message": b'{"a":1}',
    "an array that is none": b"[1]",
    "a method nobody has": request("no/such", {}),
    "a capability that is not offered": request("prompts/list", {}),
    "params of the wrong shape": request("tools/call", [1]),
    "a name of the wrong type": request("tools/call", {"name": 1}),
    "metadata of the wrong type": request("tools/list", {"_meta": 3}),
    "a version nobody speaks": request("tools/list", {"_meta": {VERSION: "1999-01-01"}}),
    "a modern method nobody has": modern("no/such"),
    "modern params of the wrong shape": modern("tools/call", {"name": 1}),
    "a level that is none": request("logging/setLevel", {"level": "loud"}),
}


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("make", [fresh, connected])
def test_what_is_refused_leaves_nothing_for_the_garbage_collector(make: Any, message: bytes) -> None:
    endpoint = make()
    endpoint.receive(message)  # what is made once
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            assert not isinstance(endpoint.receive(message), Call)
        assert gc.collect() == 0
    finally:
        gc.enable()
