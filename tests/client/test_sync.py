"""The synchronous client: in a script, in threads, and inside a running loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dovetail import Client as AsyncClient
from dovetail import Context, Server, ToolError
from dovetail.errors import StateError
from dovetail.sync import Client
from tests.support.waiting import HANG


def make_server() -> Server:
    server = Server("sync")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def broken() -> str:
        raise ToolError("no")

    @server.tool
    async def book(ctx: Context) -> str:
        answer = await ctx.elicit("Seat?", {"type": "object", "properties": {"seat": {"type": "string"}}})
        return str(answer.data["seat"])

    return server


def test_everything_without_await() -> None:
    with Client(make_server()) as client:
        assert client.state == "ready"
        assert client.revision == "2026-07-28"
        assert {tool.name for tool in client.list_tools()} == {"add", "broken", "book"}
        assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
        assert client.ping() >= 0
        with pytest.raises(ToolError):
            client.call_tool("broken")
        handle = client.call_tool("add", {"a": 1, "b": 1}, task=True)
        assert handle.result().data == 2
    assert client.state == "closed"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_callbacks_are_plain_functions_in_other_threads(revision: str) -> None:
    threads: list[str] = []

    def on_elicit(request: Any) -> dict[str, str]:
        threads.append(threading.current_thread().name)
        return {"seat": "7C"}

    with Client(make_server(), revision=revision, on_elicit=on_elicit) as client:
        assert client.call_tool("book").text == "7C"
    assert threads
    assert threads[0] not in ("MainThread", "dovetail")


def test_many_threads_may_use_one_client() -> None:
    with Client(make_server()) as client, ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda n: client.call_tool("add", {"a": n, "b": 1}).data, range(50))
        assert list(results) == list(range(1, 51))


def test_it_works_inside_a_running_loop() -> None:
    async def notebook() -> int:
        with Client(make_server()) as client:
            return client.call_tool("add", {"a": 20, "b": 22}).data

    assert asyncio.run(notebook()) == 42


def test_closed_means_closed_and_twice_is_fine() -> None:
    client = Client(make_server())
    with pytest.raises(StateError):
        client.list_tools()
    client.open()
    client.close()
    client.close()
    with pytest.raises(StateError):
        client.call_tool("add", {"a": 1, "b": 1})
    with client:
        assert client.call_tool("add", {"a": 1, "b": 1}).data == 2


def test_no_thread_remains() -> None:
    before = threading.active_count()
    with Client(make_server()):
        assert threading.active_count() > before
    assert not [thread for thread in threading.enumerate() if thread.name == "dovetail"]


def test_a_failed_open_leaves_nothing() -> None:
    with pytest.raises(Exception, match="no-such-program"), Client(["no-such-program-anywhere"]):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "dovetail"]


def test_an_unreferenced_client_closes_itself() -> None:
    before = threading.active_count()
    client = Client(make_server())
    client.open()
    assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
    thread = next(thread for thread in threading.enumerate() if thread.name == "dovetail")
    del client
    gc.collect()
    thread.join(HANG)
    assert not thread.is_alive()
    assert threading.active_count() <= before


FOR_PROXIES = {"follow_task", "forward", "keep_unknown"}
"""What only proxies use, which have an event loop of their own."""


def test_every_method_and_property_of_the_client_is_there() -> None:
    ours = {name for name in dir(Client) if not name.startswith("_")}
    theirs = {name for name in dir(AsyncClient) if not name.startswith("_")}
    assert theirs - FOR_PROXIES <= ours
