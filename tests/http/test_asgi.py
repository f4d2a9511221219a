"""``server.asgi()`` on any event loop, any number of times, with lifespan events and without."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mangum import Mangum
from starlette.testclient import TestClient

from dovetail import Server
from dovetail.stores import MemoryStore, SqliteStore
from tests.support.web import legacy_headers, modern, modern_headers, request, text

CALL = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
HEADERS = {**modern_headers(CALL), "Host": "127.0.0.1"}
HERE = ("127.0.0.1", 8000)


class Built:
    """A server, and how often its lifespan was entered and left."""

    def __init__(self, **options: Any) -> None:
        self.entered = self.left = 0
        self.server = Server("asgi", lifespan=self._lifespan, **options)

        @self.server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @self.server.tool(task="optional")
        def add_in_thread(a: int, b: int) -> int:
            return a + b

    @asynccontextmanager
    async def _lifespan(self, server: Server) -> AsyncIterator[None]:
        self.entered += 1
        try:
            yield
        finally:
            self.left += 1


def answered(response: Any) -> str:
    assert response.status_code == 200, response.text
    return text(response.json()["result"])


def in_session(client: Any) -> None:
    """Open a legacy session and make a call in it."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    headers = {**legacy_headers(None), "Host": "127.0.0.1"}
    opened = client.post("/mcp", json=request("initialize", params), headers=headers)
    assert opened.status_code == 200, opened.text
    headers = {**legacy_headers("2025-11-25", opened.headers["mcp-session-id"]), "Host": "127.0.0.1"}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert client.post("/mcp", json=ready, headers=headers).status_code == 202
    call = request("tools/call", {"name": "add_in_thread", "arguments": {"a": 1, "b": 2}})
    assert answered(client.post("/mcp", json=call, headers=headers)) == "3"


STORES = {
    "none": lambda path: None,
    "memory": lambda path: MemoryStore(),
    "sqlite": lambda path: SqliteStore(path),
}


@pytest.mark.parametrize("store", STORES)
def test_two_test_clients_in_a_row_are_served(store: str, tmp_path: Any) -> None:
    built = Built(store=STORES[store](tmp_path / "s.db"))
    app = built.server.asgi()
    for number in (1, 2, 3):
        with TestClient(app) as client:
            assert answered(client.post("/mcp", json=CALL, headers=HEADERS)) == "3"
            in_session(client)
            assert client.get("/readyz", headers={"Host": "127.0.0.1"}).text == "ready\n"
        assert (built.entered, built.left) == (number, number)


@pytest.mark.parametrize("store", STORES)
def test_every_request_may_have_an_event_loop_of_its_own(store: str, tmp_path: Any) -> None:
    built = Built(store=STORES[store](tmp_path / "s.db"))
    app = built.server.asgi()

    async def ask() -> None:
        transport = httpx.ASGITransport(app=app, client=HERE)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert answered(await client.post("/mcp", json=CALL, headers=HEADERS)) == "3"

    for number in (1, 2, 3):
        asyncio.run(ask())
        assert built.entered == number
    client = TestClient(app)  # without a block: no lifespan, and a loop for each request
    for _ in range(2):
        assert answered(client.post("/mcp", json=CALL, headers=HEADERS)) == "3"


def test_an_event_loop_that_was_closed_with_everything_on_it_is_forgotten() -> None:
    built = Built()
    app = built.server.asgi()

    async def ask() -> None:
        transport = httpx.ASGITransport(app=app, client=HERE)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert answered(await client.post("/mcp", json=CALL, headers=HEADERS)) == "3"

    with warnings.catch_warnings(action="ignore"):  # tasks of a closed loop cannot end properly
        for number in (1, 2):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(ask())
            loop.close()
            assert built.entered == number


@pytest.mark.parametrize("lifespan", ["auto", "off"])
def test_mangum_serves_one_request_after_the_other(lifespan: Any) -> None:
    built = Built()
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    handler = Mangum(built.server.asgi(), lifespan=lifespan)
    try:
        for _ in range(3):
            event = {
                "version": "2.0",
                "routeKey": "$default",
                "rawPath": "/mcp",
                "rawQueryString": "",
                "headers": {name.lower(): value for name, value in HEADERS.items()},
                "requestContext": {
                    "http": {
                        "method": "POST",
                        "path": "/mcp",
                        "sourceIp": "127.0.0.1",
                        "protocol": "HTTP/1.1",
                    },
                    "stage": "$default",
                },
                "body": json.dumps(CALL),
                "isBase64Encoded": False,
            }
            response = handler(event, None)  # type: ignore[arg-type]
            assert response["statusCode"] == 200, response
            assert text(json.loads(response["body"])["result"]) == "3"
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def test_a_test_client_opens_a_websocket() -> None:
    app = Built().server.asgi(allowed_hosts=("testserver",))
    with TestClient(app) as client, client.websocket_connect("/mcp", subprotocols=["mcp"]) as socket:
        assert socket.accepted_subprotocol == "mcp"
        socket.send_text(json.dumps(CALL))
        assert text(json.loads(socket.receive_text())["result"]) == "3"
