"""What handlers return and JSON cannot say: the peer gets an answer all the same, the author gets the reason."""

import logging
from typing import Any

import pytest

from dovetail import (
    CallToolResult,
    Completion,
    Context,
    GetPromptResult,
    ReadResourceResult,
    ResourceContents,
    Server,
    TextContent,
    ToolError,
)
from dovetail.model import PromptMessage
from tests.support.aio import run
from tests.support.peer import MODERN, Peer

LONE = "half a pair: \ud800"
both_eras = pytest.mark.parametrize("revision", ["2025-06-18", MODERN])

TOOL_VALUES: dict[str, Any] = {
    "text": LONE,
    "text beside other text": "näher \udc80",
    "data": {"a": LONE},
    "a key": {LONE: 1},
    "a block": TextContent(LONE),
    "blocks": [TextContent("good"), LONE],
    "blocks and data": ([TextContent(LONE)], {"a": 1}),
    "a whole result": CallToolResult([TextContent(LONE)]),
    "a whole result with a foreign object": CallToolResult([], structured_content={"a": object()}),
    "a whole result with foreign metadata": CallToolResult([], meta={"a": object()}),
}


def check_incident(error: dict[str, Any], message: str, log: str) -> None:
    """The peer is notified a number, the log says what it stands for."""
    assert (error["code"], error["message"]) == (-32603, message)
    assert error["data"]["incident"] in log
    assert "surrogate" in log


@both_eras
@pytest.mark.parametrize("name", TOOL_VALUES)
def test_a_tool_that_returns_what_json_cannot_say_has_failed(
    name: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        server = Server("unwritable")

        @server.tool(name="tool")
        async def plain():  # type: ignore[no-untyped-def]
            return TOOL_VALUES[name]

        @server.tool
        async def asking(ctx: Context):  # type: ignore[no-untyped-def]
            return TOOL_VALUES[name]

        peer = Peer(server, revision)
        for tool in ("tool", "asking"):
            caplog.clear()
            result = await peer.call(tool)
            assert result["isError"] is True
            text = result["content"][0]["text"]
            assert text.startswith(f"Error executing tool '{tool}' (incident ")
            assert f"{tool} returned a wrong value" in caplog.text

    scenario()


@both_eras
def test_a_declared_string_is_no_exception(revision: str) -> None:
    @run
    async def scenario() -> None:
        server = Server("unwritable")

        @server.tool
        async def said() -> str:
            return LONE

        assert (await Peer(server, revision).call("said"))["isError"] is True

    scenario()


@run
async def test_text_beyond_ascii_is_fine() -> None:
    server = Server("writable")

    @server.tool
    async def said() -> str:
        return "näher 😀"

    assert await Peer(server).text("said") == "näher 😀"


@both_eras
@pytest.mark.parametrize("mask", [True, False])
def test_what_a_failing_tool_says_is_readable_whatever_is_in_it(
    revision: str, mask: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The author's own exception is logged as it is, which not every collector of test reports can take.
    monkeypatch.setattr(logging.getLogger("dovetail.server"), "disabled", True)

    @run
    async def scenario() -> None:
        server = Server("unwritable", mask_errors=mask)

        @server.tool
        async def said() -> str:
            raise ToolError(f"no file {LONE}")

        @server.tool
        async def shown() -> str:
            raise ToolError("sorry", content=[TextContent(LONE)])

        @server.tool
        async def attached() -> str:
            raise ToolError("sorry", data={"a": object()})

        @server.tool
        async def escaped() -> str:
            raise FileNotFoundError(f"no file {LONE}")

        peer = Peer(server, revision)
        for tool in ("said", "shown", "attached", "escaped"):
            result = await peer.call(tool)
            assert result["isError"] is True
        assert (await peer.text("said")).startswith("no file half a pair: ")

    scenario()


@both_eras
@pytest.mark.parametrize(
    "value",
    [
        LONE,
        ResourceContents("test://broken", text=LONE),
        ReadResourceResult([ResourceContents("test://broken", text=LONE)]),
        [b"fine", LONE],
    ],
    ids=["text", "contents", "result", "several"],
)
def test_a_resource_that_json_cannot_say_is_an_incident(
    value: Any, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        server = Server("unwritable")

        @server.resource("test://broken")
        async def broken() -> Any:
            return value

        error = await Peer(server, revision).error("resources/read", uri="test://broken")
        check_incident(error, "Internal error", caplog.text)

    scenario()


@both_eras
@pytest.mark.parametrize(
    "value",
    [
        LONE,
        [{"role": "user", "content": LONE}],
        GetPromptResult([PromptMessage("user", TextContent(LONE))]),
    ],
    ids=["text", "message", "result"],
)
def test_a_prompt_that_json_cannot_say_is_an_incident(
    value: Any, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        server = Server("unwritable")

        @server.prompt
        async def broken() -> Any:
            return value

        error = await Peer(server, revision).error("prompts/get", name="broken")
        check_incident(error, "Prompt render failed", caplog.text)

    scenario()


@both_eras
@pytest.mark.parametrize("value", [[LONE], Completion([LONE])], ids=["list", "completion"])
def test_a_completion_that_json_cannot_say_is_an_incident(
    value: Any, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        server = Server("unwritable")

        @server.prompt
        async def greet(name: str) -> str:
            return name

        @server.completion(ref="greet", argument="name")
        async def names(typed: str) -> Any:
            return value

        ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "name", "value": "a"}
        error = await Peer(server, revision).error("completion/complete", ref=ref, argument=argument)
        check_incident(error, "Completion failed", caplog.text)

    scenario()
