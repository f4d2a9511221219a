"""Tasks: one state machine, three faces."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dovetail.core.task_machine import STATUSES, TERMINAL, Status, TaskMachine
from dovetail.core.task_views import (
    TASK_VIEWS,
    core_list,
    detailed_task,
    erlmcp_list,
    erlmcp_result,
    iso_time,
    outcome,
    related_task_meta,
)
from dovetail.errors import LocalProtocolError, ProtocolError
from dovetail.model import ElicitRequest, ElicitRequestParams, Error, InputRequests, ListRootsRequest
from dovetail.wire.codec import codec_for
from dovetail.wire.dialects import ERLMCP
from dovetail.wire.revisions import R4, R5
from tests.support.schemas import validate

FORM = ElicitRequestParams.form("Sure?", {"type": "object", "properties": {}})
QUESTIONS: InputRequests = {"confirm": ElicitRequest(FORM), "roots": ListRootsRequest()}
YES = Raw(b'{"action":"accept","content":{}}')
ROOTS = Raw(b'{"roots":[]}')
DONE = Raw(b'{"content":[]}')
FAILURE = Error(-32603, "broke")


def task(status: Status = "working", **more: Any) -> TaskMachine:
    members: dict[str, Any] = {"id": "t1", "design": "extension", "created": 100.0, "updated": 100.0}
    made = TaskMachine(**(members | {"status": status} | more))
    if status == "input_required":
        made.input_requests, made.input_keys = dict(QUESTIONS), list(QUESTIONS)
    return made


def act(made: TaskMachine, event: str, now: float = 105.0) -> None:
    match event:
        case "start":
            made.start(now)
        case "ask":
            made.request_input({"more": ListRootsRequest()}, now)
        case "complete":
            made.complete(DONE, now)
        case "fail":
            made.fail(FAILURE, now)
        case _:
            made.cancel(now)


STEPS = {
    ("pending", "start"): "working",
    ("working", "ask"): "input_required",
    ("input_required", "ask"): "input_required",
    **{(s, "complete"): "completed" for s in ("pending", "working", "input_required")},
    **{(s, "fail"): "failed" for s in ("pending", "working", "input_required")},
    **{(s, "cancel"): "cancelled" for s in ("pending", "working", "input_required")},
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("event", ["start", "ask", "complete", "fail", "cancel"])
def test_every_step_of_a_task_is_allowed_or_refused_as_the_table_says(status: Status, event: str) -> None:
    made = task(status)
    before = msgspec.json.encode(made)
    expected = STEPS.get((status, event))
    if expected is None:
        with pytest.raises(ProtocolError) as refused:
            act(made, event)
        assert refused.value.kind == ("task_already_completed" if event == "cancel" else "task_state_invalid")
        assert msgspec.json.encode(made) == before
    else:
        act(made, event)
        assert (made.status, made.updated, made.ended) == (expected, 105.0, expected in TERMINAL)


def test_the_work_goes_on_when_the_last_input_request_is_answered() -> None:
    made = task()
    made.request_input(QUESTIONS, 101)
    assert made.respond({"roots": ROOTS, "unknown": YES}, codec_for(R5), 102) == ["roots"]
    assert (made.status, list(made.input_requests)) == ("input_required", ["confirm"])
    assert made.respond({"roots": ROOTS}, codec_for(R5), 103) == [], "an answer counts once"
    assert made.respond({"confirm": YES}, codec_for(R5), 104) == ["confirm"]
    assert (made.status, made.input_requests, made.updated) == ("working", {}, 104)
    assert made.take_response("confirm") == YES
    assert made.take_response("confirm") is None


@pytest.mark.parametrize("wrong", [b"null", b"5", b"{}", b'{"action":"perhaps"}'])
def test_an_answer_that_does_not_fit_its_input_request_is_refused_and_none_is_taken(wrong: bytes) -> None:
    made = task("input_required")
    with pytest.raises(ProtocolError) as refused:
        made.respond({"roots": ROOTS, "confirm": Raw(wrong)}, codec_for(R5), 101)
    assert refused.value.kind == "invalid_params"
    assert "confirm" in refused.value.message
    assert made.responses == {}


def test_a_key_is_never_used_twice_in_the_life_of_a_task() -> None:
    made = task("input_required")
    made.respond({"confirm": YES, "roots": ROOTS}, codec_for(R5), 101)
    with pytest.raises(LocalProtocolError):
        made.request_input({"confirm": ListRootsRequest()}, 102)
    assert made.status == "working"


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_nothing_changes_a_task_that_is_over(status: Status) -> None:
    made = task(status)
    made.report_progress("more", 1, None, 200)
    assert made.respond({"confirm": YES}, codec_for(R5), 200) == []
    assert (made.message, made.updated) == (None, 100.0)


def test_a_clock_that_steps_back_does_not_turn_back_a_task() -> None:
    made = task()
    made.report_progress("half", 1, 2, 120)
    made.complete(DONE, 90)
    assert made.updated == 120


def test_a_task_expires_by_its_ttl_from_creation_and_never_without_one() -> None:
    made = task(ttl=5000)
    assert [made.expired(now) for now in (104.9, 105.0)] == [False, True]
    assert not task(ttl=None).expired(1e12)
    assert task(ttl=0).expired(100.0)


def test_a_task_survives_a_store() -> None:
    made = task("input_required", ttl=5, principal="ann", progress_token="p", parameters=Raw(b'{"a":1}'))
    made.respond({"roots": ROOTS}, codec_for(R5), 101.0)
    again = msgspec.json.decode(msgspec.json.encode(made), type=TaskMachine)
    assert msgspec.json.encode(again) == msgspec.json.encode(made)
    assert again.input_requests == {"confirm": ElicitRequest(FORM)}


# --- faces --------------------------------------------------------------------------------------------------


def wire(revision: Any, result: Any, method: str | None = None) -> dict[str, Any]:
    data = codec_for(revision).encode_result(1, result)
    validate(data, revision, method=method, kind="result")
    return json.loads(data)["result"]


@pytest.mark.parametrize("status", STATUSES)
def test_the_core_face_of_2025_11_25(status: Status) -> None:
    made = task(status, ttl=60_000, poll_interval=500, design="core")
    face = TASK_VIEWS["core"]
    state = wire(R4, face.state(made), "tasks/get")
    assert state == {
        "taskId": "t1",
        "status": "working" if status == "pending" else status,
        "createdAt": "1970-01-01T00:01:40.000Z",
        "lastUpdatedAt": "1970-01-01T00:01:40.000Z",
        "ttl": 60_000,
        "pollInterval": 500,
    }
    assert wire(R4, face.created(made), "tools/call") == {"task": state}
    assert wire(R4, face.cancelled(made), "tasks/cancel") == state
    assert wire(R4, core_list([made, made]), "tasks/list") == {"tasks": [state, state]}
    data = codec_for(R4).encode_notification(face.notification, face.status(made))
    validate(data, "2025-11-25", kind="notification")
    assert face.waits


def test_a_ttl_of_null_is_written() -> None:
    assert wire(R4, TASK_VIEWS["core"].state(task()), "tasks/get")["ttl"] is None
    assert wire(R5, TASK_VIEWS["extension"].state(task()))["ttlMs"] is None


def test_an_is_error_result_is_failed_in_the_core_and_completed_in_the_extension() -> None:
    made = task()
    made.complete(Raw(b'{"content":[],"isError":true}'), 101, is_error=True)
    assert wire(R4, TASK_VIEWS["core"].state(made))["status"] == "failed"
    assert wire(R5, TASK_VIEWS["extension"].state(made))["status"] == "completed"
    assert outcome(made) == made.result


def test_the_extension_face_of_2026_07_28_brings_what_the_status_has() -> None:
    made = task(ttl=60_000, poll_interval=500)
    state = wire(R5, TASK_VIEWS["extension"].state(made))
    assert (state["resultType"], state["ttlMs"], state["pollIntervalMs"]) == ("complete", 60_000, 500)
    assert not {"ttl", "pollInterval", "inputRequests", "result", "error"} & set(state)
    created = wire(R5, TASK_VIEWS["extension"].created(made))
    assert (created["resultType"], created["taskId"], created["status"]) == ("task", "t1", "working")
    made.request_input(QUESTIONS, 101)
    asked = wire(R5, TASK_VIEWS["extension"].state(made))["inputRequests"]
    assert asked["confirm"]["method"] == "elicitation/create"
    assert asked["roots"] == {"method": "roots/list"}
    made.complete(DONE, 102)
    done = wire(R5, TASK_VIEWS["extension"].state(made))
    assert done["result"] == {"content": []}
    assert "inputRequests" not in done
    failed = task()
    failed.fail(FAILURE, 101)
    assert wire(R5, TASK_VIEWS["extension"].state(failed))["error"] == {"code": -32603, "message": "broke"}
    assert wire(R5, TASK_VIEWS["extension"].cancelled(failed)) == {"resultType": "complete"}
    assert not TASK_VIEWS["extension"].waits


def test_the_notification_of_the_extension_is_a_whole_task_without_a_result_type() -> None:
    data = codec_for(R5).encode_notification(TASK_VIEWS["extension"].notification, detailed_task(task()))
    assert "resultType" not in json.loads(data)["params"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("pending", "pending"),
        ("working", "processing"),
        ("input_required", "processing"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
    ],
)
def test_the_erlmcp_face(status: Status, told: str) -> None:
    made = task(status, design="erlmcp", name="add", parameters=Raw(b'{"a":1}'))
    face = TASK_VIEWS["erlmcp"]
    codec = codec_for(R4, ERLMCP)
    state = json.loads(codec.encode_result(1, face.state(made)))["result"]["task"]
    assert (state["taskId"], state["status"], state["createdAt"]) == ("t1", told, 100_000)
    assert state["action"] == {"type": "add", "parameters": {"a": 1}}
    assert json.loads(codec.encode_result(1, face.created(made)))["result"] == {"taskId": "t1"}
    assert json.loads(codec.encode_result(1, face.cancelled(made)))["result"] == {}
    listed = json.loads(codec.encode_result(1, erlmcp_list([made])))["result"]["tasks"]
    assert listed == [state]


def test_erlmcps_result_does_not_wait() -> None:
    made = task(design="erlmcp")
    with pytest.raises(ProtocolError) as waiting:
        erlmcp_result(made)
    assert waiting.value.kind == "task_result_not_ready"
    made.complete(DONE, 101)
    assert erlmcp_result(made).result == {"content": []}
    for status, kind in (("failed", "task_failed"), ("cancelled", "task_cancelled")):
        ended = task(design="erlmcp")
        act(ended, "fail" if status == "failed" else "cancel")
        with pytest.raises(ProtocolError) as refused:
            erlmcp_result(ended)
        assert refused.value.kind == kind


def test_what_the_original_request_would_have_been_answered_with() -> None:
    assert outcome(task()) is None
    failed, cancelled = task(), task()
    failed.fail(FAILURE, 101)
    cancelled.cancel(101, "bored")
    assert outcome(failed) == FAILURE
    ended = outcome(cancelled)
    assert isinstance(ended, Error)
    assert ended.data["taskId"] == "t1"
    assert cancelled.message == "bored"
    assert related_task_meta("t1") == {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
