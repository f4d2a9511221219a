"""What a change of a server means, said in four words."""

from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.manifest.diff import compare
from dovetail.manifest.lock import LockError, Manifest, manifest_of, read, write
from tests.support.aio import run

STRING = {"type": "string"}


def tool(**members: Any) -> dict[str, Any]:
    properties = members.pop("properties", {"city": STRING})
    required = members.pop("required", ["city"])
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": "t", "description": "d", "inputSchema": schema, **members}


def kinds(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[tuple[str, str]]:
    one, two = ({} if entry is None else {"t": entry} for entry in (old, new))
    return [(change.kind, change.path) for change in compare(Manifest(1, tools=one), Manifest(1, tools=two))]


OUT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (tool(), tool(), []),
        (tool(), None, [("breaking", "")]),
        (None, tool(), [("widening", "")]),
        (tool(), tool(properties={"city": STRING, "days": {"type": "integer"}}), [("widening", "input")]),
        (
            tool(),
            tool(properties={"city": STRING, "days": STRING}, required=["city", "days"]),
            [("breaking", "input.days")],
        ),
        (tool(), tool(properties={"city": {"type": "integer"}}), [("breaking", "input.city")]),
        (tool(), tool(required=[]), [("widening", "input")]),
        (tool(), tool(properties={"city": {**STRING, "description": "which"}}), [("wording", "input")]),
        (tool(), tool(description="other"), [("wording", "")]),
        (tool(), tool(outputSchema=OUT), [("widening", "output")]),
        (tool(outputSchema=OUT), tool(), [("breaking", "output")]),
        (tool(outputSchema=OUT), tool(outputSchema={**OUT, "required": []}), [("breaking", "output.a")]),
        (tool(outputSchema={**OUT, "required": []}), tool(outputSchema=OUT), [("widening", "output")]),
        (
            tool(outputSchema=OUT),
            tool(outputSchema={**OUT, "properties": {"a": {"type": "number"}}}),
            [("breaking", "output.a")],
        ),
        (tool(annotations={"readOnlyHint": True}), tool(), [("hint", "")]),
        (tool(), tool(annotations={"destructiveHint": True}), []),  # what it was taken for anyway
        (
            tool(properties={"city": {**STRING, "default": "Oslo"}}, required=[]),
            tool(properties={"city": {**STRING, "default": "Rome"}}, required=[]),
            [("breaking", "input.city"), ("wording", "input")],
        ),
        (
            tool(execution={"taskSupport": "optional"}),
            tool(execution={"taskSupport": "required"}),
            [("breaking", "")],
        ),
        (tool(), tool(execution={"taskSupport": "optional"}), [("widening", "")]),
    ],
)
def test_a_change_of_a_tool_is_named(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    assert kinds(old, new) == found


def test_a_renamed_tool_is_found_out() -> None:
    changes = compare(
        Manifest(1, tools={"old": tool()}), Manifest(1, tools={"new": tool(), "else": tool(required=[])})
    )
    assert [(one.kind, one.name, one.text) for one in changes] == [
        ("breaking", "old", "was renamed to new"),
        ("widening", "else", "is new"),
    ]


def test_prompts_and_resources_are_compared_too() -> None:
    old = Manifest(
        1,
        prompts={
            "p": {"name": "p", "arguments": [{"name": "a"}, {"name": "b", "required": True}, {"name": "c"}]}
        },
        resources={
            "r://1": {"uri": "r://1", "name": "1", "mimeType": "text/plain"},
            "r://2": {"uri": "r://2", "name": "2"},
        },
        server={"name": "s", "instructions": "one"},
    )
    new = Manifest(
        1,
        prompts={
            "p": {"name": "p", "arguments": [{"name": "a", "required": True}, {"name": "b"}, {"name": "d"}]}
        },
        resources={"r://1": {"uri": "r://1", "name": "1", "mimeType": "text/html"}},
        server={"name": "s", "instructions": "two"},
    )
    found = {(one.kind, one.component, one.path or one.name) for one in compare(old, new)}
    assert found == {
        ("breaking", "prompt", "a"),
        ("breaking", "prompt", "c"),
        ("widening", "prompt", "b"),
        ("widening", "prompt", "d"),
        ("breaking", "resource", "r://1"),
        ("breaking", "resource", "r://2"),
        ("wording", "server", "s"),
    }


@run
async def test_a_lock_file_says_everything_and_always_the_same(tmp_path: Any) -> None:
    server = Server("s", instructions="Ask.")
    server.tool(name="b", description="second")(lambda: None)
    server.tool(name="a", description="first", annotations={"readOnlyHint": True}, meta={"x": 1})(
        lambda: None
    )
    server.add_resource("r://one", lambda: "x", name="one")
    server.add_prompt(lambda: "x", name="p")
    async with Client(server) as client:
        manifest = await manifest_of(client)
        again = await manifest_of(client)
    data = write(manifest)
    assert data == write(again)
    assert data.index(b'"a"') < data.index(b'"b"')
    path = tmp_path / "mcp.lock"
    path.write_bytes(data)
    assert read(path) == manifest
    assert manifest.tools["a"]["annotations"] == {"readOnlyHint": True}
    assert "_meta" not in manifest.tools["a"]
    assert (*manifest.resources, *manifest.prompts) == ("r://one", "p")
    assert compare(read(path), manifest) == []


@pytest.mark.parametrize("text", ["", "[]", '{"lock": 99}', '{"tools": {}}', "[" * 100_000])
def test_what_is_no_lock_file_is_said(tmp_path: Any, text: str) -> None:
    path = tmp_path / "mcp.lock"
    path.write_text(text)
    with pytest.raises(LockError, match=r"mcp\.lock"):
        read(path)
