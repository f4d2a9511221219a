"""Asking the client in the middle of a modern request."""

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from dovetail.core.channel import Call
from dovetail.core.input_request_checks import needed_capability
from dovetail.core.input_rounds import MISSING, InputRounds, MissingInput, prepare_input_for
from dovetail.core.principal import as_principal
from dovetail.errors import CapabilityError, LocalProtocolError, ProtocolError, Refusal, RemoteProtocolError
from dovetail.model import (
    CallToolRequestParams,
    ClientCapabilities,
    CreateMessageRequestParams,
    ElicitRequestParams,
    ElicitResult,
    GetPromptRequestParams,
    InputRequiredResult,
    ListRootsResult,
    ReadResourceRequestParams,
)
from dovetail.settings import Limits
from dovetail.wire.codec import codec_for
from dovetail.wire.revisions import R5
from dovetail.wire.seal import Keys, Seal
from tests.support.schemas import validate

SEAL = Seal(Keys(b"k" * 32))
NAME = ElicitRequestParams.form(
    "What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}}
)
COLOR = ElicitRequestParams.form("Which colour?", {"type": "object", "properties": {}})
ANN = {"action": "accept", "content": {"name": "Ann"}}
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


def call(
    arguments: str | None = '{"a":1,"b":2}',
    *,
    answers: dict[str, Any] | None = None,
    state: str | Any = UNSET,
    principal: str | None = "ann",
    name: str = "book",
    declared: dict[str, Any] | None = None,
) -> Call:
    params = CallToolRequestParams(
        name,
        UNSET if arguments is None else Raw(arguments.encode()),
        input_responses=UNSET
        if answers is None
        else {key: Raw(json.dumps(value).encode()) for key, value in answers.items()},
        request_state=state,
    )
    return Call(
        id=1,
        method="tools/call",
        params=params,
        revision=R5,
        codec=codec_for(R5),
        capabilities=ClientCapabilities(EVERYTHING if declared is None else declared),
        principal=as_principal(principal),
    )


def rounds(now: float = 1000.0, limits: Limits | None = None, **request: Any) -> InputRounds:
    return InputRounds(call(**request), SEAL, now=now, limits=limits, lifetime=60)


def state_of(run: InputRounds) -> str:
    result = run.result()
    assert isinstance(result, InputRequiredResult)
    validate(codec_for(R5).encode_result(1, result), "2026-07-28", kind="result")
    assert isinstance(result.request_state, str)
    return result.request_state


def test_an_input_request_is_recorded_first_and_answered_in_the_next_round() -> None:
    run = rounds()
    wanted = run.request_input(prepare_input_for("elicitation/create", NAME), "user_name")
    assert isinstance(wanted, MissingInput)
    result = run.result()
    assert (result.result_type, result.input_requests) == ("input_required", {"user_name": wanted.request})
    again = rounds(answers={"user_name": ANN}, state=result.request_state)
    answer = again.request_input(prepare_input_for("elicitation/create", NAME), "user_name")
    assert isinstance(answer, ElicitResult)
    assert (answer.action, answer.content) == ("accept", {"name": "Ann"})
    assert again.missing == {}
    assert again.round == 1


def test_answers_of_all_rounds_are_at_hand_and_the_state_changes_each_time() -> None:
    first = rounds()
    first.request_input(prepare_input_for("elicitation/create", NAME))
    one = state_of(first)
    second = rounds(state=one, answers={"input_1": ANN})
    assert isinstance(second.request_input(prepare_input_for("elicitation/create", NAME)), ElicitResult)
    assert isinstance(second.request_input(prepare_input_for("elicitation/create", COLOR)), MissingInput)
    assert list(second.missing) == ["input_2"]
    two = state_of(second)
    third = rounds(state=two, answers={"input_2": {"action": "decline"}})
    assert third.request_input(prepare_input_for("elicitation/create", NAME)).content == {"name": "Ann"}
    assert third.request_input(prepare_input_for("elicitation/create", COLOR)).action == "decline"
    assert one != two


def test_several_input_requests_leave_in_one_round() -> None:
    run = rounds()
    run.request_input(prepare_input_for("elicitation/create", NAME), "user_name")
    run.request_input(
        prepare_input_for("sampling/createMessage", CreateMessageRequestParams([], 50)), "greeting"
    )
    run.request_input(prepare_input_for("roots/list", None), "client_roots")
    state = state_of(run)
    assert list(run.missing) == ["user_name", "greeting", "client_roots"]
    answers = {"client_roots": {"roots": [{"uri": "file:///a"}]}, "user_name": ANN}
    again = rounds(state=state, answers=answers)
    assert isinstance(
        again.request_input(prepare_input_for("roots/list", None), "client_roots"), ListRootsResult
    )
    assert isinstance(
        again.request_input(
            prepare_input_for("sampling/createMessage", CreateMessageRequestParams([], 50)), "greeting"
        ),
        MissingInput,
    )
    assert list(again.missing) == ["greeting"]


@pytest.mark.parametrize(
    "answer", [None, 5, "Ann", [], {}, {"action": "maybe"}, {"action": "accept", "content": 1}]
)
def test_a_malformed_answer_is_refused(answer: Any) -> None:
    first = rounds()
    first.request_input(prepare_input_for("elicitation/create", NAME), "k")
    with pytest.raises(
        RemoteProtocolError, match=r"inputResponses\['k'\] is not a valid response"
    ) as refused:
        rounds(state=state_of(first), answers={"k": answer})
    assert refused.value.kind == "invalid_params"
    # Without a state only the question tells what an answer is; then nothing else that is open counts.
    alone = rounds(answers={"k": answer})
    alone.request_input(prepare_input_for("roots/list"))
    with pytest.raises(RemoteProtocolError, match="is not a valid response"):
        alone.request_input(prepare_input_for("elicitation/create", NAME), "k")
    with pytest.raises(RemoteProtocolError, match="is not a valid response"):
        alone.result()


def test_unknown_keys_are_ignored_and_missing_ones_asked_again() -> None:
    first = rounds()
    first.request_input(prepare_input_for("elicitation/create", NAME), "k")
    again = rounds(state=state_of(first), answers={"wrong": ANN, "other": 7})
    assert isinstance(again.request_input(prepare_input_for("elicitation/create", NAME), "k"), MissingInput)


def test_a_changed_input_request_is_asked_again_although_its_key_was_answered() -> None:
    first = rounds()
    first.request_input(prepare_input_for("elicitation/create", NAME), "k")
    second = rounds(state=state_of(first), answers={"k": ANN})
    assert isinstance(second.request_input(prepare_input_for("elicitation/create", COLOR), "k"), MissingInput)
    third = rounds(state=state_of(second), answers={"k": {"action": "cancel"}})
    assert third.request_input(prepare_input_for("elicitation/create", COLOR), "k").action == "cancel"


def test_an_earlier_answer_is_not_overwritten_by_a_later_round() -> None:
    first = rounds()
    first.request_input(prepare_input_for("elicitation/create", NAME), "k")
    second = rounds(state=state_of(first), answers={"k": ANN})
    second.request_input(prepare_input_for("elicitation/create", NAME), "k")
    second.request_input(prepare_input_for("elicitation/create", COLOR), "c")
    third = rounds(state=state_of(second), answers={"k": {"action": "decline"}, "c": ANN})
    assert third.request_input(prepare_input_for("elicitation/create", NAME), "k").action == "accept"


def test_a_client_that_answers_without_a_state_is_believed() -> None:
    assert isinstance(
        rounds(answers={"k": ANN}).request_input(prepare_input_for("elicitation/create", NAME), "k"),
        ElicitResult,
    )


def test_the_same_input_request_twice_is_one_input_request_and_two_under_one_key_are_a_mistake() -> None:
    run = rounds()
    run.request_input(prepare_input_for("elicitation/create", NAME), "k")
    run.request_input(prepare_input_for("elicitation/create", NAME), "k")
    assert list(run.missing) == ["k"]
    with pytest.raises(LocalProtocolError):
        run.request_input(prepare_input_for("elicitation/create", COLOR), "k")


# --- the sealed state ---------------------------------------------------------------------------------------


def sealed(**request: Any) -> str:
    run = rounds(**request)
    run.request_input(prepare_input_for("elicitation/create", NAME), "k")
    return state_of(run)


@pytest.mark.parametrize(
    "other",
    [
        {"principal": "bob"},
        {"principal": None},
        {"name": "cancel"},
        {"arguments": '{"a":1,"b":3}'},
        {"arguments": None},
        {"now": 1061.0},
    ],
)
def test_a_state_is_good_for_one_person_one_call_and_a_short_while(other: dict[str, Any]) -> None:
    state = sealed()
    rounds(state=state)
    with pytest.raises(ProtocolError) as refused:
        rounds(state=state, **other)
    assert (refused.value.kind, refused.value.message) == (
        "invalid_request_state",
        "invalid or expired requestState",
    )


def test_the_order_of_arguments_does_not_matter() -> None:
    assert rounds(state=sealed(), arguments='{ "b": 2, "a": 1 }').round == 1


def test_every_altered_state_is_refused() -> None:
    state = sealed()
    for index in range(0, len(state), 7):
        altered = state[:index] + ("A" if state[index] != "A" else "B") + state[index + 1 :]
        with pytest.raises(ProtocolError):
            rounds(state=altered)
    for wrong in ("", "x", "v1...", state + "A", state[:-1]):
        with pytest.raises(ProtocolError):
            rounds(state=wrong)


def test_another_method_with_the_same_params_cannot_use_the_state() -> None:
    def prompt(kind: Any, method: str, state: Any = UNSET) -> InputRounds:
        asked = call()
        asked.method, asked.params = method, kind("same", request_state=state)
        return InputRounds(asked, SEAL, now=1000.0, lifetime=60)

    run = prompt(GetPromptRequestParams, "prompts/get")
    run.request_input(prepare_input_for("roots/list", None), "r")
    state = state_of(run)
    assert prompt(GetPromptRequestParams, "prompts/get", state).round == 1
    with pytest.raises(ProtocolError):
        prompt(ReadResourceRequestParams, "resources/read", state)


def test_rounds_are_counted_and_limited() -> None:
    limits = Limits(max_input_rounds=2)
    state: Any = UNSET
    for _ in range(2):
        run = rounds(limits=limits, state=state)
        run.request_input(prepare_input_for("elicitation/create", NAME), "k")
        state = state_of(run)
    run = rounds(limits=limits, state=state)
    run.request_input(prepare_input_for("elicitation/create", NAME), "k")
    with pytest.raises(Refusal, match="too many times"):
        run.result()


def test_a_state_that_outgrows_the_limit_is_neither_written_nor_read() -> None:
    small = Limits(max_request_state_bytes=1000)
    run = rounds(limits=small)
    run.remember("work", "x" * 2000)
    with pytest.raises(Refusal, match="size limit"):
        run.result()
    big = rounds()
    big.remember("work", "x" * 2000)
    with pytest.raises(ProtocolError):
        rounds(limits=small, state=state_of(big))


# --- steps, handler state, capabilities ---------------------------------------------------------------------


def test_a_step_is_remembered_in_later_rounds() -> None:
    run = rounds()
    assert run.step("pay") is MISSING
    run.remember("pay", {"receipt": 7})
    run.remember("null", None)
    run.request_input(prepare_input_for("elicitation/create", NAME))
    again = rounds(state=state_of(run))
    assert again.step("pay") == {"receipt": 7}
    assert again.step("null") is None
    assert again.step("other") is MISSING


def test_a_step_whose_outcome_is_no_json_is_a_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        rounds().remember("pay", object())


def test_a_handler_may_keep_a_state_of_its_own_and_ask_for_nothing() -> None:
    run = rounds()
    assert run.state is UNSET
    run.state = {"page": 2}
    result = run.result()
    assert result.input_requests is UNSET
    assert rounds(state=result.request_state).state == {"page": 2}


def test_a_handler_that_reads_answers_itself_may_want_what_was_answered() -> None:
    first = rounds()
    first.request_input(prepare_input_for("elicitation/create", NAME), "k")
    again = rounds(state=state_of(first), answers={"k": ANN})
    again.record(prepare_input_for("elicitation/create", NAME), "k")
    assert list(again.missing) == ["k"]


@pytest.mark.parametrize(
    ("method", "params", "need"),
    [
        ("elicitation/create", NAME, "elicitation.form"),
        ("elicitation/create", ElicitRequestParams.for_url("m", "https://a"), "elicitation.url"),
        ("sampling/createMessage", CreateMessageRequestParams([], 1), "sampling"),
        ("sampling/createMessage", CreateMessageRequestParams([], 1, tools=[]), "sampling.tools"),
        ("roots/list", None, "roots"),
    ],
)
def test_only_what_this_request_declared_is_asked(method: str, params: Any, need: str) -> None:
    assert needed_capability(method, params) == need
    run = rounds(declared={})
    with pytest.raises(CapabilityError) as refused:
        run.request_input(prepare_input_for(method, params))
    assert refused.value.capability == need
    assert run.missing == {}
    assert isinstance(rounds().request_input(prepare_input_for(method, params)), MissingInput)


def test_a_method_that_may_not_ask_does_not() -> None:
    asked = call()
    asked.method = "tools/list"
    with pytest.raises(LocalProtocolError):
        InputRounds(asked, SEAL, now=0, lifetime=60).request_input(prepare_input_for("roots/list"))
    with pytest.raises(LocalProtocolError):
        rounds().request_input(prepare_input_for("tools/list"))
