"""Below a prefix, in other people's applications, with a lifespan and without."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount

from dovetail import Server
from tests.support.aio import run
from tests.support.everything import build
from tests.support.waiting import until
from tests.support.web import Connection, Web, legacy_headers, messages, text


class Elsewhere:
    """The URL of another library's application."""

    def __init__(self, address: Any) -> None:
        self.address = address

    async def connect(self) -> Connection:
        return Connection(*await asyncio.open_connection(*self.address))


@asynccontextmanager
async def mounted(application: Any) -> AsyncIterator[Any]:
    """Another library's application, run by a host in another program."""
    config = uvicorn.Config(application, log_level="warning", access_log=False)
    host = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(host.serve(sockets=[listener]))
        await until(lambda: host.started or task.done())
        try:
            yield Elsewhere(listener.getsockname())
        finally:
            host.should_exit = True
            await task


def in_starlette(app: Any) -> Any:
    return Starlette(routes=[Mount("/api", app)])


def in_fastapi(app: Any) -> Any:
    host = FastAPI()
    host.mount("/api", app)
    return host


def in_middleware(app: Any) -> Any:
    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    host = Starlette(routes=[Mount("/api", app)])
    host.add_middleware(BaseHTTPMiddleware, dispatch=passing)
    return host


@pytest.mark.parametrize("mount", [in_starlette, in_fastapi, in_middleware])
def test_an_app_works_below_a_prefix_without_a_lifespan_of_its_own(mount: Any) -> None:
    @run
    async def scenario() -> None:
        entered: list[str] = []

        @asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[str]:
            entered.append("started")
            yield "ready"
            entered.append("stopped")

        server = build(lifespan=lifespan)
        app = server.asgi()
        async with mounted(mount(app)) as site:
            web = Web(site, "/api/mcp")
            assert entered == []  # the host does not pass its lifespan on
            assert text(await web.call("shout", words="hey")) == "HEY"
            assert entered == ["started"]
            found = await web.modern("tools/call", {"name": "count"}, meta={"progressToken": 1})
            assert len(messages(found.body)) == 4
            session, _ = await web.initialize("2025-11-25")
            assert (await web.legacy("2025-11-25", session, "ping")).status == 200
            assert (await web.ask("DELETE", legacy_headers("2025-11-25", session))).status == 204
            assert (await web.ask("GET", {}, path="/api/livez")).status == 200
            assert (await web.ask("GET", {}, path="/mcp")).status == 404
            async with await site.connect() as connection:
                connection.request("GET", "/api/sse", {})
                await connection.head()
                first = await anext(connection.events())
                assert first.data.startswith(b"/api/messages?session_id=")
                ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
                posted = await web.ask(
                    "POST", {"Content-Type": "application/json"}, ping, path=first.data.decode()
                )
                assert posted.status == 202
            await app.drain(0)
            await server.lifecycle.stop()
            assert entered == ["started", "stopped"]

    scenario()


@run
async def test_an_app_can_be_the_whole_of_its_prefix() -> None:
    server = build()
    app = server.asgi(path="/")
    async with mounted(Starlette(routes=[Mount("/mcp", app)])) as site:
        assert text(await Web(site, "/mcp/").call("shout", words="x")) == "X"
        await app.drain(0)


@run
async def test_the_host_may_run_the_servers_lifespan() -> None:
    server = build()
    app = server.asgi()

    @asynccontextmanager
    async def lifespan(host: Any) -> AsyncIterator[None]:
        async with server.running():
            yield
        await app.drain(0)

    async with mounted(Starlette(routes=[Mount("/api", app)], lifespan=lifespan)) as site:
        assert text(await Web(site, "/api/mcp").call("shout", words="x")) == "X"


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("", "/mcp", 200),
        ("/api", "/api/mcp", 200),
        ("/api", "/mcp", 200),  # hosts that have cut the prefix off already
        ("/api/", "/api/mcp", 200),
        ("/m", "/mcp", 200),
        ("/api", "/apimcp", 404),
        ("/api", "/api", 404),
    ],
)
def test_hosts_differ_in_what_path_means(root: str, path: str, status: int) -> None:
    @run
    async def scenario() -> None:
        app = build().asgi()
        sent: list[Any] = []
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}

        async def receive() -> Any:
            return {"type": "http.request", "body": json.dumps(message).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"mcp-protocol-version", b"2026-07-28"),
            (b"mcp-method", b"tools/list"),
        ]
        for _ in range(2):
            scope = {"type": "http", "method": "POST", "path": path, "root_path": root, "headers": headers}
            await app({**scope, "server": ("127.0.0.1", 1)}, receive, send)
            assert sent[-2]["status"] == status
        await app.drain(0)

    scenario()
