"""Any value of the model comes back from JSON as it was, and is valid where the schema knows it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from dovetail import model
from dovetail.model import meta
from tests.support import strategies as s
from tests.support import values as v
from tests.support.schemas import REVISIONS, validate, validate_result

few = settings(max_examples=6, deadline=None)

TABLES = {"params": s.PARAMS, "results": s.RESULTS, "notifications": s.NOTIFICATIONS}
CASES = [(kind, name, r) for kind, table in TABLES.items() for name, r in s.rows(table)]
EXTRA: dict[str, Callable[[int], v.Strategy]] = {
    "input_required": v.input_required_result,
    "detailed_task": v.detailed_task,
    "extension_create_task": v.extension_create_task_result,
    "content": v.content_block,
    "sampling_content": v.sampling_message,
}

REQUEST_META = {meta.PROTOCOL_VERSION: "2026-07-28", meta.CLIENT_CAPABILITIES: {}}


def again(value: Struct) -> Struct:
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


def sent(value: Struct) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(value))


def as_modern_params(value: Any) -> Any:
    value.meta = {**({} if value.meta is UNSET else value.meta), **REQUEST_META}
    return value


def as_modern_result(value: Any) -> Any:
    if value.result_type is UNSET:
        value.result_type = "complete"
    if isinstance(value, model.CacheableResult):
        value.ttl_ms, value.cache_scope = 0, "private"
    return value


@pytest.mark.parametrize(("kind", "name", "r"), CASES)
@few
@given(data=st.data())
def test_a_value_comes_back_from_json_as_it_was(kind: str, name: str, r: int, data: Any) -> None:
    value = data.draw(TABLES[kind][name].of(r))
    assert again(value) == value


@pytest.mark.parametrize("name", EXTRA)
@few
@given(data=st.data())
def test_a_value_of_no_single_method_comes_back_as_it_was(name: str, data: Any) -> None:
    value = data.draw(EXTRA[name](5))
    assert again(value) == value


def test_the_strategies_cover_every_method_of_the_tables() -> None:
    assert set(s.RESULTS) | {"subscriptions/listen", "tasks/result"} == set(s.PARAMS)


def _cases(table: Mapping[str, s.Row]) -> Any:
    return pytest.mark.parametrize(("method", "r"), s.rows(table))


@_cases(s.PARAMS)
@few
@given(data=st.data())
def test_a_request_is_valid_in_every_revision_that_knows_it(method: str, r: int, data: Any) -> None:
    params = data.draw(s.PARAMS[method].of(r))
    if r == 5:
        params = as_modern_params(params)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent(params)}
    validate(message, REVISIONS[r - 1], method=method, kind="request")


@_cases(s.NOTIFICATIONS)
@few
@given(data=st.data())
def test_a_notification_is_valid_in_every_revision_that_knows_it(method: str, r: int, data: Any) -> None:
    params = data.draw(s.NOTIFICATIONS[method].of(r))
    message = {"jsonrpc": "2.0", "method": method, "params": sent(params)}
    validate(message, REVISIONS[r - 1], method=method, kind="notification")


@_cases(s.RESULTS)
@few
@given(data=st.data())
def test_a_result_is_valid_in_every_revision_that_knows_it(method: str, r: int, data: Any) -> None:
    result = data.draw(s.RESULTS[method].of(r))
    if r == 5:
        result = as_modern_result(result)
    validate({"jsonrpc": "2.0", "id": 1, "result": sent(result)}, REVISIONS[r - 1], method=method)


@few
@given(v.input_required_result(5))
def test_an_input_request_is_valid_without_further_options(result: model.InputRequiredResult) -> None:
    validate_result(sent(result), "2026-07-28", "tools/call")


@few
@given(v.extension_create_task_result(5))
def test_a_created_task_is_valid_without_further_ado(result: model.ExtensionCreateTaskResult) -> None:
    validate_result(sent(result), "2026-07-28", "tools/call")


@few
@given(v.detailed_task(5))
def test_a_detailed_task_is_a_valid_answer_to_tasks_get(result: model.DetailedTask) -> None:
    validate_result(sent(as_modern_result(result)), "2026-07-28", "tasks/get")


@few
@given(v.task(4))
def test_a_created_task_of_2025_11_25_is_valid(task: model.Task) -> None:
    validate_result(sent(model.CreateTaskResult(task)), "2025-11-25", "tools/call")
