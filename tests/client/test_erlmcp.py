"""A client and erlmcp's servers: their tasks, their contents without an address, their news with metadata."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dovetail import CapabilityError, Client, ProtocolError, Server, ToolError
from dovetail.gateway import Proxy
from dovetail.sync import Client as SyncClient

from ..support.aio import run
from .scripted import Peer, Scripted, legacy, text

FEATURES = {"experimental": {"features": ["task_management"]}}
TIMES = {"createdAt": 1_640_995_200_000, "updatedAt": 1_640_995_205_000}


def theirs(result: Any, revision: str = "2025-11-25", ready: int = 3) -> Scripted:
    """A server as erlmcp's documents write one; its only task is ready at that look."""
    looks = 0

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        nonlocal looks
        match message.get("method"):
            case "tasks/create":
                peer.result(message, {"taskId": "task-1"})
            case "tasks/get":
                looks += 1
                status = "processing" if looks < ready else "completed"
                task = {"taskId": "task-1", "status": status, "action": {"type": "x"}, **TIMES}
                peer.result(message, {"task": task})
            case "tasks/list":
                page = {"tasks": [{"taskId": "task-1", "status": "pending", **TIMES}]}
                more = {} if "cursor" in message["params"] else {"cursor": "next"}
                peer.result(message, {**page, **more})
            case "tasks/result":
                if looks < ready:
                    peer.error(message, -32089, "Task result not ready")
                else:
                    peer.result(message, {"result": result})
            case "tasks/cancel":
                peer.result(message, {})
            case "tools/list":
                peer.result(message, {"tools": []})
            case "resources/read":
                peer.result(
                    message,
                    {"contents": [{"type": "text", "text": "Oslo"}, {"type": "image", "data": "YQ=="}]},
                )
            case _:
                pass

    return legacy(answer, revision, **FEATURES)


@pytest.mark.parametrize("dialect", ["official", "erlmcp"])
@run
async def test_a_feature_called_task_management_is_the_capability_for_tasks(dialect: str) -> None:
    target = theirs(text("done"))
    async with Client(target, revision="2025-11-25", dialect=dialect) as client:
        assert client.server_capabilities.has("tasks")
        handle = await client.create_task("sql_query", {"query": "SELECT 1"}, ttl=30_000)
        assert target.peer.heard[-1]["method"] == "tasks/create"
        params = target.peer.heard[-1]["params"]
        # An idle limit applies, of which erlmcp's documents know nothing.
        assert set(params.pop("_meta", {})) == (set() if dialect == "erlmcp" else {"progressToken"})
        assert params == {
            "action": {"type": "sql_query", "parameters": {"query": "SELECT 1"}},
            "metadata": {"timeout": 30_000},
        }
        assert handle.id == "task-1"
        assert await handle.status() == "working"
        assert (await handle.result()).text == "done"
        assert target.peer.methods.count("tasks/get") == 3
        assert [task.task_id for task in await client.list_tasks()] == ["task-1", "task-1"]
        other = client.task("task-1")
        await other.cancel()
        assert (other.id, await other.status()) == ("task-1", "cancelled")


@pytest.mark.parametrize("payload", [{"rows": [1, 2]}, 42, ["a"], None])
@run
async def test_a_result_that_is_none_of_a_tool_is_its_data(payload: Any) -> None:
    async with Client(theirs(payload, ready=1), revision="2025-11-25", dialect="erlmcp") as client:
        handle = await client.call_tool("x", task=True)
        assert (await handle.result()).data == payload


@run
async def test_a_server_without_tasks_is_not_asked_for_one() -> None:
    target = legacy(lambda peer, message: peer.result(message, text("at once")), "2025-11-25")
    async with Client(target, revision="2025-11-25", dialect="erlmcp") as client:
        with pytest.raises(CapabilityError):
            await client.create_task("x")
        assert "tasks/create" not in target.peer.methods
        assert (await (await client.call_tool("x", task=True)).result()).text == "at once"


@run
async def test_no_task_is_made_that_could_not_be_asked_for() -> None:
    target = theirs(text("done"), "2025-06-18")
    async with Client(target, revision="2025-06-18") as client:
        with pytest.raises(ProtocolError, match="tasks/create"):
            await client.create_task("sql_query")
        assert "tasks/create" not in target.peer.methods
    async with Client(target, revision="2025-06-18", dialect="erlmcp") as client:
        assert (await (await client.create_task("sql_query")).result()).text == "done"


@run
async def test_contents_without_an_address_take_the_one_that_was_asked_for() -> None:
    async with Client(theirs(None), revision="2025-11-25", dialect="erlmcp") as client:
        read = await client.read_resource("doc://readme")
        assert [contents.uri for contents in read.contents] == ["doc://readme", "doc://readme"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_what_is_passed_on_names_the_address_too(revision: str) -> None:
    heard = list[bytes]()
    behind = Proxy(theirs(None), revision="2025-11-25", dialect="erlmcp")
    async with Client(behind, revision=revision, on_message=lambda _, data: heard.append(data)) as client:
        await client.read_resource("doc://readme")
    assert heard[-1].count(b'"uri":"doc://readme"') == 2


def build() -> Server:
    server = Server("erl", dialect="erlmcp")

    @server.tool
    async def double(n: int) -> int:
        """Double it."""
        return 2 * n

    @server.tool
    async def broken() -> str:
        """Break."""
        raise ToolError("no luck")

    @server.tool
    async def endless() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return ""

    @server.resource("weather://oslo")
    def oslo() -> str:
        """The weather in Oslo."""
        return "rain"

    return server


@run
async def test_a_client_creates_tasks_at_an_erlmcp_server() -> None:
    async with Client(build(), revision="2025-11-25", dialect="erlmcp") as client:
        assert (await (await client.create_task("double", {"n": 21})).result()).data == 42
        failing = await client.create_task("broken")
        with pytest.raises(ProtocolError) as caught:
            await failing.result()
        assert (caught.value.kind, caught.value.code) == ("task_failed", -32083)
        endless = await client.create_task("endless")
        assert endless.id in [task.task_id for task in await client.list_tasks()]
        await endless.cancel()
        with pytest.raises(ProtocolError) as caught:
            await client.task(str(endless.id)).result()
        assert (caught.value.kind, caught.value.code) == ("task_cancelled", -32084)
        with pytest.raises(ProtocolError) as caught:
            await client.create_task("nobody")
        assert (caught.value.kind, caught.value.code) == ("tool_not_found", -32002)


def test_the_synchronous_client_creates_tasks_too() -> None:
    with SyncClient(build(), revision="2025-11-25", dialect="erlmcp") as client:
        handle = client.create_task("double", {"n": 21})
        assert handle.result().data == 42
        assert [task.task_id for task in client.list_tasks()] == [handle.id]
        assert client.task(str(handle.id)).result().data == 42


CALLBACKS: dict[str, Callable[[list[Any]], Callable[..., Any]]] = {
    "two": lambda told: lambda uri, metadata: told.append((uri, metadata)),
    "named": lambda told: lambda uri, *, metadata=None: told.append((uri, metadata)),
    "all": lambda told: lambda *given: told.append(given),
    "one": lambda told: told.append,
    "optional": lambda told: lambda uri, other="x": told.append((uri, other)),
}
EXPECTED = {"one": "weather://oslo", "optional": ("weather://oslo", "x")}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("dialect", ["official", "erlmcp"])
@pytest.mark.parametrize("shape", CALLBACKS)
@run
async def test_the_metadata_of_an_update_is_sent_on_revisions_that_support_it(
    revision: str, dialect: str, shape: str
) -> None:
    server = build()
    told: list[Any] = []
    heard = asyncio.Event()
    tell = CALLBACKS[shape](told)
    options: dict[str, Any] = {"revision": revision, "dialect": dialect, "on_resource_updated": tell}
    async with Client(server, **options, on_message=lambda *_: heard.set()) as client:
        await client.subscribe_resource("weather://oslo")
        await server.notify_resource_updated("weather://oslo", {"temperature": 7})
        while not told:
            heard.clear()
            await heard.wait()
    assert told == [EXPECTED.get(shape, ("weather://oslo", {"temperature": 7}))]


@run
async def test_model_preferences_of_a_prompt_are_sent_where_the_document_has_them() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "prompts/get":
            peer.result(message, {"messages": []})

    target = legacy(answer, "2025-11-25", prompts={})
    preferences = {"costPriority": "speed", "speedPriority": "balanced", "intelligencePriority": "cost"}
    async with Client(target, revision="2025-11-25", dialect="erlmcp") as client:
        meta = {"dovetail/modelPreferences": preferences}
        await client.get_prompt("code_review", {"language": "python"}, meta=meta)
    assert target.peer.heard[-1]["params"] == {
        "name": "code_review",
        "arguments": {"language": "python"},
        "modelPreferences": preferences,
    }
