"""Our client and our server over real HTTP, WebSocket, TCP and child processes, on every revision."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.client.connecting.server_cache import ServerCache
from tests.support.waiting import until

from ..support.aio import run
from ..support.waiting import HANG
from .test_calls import REVISIONS, make_server

uvicorn = pytest.importorskip("uvicorn")


@asynccontextmanager
async def serving(server: Server, app: Any = None) -> AsyncIterator[str]:
    """The server's ASGI application on a port of the loopback."""
    config = uvicorn.Config(
        app or server.asgi(), port=0, log_level="error", lifespan="on", ws="websockets-sansio"
    )
    runner = uvicorn.Server(config)
    runner.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    task = asyncio.create_task(runner.serve())
    await until(lambda: runner.started or task.done())
    assert not task.done(), "the server did not start"
    port = runner.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        runner.should_exit = True
        await task


def client(target: Any, revision: str, **options: Any) -> Client:
    return Client(target, revision=revision, server_cache=ServerCache(), **options)


async def exercise(connected: Client, revision: str) -> None:
    """What every combination of transport and revision must be able to do."""
    assert connected.revision == revision
    assert {tool.name for tool in await connected.list_tools()} >= {"add", "book", "write", "where"}
    assert (await connected.call_tool("add", {"a": 1, "b": 2})).data == 3
    seen: list[float] = []
    await connected.call_tool("counting", on_progress=lambda *report: seen.append(report[0]))
    assert seen == [0, 1, 2]
    assert (await connected.read_resource("weather://oslo/now")).contents[0].text == "snow"
    assert (await connected.get_prompt("plan", {"city": "Oslo"})).messages
    assert (await connected.call_tool("write")).text == "Hello!"
    assert (await connected.call_tool("where")).text == "file:///a"
    if revision >= "2025-06-18":
        assert (await connected.call_tool("book")).text == "1A True"
    await connected.ping()


CALLBACKS: dict[str, Any] = {
    "on_elicit": lambda request: {"seat": "1A"},
    "on_sample": lambda request: "Hello!",
    "on_roots": ["file:///a"],
}


@pytest.mark.parametrize("revision", REVISIONS[1:])
@run
async def test_over_streamable_http(revision: str) -> None:
    async with serving(make_server()) as url, client(url, revision, **CALLBACKS) as connected:
        await exercise(connected, revision)


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_over_tcp(revision: str) -> None:
    from dovetail.transports import tcp

    listener = await tcp.listen(make_server().dispatcher)
    host, port = listener.address[:2]
    async with client(f"tcp://{host}:{port}", revision, **CALLBACKS) as connected:
        await exercise(connected, revision)
    await listener.close()


@run
async def test_over_a_unix_socket(tmp_path: Path) -> None:
    from dovetail.transports import tcp

    path = str(tmp_path / "s")
    listener = await tcp.listen(make_server().dispatcher, path=path)
    async with client(f"unix:{path}", "2026-07-28", **CALLBACKS) as connected:
        await exercise(connected, "2026-07-28")
    await listener.close()


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@run
async def test_over_a_child_process(revision: str) -> None:
    root = Path(__file__).parents[2]
    code = "from tests.client.test_calls import make_server; make_server().run()"
    command = [sys.executable, "-c", code]
    async with client(command, revision, cwd=root, **CALLBACKS) as connected:
        await exercise(connected, revision)


@asynccontextmanager
async def reached_over(link: str, server: Server) -> AsyncIterator[Any]:
    """What a client is given to reach the server."""
    from dovetail.transports import tcp

    if link == "memory":
        yield server
    elif link == "tcp":
        listener = await tcp.listen(server.dispatcher)
        host, port = listener.address[:2]
        yield f"tcp://{host}:{port}"
        await listener.close()
    else:
        async with serving(server) as url:
            yield url.replace("http", link)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("link", ["memory", "tcp", "ws", "http"])
@run
async def test_a_task_ends_whose_caller_is_cancelled_as_the_server_names_it(link: str, revision: str) -> None:
    ended = asyncio.Event()
    server = Server("tasks", "1")

    @server.tool(task="required")
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def tap(sender: str, message: bytes) -> None:
        if sender == "server" and b"taskId" in message:
            call.cancel()

    async with reached_over(link, server) as target, client(target, revision, on_message=tap) as connected:
        await connected.list_tools()  # which says that it is called as a task
        call = asyncio.create_task(connected.call_tool("endless"))
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(HANG):
            await ended.wait()


@run
async def test_auto_finds_the_newest_revision_and_two_eras_share_one_url() -> None:
    async with serving(make_server()) as url, client(url, "auto") as modern, client(url, "legacy") as legacy:
        assert (modern.revision, legacy.revision) == ("2026-07-28", "2025-11-25")
        results = await asyncio.gather(
            *(each.call_tool("add", {"a": n, "b": 1}) for n in range(20) for each in (modern, legacy))
        )
        assert [result.data for result in results] == [n + 1 for n in range(20) for _ in range(2)]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_changes_reach_the_client_over_http(revision: str) -> None:
    server = make_server()
    changed: asyncio.Queue[str] = asyncio.Queue()
    updated: asyncio.Queue[str] = asyncio.Queue()
    app = server.asgi()
    async with serving(server, app) as url:
        options = {"on_list_changed": changed.put_nowait, "on_resource_updated": updated.put_nowait}
        async with client(url, revision, **options) as connected:
            await connected.subscribe_resource("weather://oslo/now")
            await until(lambda: app.app.state.streams)  # the legacy GET stream opens automatically
            await server.notify_resource_updated("weather://oslo/now")
            assert await asyncio.wait_for(updated.get(), HANG) == "weather://oslo/now"
            server.remove_tool("broken")
            assert await asyncio.wait_for(changed.get(), HANG) == "tools"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@run
async def test_over_a_websocket(revision: str) -> None:
    async with (
        serving(make_server()) as url,
        client(url.replace("http", "ws"), revision, **CALLBACKS) as connected,
    ):
        await exercise(connected, revision)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18"])
@run
async def test_over_the_old_pair_of_endpoints(revision: str) -> None:
    async with (
        serving(make_server()) as url,
        client(url.replace("/mcp", "/sse"), revision, **CALLBACKS) as connected,
    ):
        await exercise(connected, revision)
