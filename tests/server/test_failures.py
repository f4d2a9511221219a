"""Failures of tools, prompts and resources: who is notified what, and what stays in the log."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, ProtocolError, Refusal, RegistrationError, Server, TextContent, ToolError
from dovetail.transports import tcp
from tests.server.weather import build, every_revision
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import HANG


@every_revision
@run
async def test_bad_arguments_reach_the_model_as_the_revision_wants(revision: str) -> None:
    peer = Peer(build(), revision)
    reply = await peer.ask("tools/call", name="forecast", arguments={"city": 5, "dayz": 1})
    if revision <= "2025-06-18":
        assert reply["error"]["code"] == -32602
        text = reply["error"]["message"]
    else:
        assert reply["result"]["isError"] is True
        text = reply["result"]["content"][0]["text"]
    assert "city" in text
    assert "days" in text  # the nearest name for dayz
    prompt = await peer.error("prompts/get", name="plan", arguments={})
    assert prompt["code"] == -32602
    assert prompt["data"]["missing"] == ["city"]


@every_revision
@pytest.mark.parametrize("arguments", [[1], "x", 5, True])
@run
async def test_arguments_that_are_no_object_make_a_malformed_request_on_every_revision(
    revision: str, arguments: Any
) -> None:
    server = build()
    server.add_tool(name="raw", input_schema={"type": "object"}, handler=lambda given: str(given))
    peer = Peer(server, revision)
    for name in ("forecast", "raw"):
        error = await peer.error("tools/call", name=name, arguments=arguments)
        assert (error["code"], error["data"]["kind"]) == (-32602, "invalid_params")


@every_revision
@run
async def test_an_unexpected_exception_is_masked_and_logged_in_full(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "dovetail.server"):
        result = await Peer(build(), revision).call("broken")
    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert "secret" not in json.dumps(result)
    incident = text.partition("incident ")[2].rstrip(")")
    assert len(incident) == 12
    record = next(record for record in caplog.records if incident in record.getMessage())
    assert record.exc_info is not None
    assert "secret detail" in str(record.exc_info[1])


@run
async def test_masking_can_be_switched_off_for_development() -> None:
    assert await Peer(build(mask_errors=False)).text("broken") == "RuntimeError: secret detail"


@every_revision
@run
async def test_failures_of_prompts_and_resources_are_masked_internal_errors(revision: str) -> None:
    server = Server("x", "1")

    @server.prompt
    def bad() -> str:
        raise KeyError("secret")

    @server.resource("x://bad")
    def unreadable() -> str:
        raise KeyError("secret")

    peer = Peer(server, revision)
    for error in (
        await peer.error("prompts/get", name="bad"),
        await peer.error("resources/read", uri="x://bad"),
    ):
        assert error["code"] == -32603
        assert len(error["data"]["incident"]) == 12
        assert "secret" not in json.dumps(error)


@every_revision
@run
async def test_a_tool_says_how_it_failed(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    def no() -> str:
        raise ToolError("No seats left", data={"left": 0})

    @server.tool
    def blocks() -> str:
        raise ToolError("see", content=[TextContent("one"), "two"])

    @server.tool
    def refuse() -> str:
        raise Refusal(1005, "ask your admin", 2.5)

    @server.tool
    def refuse_softly() -> str:
        raise Refusal(1001, "rephrase", as_result=True)

    @server.tool
    def protocol() -> str:
        raise ProtocolError("invalid_params", "wrong town")

    peer = Peer(server, revision)
    failed = await peer.call("no")
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "No seats left")
    assert [block["text"] for block in (await peer.call("blocks"))["content"]] == ["one", "two"]
    refusal = await peer.error("tools/call", name="refuse")
    assert refusal["code"] == 1005
    assert refusal["data"]["hint"] == "ask your admin"
    assert refusal["data"]["retryAfterMs"] == 2500
    soft = await peer.call("refuse_softly")
    assert soft["isError"] is True
    assert soft["_meta"]["dovetail/hint"] == "rephrase"
    assert (await peer.error("tools/call", name="protocol"))["message"] == "wrong town"


@run
async def test_even_sys_exit_and_a_stray_cancellation_are_only_failures() -> None:
    server = Server("x", "1")

    @server.tool
    async def leave() -> str:
        raise SystemExit(3)

    @server.tool
    def leave_thread() -> str:
        raise SystemExit(3)

    @server.tool
    async def stray() -> str:
        raise asyncio.CancelledError

    @server.tool
    async def group() -> str:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(0))
            raise ValueError("secret")

    peer = Peer(server)
    for name in ("leave", "leave_thread", "stray", "group"):
        assert (await peer.call(name))["isError"] is True
    await server.lifecycle.stop()


@run
async def test_cancelling_the_caller_cancels_the_handler_and_is_not_answered() -> None:
    server = Server("x", "1")
    entered, left = asyncio.Event(), asyncio.Event()

    @server.tool
    async def sleep() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return ""

    task = asyncio.create_task(Peer(server).call("sleep"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left.is_set()


READERS: dict[str, tuple[type[Exception], str, int, int, int]] = {
    "denied": (PermissionError, "resource_access_denied", 1005, -32025, -32002),
    "locked": (BlockingIOError, "resource_locked", -32603, -32027, -32002),
    "missing": (FileNotFoundError, "resource_not_readable", -32603, -32603, -32002),
    "broken": (KeyError, "internal_error", -32603, -32603, -32603),
}


@every_revision
@pytest.mark.parametrize("name", READERS)
@run
async def test_what_keeps_a_resource_from_being_read_has_its_code(revision: str, name: str) -> None:
    cause, kind, official, erlmcp, elixir = READERS[name]

    def build_reader(dialect: str) -> Server:
        server = Server("reading", dialect=dialect)

        @server.resource("x://file")
        def read() -> str:
            """Read."""
            raise cause(13, "secret detail", "/secret/file")

        return server

    for dialect, number in (
        ("official", official),
        ("erlmcp", erlmcp),
        ("mcp_client", elixir),
        ("minimcp", -32603),
    ):
        error = await Peer(build_reader(dialect), revision).error("resources/read", uri="x://file")
        modern = revision == "2026-07-28"
        assert error["code"] == (official if modern else number), dialect
        assert error["data"]["kind"] == kind
        assert len(error["data"]["incident"]) == 12
        assert "secret" not in json.dumps(error)


@every_revision
@run
async def test_a_prompt_a_template_and_time_that_ran_out_have_their_codes(revision: str) -> None:
    server = Server("erlmcp", dialect="erlmcp")

    @server.prompt
    def broken() -> str:
        """Break."""
        raise RuntimeError("secret")

    @server.resource("x://{name}")
    def reader(name: str) -> str:
        """Break too."""
        raise RuntimeError("secret")

    @server.resource("x://slow", timeout=0.01)
    async def slow() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return ""

    peer = Peer(server, revision)
    for method, params, kind, number in (
        ("prompts/get", {"name": "broken"}, "prompt_render_failed", -32044),
        ("resources/read", {"uri": "x://any"}, "template_render_failed", -32029),
        ("resources/read", {"uri": "x://slow"}, "request_timeout", -32009),
    ):
        error = await peer.error(method, **params)
        found = error["data"]["dialectCode"] if revision == "2026-07-28" else error["code"]
        assert (found, error["data"]["kind"]) == (number, kind)
        assert "secret" not in json.dumps(error)


def test_long_descriptions_and_duplicates_are_refused_by_their_kind() -> None:
    def tool() -> str:
        return "x"

    long = "x" * 10_001
    with pytest.raises(RegistrationError) as caught:
        Server("erlmcp", dialect="erlmcp").add_tool(tool, description=long)
    assert caught.value.kind == "tool_description_too_long"
    server = Server("official")
    server.add_tool(tool, description=long)
    with pytest.raises(RegistrationError) as caught:
        server.add_tool(tool, description="again")
    assert caught.value.kind == "registration"


ABORTING = """
from dovetail import Server

server = Server("x", "1")


class Abort(BaseException):
    pass


@server.tool
async def leave() -> str:
    raise Abort("secret")


@server.tool
def leave_thread() -> str:
    raise Abort("secret")


@server.prompt
async def greet(name: str = "") -> str:
    raise Abort("secret")


@server.resource("x://y")
async def read() -> str:
    raise Abort("secret")


@server.completion(ref="greet", argument="name")
async def complete(value: str) -> list[str]:
    raise Abort("secret")


if __name__ == "__main__":
    server.run()
"""


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("way", ["memory", "stdio", "tcp"])
@pytest.mark.parametrize("kind", ["BaseException", "GeneratorExit", "KeyboardInterrupt"])
@run
async def test_every_exception_of_a_handler_is_answered(
    kind: str, way: str, revision: str, tmp_path: Path
) -> None:
    file = tmp_path / "aborting.py"
    file.write_text(ABORTING.replace("BaseException", kind))
    target: Any = [sys.executable, str(file)]
    listener = None
    if way != "stdio":
        names: dict[str, Any] = {"__name__": "aborting"}
        exec(compile(file.read_text(), str(file), "exec"), names)
        server = target = names["server"]
    if way == "tcp":
        listener = await tcp.listen(server.dispatcher)
        target = "tcp://{}:{}".format(*listener.address[:2])
    async with asyncio.timeout(HANG), Client(target, revision=revision) as client:
        for name in ("leave", "leave_thread"):
            with pytest.raises(ToolError, match="incident"):
                await client.call_tool(name)
        with pytest.raises(ProtocolError):
            await client.get_prompt("greet")
        with pytest.raises(ProtocolError):
            await client.read_resource("x://y")
        with pytest.raises(ProtocolError):
            await client.complete({"type": "ref/prompt", "name": "greet"}, "name", "a")
        with pytest.raises(ToolError, match="incident"):  # the connection continues
            await client.call_tool("leave")
    if listener is not None:
        await listener.close()
