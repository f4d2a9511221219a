"""Tasks of SDK 1.x (``server.experimental``, ``session.experimental``): low-level tools as tasks of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dovetail import Client
from dovetail.compat.mcp import types
from dovetail.compat.mcp.server.experimental.task_context import ServerTaskContext
from dovetail.compat.mcp.server.lowlevel import Server
from dovetail.compat.mcp.shared.experimental.tasks.helpers import generate_task_id, is_terminal
from dovetail.compat.mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore
from dovetail.compat.mcp.shared.experimental.tasks.message_queue import InMemoryTaskMessageQueue
from dovetail.compat.mcp.shared.memory import create_connected_server_and_client_session
from tests.support.aio import run

FORM: dict[str, Any] = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


def said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def worker() -> tuple[Server[Any, Any], asyncio.Event]:
    server: Server[Any, Any] = Server("worker")
    server.experimental.enable_tasks(InMemoryTaskStore(), InMemoryTaskMessageQueue())
    go_on = asyncio.Event()

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        must = types.ToolExecution(taskSupport="required")
        tools = [
            types.Tool(name=name, inputSchema={"type": "object"}, execution=must)
            for name in ("count", "ask", "fail", "end", "wait")
        ]
        return [*tools, types.Tool(name="plain", inputSchema={"type": "object"})]

    async def count(task: ServerTaskContext) -> types.CallToolResult:
        await task.update_status("half way")
        return said(f"counted in {task.task_id}")

    async def ask(task: ServerTaskContext) -> types.CallToolResult:
        answer = await task.elicit_as_task("Are you sure?", FORM)
        return said(f"{answer.action} {answer.content}")

    async def fail(task: ServerTaskContext) -> types.CallToolResult:
        raise ValueError("out of paper")

    async def end(task: ServerTaskContext) -> types.CallToolResult:
        await task.complete(said("said before"))
        assert is_terminal(task.task.status)
        return said("said after")

    async def wait(task: ServerTaskContext) -> types.CallToolResult:
        await task.update_status("waiting")
        await go_on.wait()
        return said("went on")

    work = {"count": count, "ask": ask, "fail": fail, "end": end, "wait": wait}

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        experimental = server.request_context.experimental
        if name == "plain":
            experimental.validate_task_mode(types.TASK_OPTIONAL)
            return [types.TextContent(type="text", text=f"a task: {experimental.is_task}")]
        experimental.validate_task_mode(types.TASK_REQUIRED)
        return await experimental.run_task(work[name])

    return server, go_on


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_work_is_done_after_the_task_was_created(revision: str) -> None:
    server, _ = worker()
    answer = {"action": "accept", "content": {"sure": True}}
    async with Client(server.native, revision=revision, on_elicit=lambda _: answer) as client:
        task = await client.create_task("count", {})
        assert (await task.result()).text == f"counted in {task.id}"
        assert (await (await client.create_task("ask", {})).result()).text == "accept {'sure': True}"
        assert (await (await client.create_task("end", {})).result()).text == "said before"
        assert (await client.call_tool("plain", {})).text == "a task: False"
        failed = await client.create_task("fail", {}, check=False)
        assert (await failed.result()).text == "out of paper"
        assert failed.id is not None
        # 2026-07-28 calls a tool that has said why it failed completed.
        over = "failed" if revision == "2025-11-25" else "completed"
        assert await client.task(failed.id).status() == over


@run
async def test_who_does_not_ask_for_a_task_is_told_so_by_the_handler() -> None:
    server, _ = worker()
    async with Client(server.native, revision="2025-11-25") as client:
        assert client.server_capabilities.has("tasks.requests.tools.call")
        result = await client.call_tool("count", {}, check=False)
        assert result.is_error
        assert result.text == "This tool requires task-augmented invocation"
        task = await client.create_task("plain", {})
        assert (await task.result()).text == "a task: True"


@run
async def test_a_session_of_the_sdk_begins_looks_at_lists_and_ends_tasks() -> None:
    server, go_on = worker()

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"sure": False})

    async with create_connected_server_and_client_session(server, elicitation_callback=answer) as session:
        tasks = session.experimental
        created = await tasks.call_tool_as_task("wait", {}, ttl=60_000)
        id = created.task.taskId
        assert (await tasks.get_task(id)).status == "working"
        assert id in [one.taskId for one in (await tasks.list_tasks()).tasks]
        go_on.set()
        states = [one.status async for one in tasks.poll_task(id)]
        assert states[-1] == "completed"
        done = await tasks.get_task_result(id, types.CallToolResult)
        assert done.content[0].text == "went on"
        asked = await tasks.call_tool_as_task("ask", {})
        done = await tasks.get_task_result(asked.task.taskId, types.CallToolResult)
        assert done.content[0].text == "accept {'sure': False}"
        go_on.clear()
        stopped = (await tasks.call_tool_as_task("wait", {})).task.taskId
        assert (await tasks.cancel_task(stopped)).status == "cancelled"


@run
async def test_what_cannot_be_done_is_said() -> None:
    server: Server[Any, Any] = Server("none")
    with pytest.raises(ValueError, match="DOVETAIL_STORE"):
        server.experimental.enable_tasks(store=object())
    with pytest.raises(TypeError, match=r"Own would not be asked.*DOVETAIL_STORE"):
        type("Own", (InMemoryTaskStore,), {})
    with pytest.raises(AttributeError, match="get_task is not there"):
        InMemoryTaskStore().get_task("one")

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        experimental = server.request_context.experimental
        assert not experimental.client_supports_tasks
        assert not experimental.can_use_tool("required")
        assert experimental.validate_task_mode("required", raise_error=False).code == types.METHOD_NOT_FOUND
        return await experimental.run_task(None)

    async with Client(server.native, revision="2025-11-25") as client:
        assert "enable_tasks()" in (await client.call_tool("any", {}, check=False)).text
        assert not client.server_capabilities.has("tasks")
    assert generate_task_id() != generate_task_id()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_question_that_may_be_answered_by_a_task_is_asked_as_any_other(revision: str) -> None:
    server: Server[Any, Any] = Server("asking")

    @server.call_tool(validate_input=False)
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        experimental = server.request_context.session.experimental
        answer = await experimental.elicit_as_task("Are you sure?", FORM, ttl=1000)
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say hi"))
        heard: Any = await experimental.create_message_as_task([message], max_tokens=5)
        return [types.TextContent(type="text", text=f"{answer.content} {heard.content.text}")]

    def answered(question: Any) -> dict[str, Any]:
        return {"sure": True}

    def modelled(question: Any) -> str:
        return "hi"

    async with Client(server.native, revision=revision, on_elicit=answered, on_sample=modelled) as client:
        assert (await client.call_tool("any", {})).text == "{'sure': True} hi"
