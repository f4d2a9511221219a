"""`get_context`, far from any parameter."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dovetail import Client, Server, StateError, get_context
from dovetail.server import current_call
from tests.support.aio import run


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_call, "wanted", True)


def deep() -> str:
    return get_context().revision


@run
async def test_a_function_below_a_handler_finds_the_context() -> None:
    server = Server("deep")

    @server.tool
    async def direct() -> str:
        return deep()

    @server.tool
    def in_a_thread() -> str:
        return deep()

    @server.tool
    async def in_a_task() -> str:
        async def later() -> str:
            return deep()

        return await asyncio.create_task(later())

    @server.resource("deep://it")
    def read() -> str:
        return deep()

    @server.prompt
    def ask() -> str:
        return deep()

    async with Client(server, revision="2025-11-25") as client:
        for name in ("direct", "in_a_thread", "in_a_task"):
            assert (await client.call_tool(name)).text == "2025-11-25"
        assert (await client.read_resource("deep://it")).contents[0].text == "2025-11-25"
        assert "2025-11-25" in str((await client.get_prompt("ask")).messages[0].content)


@run
async def test_calls_at_the_same_time_each_have_their_own() -> None:
    server = Server("many")
    both = asyncio.Barrier(2)

    @server.tool
    async def me() -> int | str:
        before = get_context().request_id
        await both.wait()
        return str(before == get_context().request_id)

    async with Client(server) as client:
        found = await asyncio.gather(client.call_tool("me"), client.call_tool("me"))
        assert [one.text for one in found] == ["True", "True"]


def test_outside_a_call_there_is_none() -> None:
    with pytest.raises(StateError, match="no call is running here"):
        get_context()
    with ThreadPoolExecutor(1) as pool, pytest.raises(StateError):
        pool.submit(get_context).result()


def test_only_programs_that_import_get_context_track_the_current_context() -> None:
    code = """
from dovetail import Server
from dovetail.server import current_call
before = current_call.wanted
from dovetail import get_context
print(before, current_call.wanted)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
