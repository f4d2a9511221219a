"""Capabilities are open dicts that answer questions."""

import msgspec
import pytest

from dovetail.model import Annotations, ClientCapabilities, ServerCapabilities, ToolAnnotations

TASKS = "io.modelcontextprotocol/tasks"


@pytest.mark.parametrize(
    ("declared", "path", "expected"),
    [
        ({}, "sampling", False),
        ({"sampling": {}}, "sampling", True),
        ({"sampling": {}}, "sampling.tools", False),
        ({"sampling": {"tools": {}}}, "sampling.tools", True),
        ({"sampling": None}, "sampling", False),
        ({"roots": {"listChanged": False}}, "roots.listChanged", False),
        ({"roots": {"listChanged": True}}, "roots.listChanged", True),
        ({"sampling": "yes"}, "sampling.tools", False),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"elicitation": {"url": {}}}, "elicitation.url", True),
        ({"elicitation": {"form": {}}}, "elicitation.form", True),
        ({"extensions": {TASKS: {}}}, f"extensions.{TASKS}", True),
        ({"extensions": {}}, f"extensions.{TASKS}", False),
    ],
)
def test_a_capability_is_there_when_it_was_declared(declared: dict, path: str, expected: bool) -> None:
    assert ClientCapabilities(declared).has(path) is expected


def test_elicitation_modes_by_name() -> None:
    neither = ClientCapabilities()
    both = ClientCapabilities(elicitation={"form": {}, "url": {}})
    assert (neither.elicitation, neither.elicitation_form, neither.elicitation_url) == (None, False, False)
    assert (both.elicitation_form, both.elicitation_url) == (True, True)


def test_views_give_the_settings_and_never_anything_but_a_dict() -> None:
    capabilities = ServerCapabilities(tools={"listChanged": True}, logging=True, prompts=False)
    assert capabilities.tools == {"listChanged": True}
    assert capabilities.logging == {}
    assert capabilities.prompts is None
    assert capabilities.resources is None


def test_an_extension_gives_its_settings() -> None:
    capabilities = ServerCapabilities(extensions={TASKS: {"a": 1}})
    assert capabilities.extension(TASKS) == {"a": 1}
    assert capabilities.extension("com.example/none") is None
    assert ServerCapabilities().extension(TASKS) is None


def test_what_is_required_can_be_written_from_paths() -> None:
    needed = ClientCapabilities.requiring("sampling.tools", "sampling", f"extensions.{TASKS}")
    assert needed == {"sampling": {"tools": {}}, "extensions": {TASKS: {}}}
    assert needed.has("sampling.tools")


def test_capabilities_are_written_with_all_they_hold() -> None:
    declared = {"sampling": {}, "unheard-of": {"a": [1, None]}}
    assert msgspec.json.decode(msgspec.json.encode(ClientCapabilities(declared))) == declared


def test_tool_hints_default_to_caution() -> None:
    unsaid = ToolAnnotations()
    assert (unsaid.read_only, unsaid.destructive, unsaid.idempotent, unsaid.open_world) == (
        False,
        True,
        False,
        True,
    )
    said = ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False)
    assert (said.read_only, said.destructive, said.idempotent, said.open_world) == (True, False, True, False)


def test_annotations_of_the_wrong_type_read_as_unsaid() -> None:
    wrong = Annotations(audience="user", priority="high", lastModified=5)
    assert (wrong.audience, wrong.priority, wrong.last_modified) == ([], None, None)
    right = Annotations(audience=["user"], priority=0.5, lastModified="2025-01-01T00:00:00Z")
    assert (right.audience, right.priority, right.last_modified) == (["user"], 0.5, "2025-01-01T00:00:00Z")
