"""Pages, completion arguments, and where the structured result is found."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from dovetail import Client, Clients, Server
from dovetail.client.calling.params import read_reference
from dovetail.client.calling.results import ToolResult
from dovetail.errors import RemoteProtocolError, ToolError
from dovetail.model import (
    CallToolResult,
    CompleteResult,
    Completion,
    GetPromptResult,
    PromptMessage,
    ReadResourceResult,
    ResourceContents,
    TextContent,
)
from dovetail.wire.revisions import R1, R4, R5, Revision

from ..support.aio import run
from .scripted import Peer, Scripted, legacy


def result(texts: list[str], structured: Any = UNSET, revision: Revision = R5) -> ToolResult:
    return ToolResult(
        CallToolResult([TextContent(t) for t in texts], structured_content=structured), revision
    )


@pytest.mark.parametrize(
    ("texts", "structured", "revision", "data"),
    [
        (["3"], 3, R5, 3),
        (["null"], None, R5, None),
        (["3"], {"result": 3}, R4, 3),
        (["[1]"], {"result": [1]}, R4, [1]),
        (['{"result":3}'], {"result": 3}, R4, {"result": 3}),
        (['{"a":1}'], {"a": 1}, R4, {"a": 1}),
        ([], {"result": 3}, R4, 3),
        (['{"a":1}'], UNSET, R1, {"a": 1}),
        (["3"], UNSET, R1, 3),
        (["plain words"], UNSET, R1, "plain words"),
        (["a", "b"], UNSET, R1, None),
        (['{"a":1}'], UNSET, R5, None),
    ],
)
def test_the_data_of_a_result(texts: list[str], structured: Any, revision: Revision, data: Any) -> None:
    assert result(texts, structured, revision).data == data


def test_texts_are_joined() -> None:
    assert result(["a", "b"]).text == "a\nb"
    assert "data=" in repr(result(["a"]))


def pages(*cursors: Any) -> Scripted:
    """Serves one tool per page; ``cursors[n]`` is the nextCursor of page n."""
    left = list(cursors)

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        cursor = left.pop(0) if left else None
        tool = {"name": f"t{len(left)}", "inputSchema": {"type": "object"}}
        peer.result(message, {"tools": [tool], **({} if cursor is None else {"nextCursor": cursor})})

    return legacy(answer)


@run
async def test_all_pages_are_followed_and_an_empty_cursor_is_one() -> None:
    target = pages("a", "", "b")
    async with Client(target, revision="legacy") as client:
        assert len(await client.list_tools()) == 4
        cursors = [
            (m.get("params") or {}).get("cursor")
            for m in target.peer.heard
            if m.get("method") == "tools/list"
        ]
        assert cursors == [None, "a", "", "b"]


@run
async def test_pages_in_a_cycle_are_noticed() -> None:
    async with Client(pages(*["a", "b"] * 10), revision="legacy") as client:
        with pytest.raises(RemoteProtocolError, match="circle"):
            await client.list_tools()


@run
async def test_pages_without_an_end_are_given_up() -> None:
    target = pages(*(str(n) for n in range(2000)))
    async with Client(target, revision="legacy") as client:
        with pytest.raises(RemoteProtocolError, match="1000 pages"):
            await client.list_tools()


PROMPT = {"type": "ref/prompt", "name": "plan"}


@pytest.mark.parametrize(
    ("arguments", "ref", "argument", "context"),
    [
        (("plan", "city", "O"), PROMPT, ("city", "O"), UNSET),
        ((PROMPT, {"name": "city", "value": "O"}), PROMPT, ("city", "O"), UNSET),
        ((PROMPT, {"name": "c", "value": ""}, {"arguments": {"a": "1"}}), PROMPT, ("c", ""), {"a": "1"}),
        (("plan", "city", "O", {"a": "1"}), PROMPT, ("city", "O"), {"a": "1"}),
        (("file:///{x}", "x", "v"), {"type": "ref/resource", "uri": "file:///{x}"}, ("x", "v"), UNSET),
    ],
)
def test_completion_arguments(arguments: Any, ref: Any, argument: Any, context: Any) -> None:
    import msgspec

    params = read_reference(*(*arguments, None, None)[:4])
    assert msgspec.to_builtins(params.ref) == ref
    assert (params.argument.name, params.argument.value) == argument
    assert (params.context.arguments if params.context else UNSET) == context


def test_completion_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TypeError, match="complete"):
        read_reference({"type": "ref/nothing"}, "x", None, None)


def test_what_was_read_completed_or_filled_in_has_its_plain_value_at_hand() -> None:
    read = ReadResourceResult([ResourceContents("a://1", text="one"), ResourceContents("a://2", text="two")])
    assert (read.text, read.data) == ("one\ntwo", b"one")
    assert ReadResourceResult([ResourceContents("a://1", blob="AAE=")]).data == b"\x00\x01"
    assert (ReadResourceResult([]).text, ReadResourceResult([]).data) == ("", b"")
    assert CompleteResult(Completion(["Oslo"])).values == ["Oslo"]
    message = PromptMessage("user", TextContent("Plan a weekend."))
    assert GetPromptResult([message]).text == "Plan a weekend."


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"dovetail/kind": "handle_not_found"}, "handle_not_found"),
        ({"dovetail/kind": "made_up"}, "tool_execution_failed"),
        ({"dovetail/kind": 5}, "tool_execution_failed"),
        (UNSET, "tool_execution_failed"),
    ],
)
def test_a_failed_tool_has_the_kind_that_its_result_names(said: Any, kind: str) -> None:
    failed = ToolResult(CallToolResult([TextContent("no")], is_error=True, meta=said), R5)
    with pytest.raises(ToolError, match="no") as raised:
        failed.check()
    assert raised.value.kind == kind


@run
async def test_the_repr_of_a_client_says_where_it_is_connected() -> None:
    client = Client("http://user:secret@127.0.0.1:9/mcp?key=secret", revision="2025-06-18")
    assert repr(client).startswith("Client('http://127.0.0.1:9/mcp', state=")
    async with Client(Server("shop"), revision="2025-06-18") as connected:
        assert repr(connected) == "Client('the server in this process', state='ready', revision='2025-06-18')"
    clients = Clients({"mcpServers": {"b": {"command": "x"}, "a": {"url": "http://127.0.0.1:9/mcp"}}})
    assert repr(clients).startswith("Clients(['a', 'b'], state=")
