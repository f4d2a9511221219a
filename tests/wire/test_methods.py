"""The method table says what each revision's schema says."""

from typing import Any

import msgspec
import pytest

from dovetail import model as m
from dovetail.wire.methods import METHODS, OWN_EXTENSION, methods_for, result_type_of
from dovetail.wire.revisions import BY_NAME, R1, R2, R3, R4, R5, REVISIONS, Revision, newest
from tests.support import schemas
from tests.support.schema_patches import EXTENSION_RESULTS

OFFICIAL = {name for name, row in METHODS.items() if row.extension is None or row.since == 4}


def test_the_revisions_are_in_order_and_known_by_name() -> None:
    assert [revision.index for revision in REVISIONS] == [1, 2, 3, 4, 5]
    assert list(BY_NAME.values()) == list(REVISIONS)
    assert (newest(modern=True), newest(modern=False)) == (R5, R4)
    assert [r.batches for r in REVISIONS] == [False, True, False, False, False]
    assert [r.null_error_id for r in REVISIONS] == [True, True, True, False, False]


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
@pytest.mark.parametrize("sender", ["client", "server"])
def test_both_sides_may_send_exactly_what_the_schema_lists(revision: Revision, sender: str) -> None:
    ours = {
        name
        for name, row in methods_for(revision, sender).items()  # type: ignore[arg-type]
        if row.extension is None or (not revision.modern and row.extension != OWN_EXTENSION)
    }
    listed: set[str] = set()
    for kind in ("Request", "Notification"):
        union = schemas.definitions(revision.name).get(f"{sender.capitalize()}{kind}", {})
        for member in union.get("anyOf", [union]):
            definition = schemas.definitions(revision.name).get(member.get("$ref", "").split("/")[-1], member)
            method = definition.get("properties", {}).get("method", {}).get("const")
            if method is not None:
                listed.add(method)
    if revision is R5 and sender == "server":
        # Not in the union of this schema; the prose has it end a listen stream on stdio.
        listed.add("notifications/cancelled")
    assert ours == listed


def test_completion_is_ungated_on_the_oldest_revision() -> None:
    row = METHODS["completion/complete"]
    assert row.needs(R1) is None
    assert row.needs(R2) == "completions"


def test_tasks_are_a_capability_first_and_an_extension_later() -> None:
    row = METHODS["tasks/get"]
    assert row.needs(R4) == "tasks"
    assert row.needs(R5) == "extensions.io.modelcontextprotocol/tasks"
    assert "tasks/result" not in methods_for(R5, "client")
    assert "tasks/get" in methods_for(R4, "server")
    assert "tasks/get" not in methods_for(R5, "server")


def test_cacheable_results_are_those_of_the_schema() -> None:
    listed = {
        name.removesuffix("Result")
        for name, definition in schemas.definitions(R5.name).items()
        if "ttlMs" in definition.get("required", ())
        and name not in ("CacheableResult", "PaginatedResult", *EXTENSION_RESULTS.values())
        and not name.startswith("Extension")
    }
    ours = {
        row.result.__name__.removesuffix("Result")
        for row in METHODS.values()
        if row.cacheable and row.extension is None
    }
    assert ours == listed


def test_every_cacheable_row_has_a_result_that_can_say_so() -> None:
    for row in METHODS.values():
        if row.kind == "request" and isinstance(row.result, type):
            assert row.cacheable is (
                row.since <= 5 <= row.until and issubclass(row.result, m.CacheableResult)
            )


def test_only_three_methods_may_ask_back() -> None:
    assert {row.name for row in METHODS.values() if row.may_request_input} == {
        "tools/call",
        "prompts/get",
        "resources/read",
    }


def test_the_mirrored_name_is_a_member_of_the_params() -> None:
    for row in METHODS.values():
        if row.name_header is not None:
            fields = {field.encode_name for field in msgspec.structs.fields(row.params)}
            assert row.name_header in fields


@pytest.mark.parametrize(
    ("method", "result", "revision", "expected"),
    [
        ("tools/call", {"content": []}, R5, m.CallToolResult),
        ("tools/call", {"content": [], "resultType": "complete"}, R5, m.CallToolResult),
        ("tools/call", {"resultType": "input_required"}, R5, m.InputRequiredResult),
        ("tools/call", {"resultType": "task", "taskId": "1"}, R5, m.ExtensionCreateTaskResult),
        ("resources/read", {"resultType": "input_required"}, R5, m.InputRequiredResult),
        ("tasks/get", {"resultType": "complete"}, R5, m.DetailedTask),
        ("tasks/get", {}, R4, m.GetTaskResult),
        ("tools/call", {"task": {"taskId": "1"}}, R4, m.CreateTaskResult),
        ("tools/call", {"content": [], "structuredContent": {"task": {}}}, R4, m.CallToolResult),
        ("tools/call", {"content": [], "task": {}}, R3, m.CallToolResult),
        ("elicitation/create", {"action": "accept", "content": {"task": {}}}, R4, m.ElicitResult),
    ],
)
def test_what_an_answer_is_shows_in_it(method: str, result: Any, revision: Revision, expected: type) -> None:
    assert result_type_of(METHODS[method], msgspec.json.encode(result), revision) is expected


@pytest.mark.parametrize(
    ("method", "kind"),
    [("tools/list", "input_required"), ("prompts/get", "task"), ("tools/call", "other"), ("tools/call", 5)],
)
def test_a_result_type_that_may_not_come_here_is_refused(method: str, kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match="resultType"):
        result_type_of(METHODS[method], msgspec.json.encode({"resultType": kind}), R5)
