"""Requests without a known caller or session, and requests during shutdown."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from dovetail import Server
from dovetail.errors import ProtocolError, Refusal
from dovetail.transports.http.server.asgi import AsgiApp
from tests.support.aio import run
from tests.support.everything import build
from tests.support.waiting import until
from tests.support.web import BOTH, Web, legacy_headers, modern, modern_headers, served

NEWEST = "2025-11-25"
ERLMCP = {"dialect": {"name": "erlmcp"}}
"""What a client declares under ``experimental`` to be spoken to in that dialect."""


def failing(scope: Any) -> str | None:
    raise RuntimeError("the password of the directory is hunter2")


@run
async def test_a_principal_function_that_fails_gives_500_without_details() -> None:
    logging.getLogger("dovetail").setLevel(logging.CRITICAL)
    try:
        async with served(build(), principal=failing) as site:
            web = Web(site)
            message = modern("tools/list")
            body = json.dumps(message).encode()
            for found in (
                await web.ask("POST", modern_headers(message), body),
                await web.ask("POST", modern_headers(message), body),
                await web.ask("GET", legacy_headers(NEWEST, "x")),
                await web.ask("GET", {"Accept": BOTH}, path="/sse"),
            ):
                assert found.status == 500
                assert found.message["error"]["code"] == -32603
                assert b"hunter2" not in found.body
    finally:
        logging.getLogger("dovetail").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("error", "status"),
    [(Refusal(1005), 403), (Refusal(1003, retry_after=3), 429), (ProtocolError("unknown_error"), 403)],
)
def test_a_principal_that_refuses_never_answers_with_200(error: Exception, status: int) -> None:
    def refusing(scope: Any) -> str | None:
        raise error

    @run
    async def scenario() -> None:
        async with served(build(), principal=refusing) as site:
            assert (await Web(site).modern("tools/list")).status == status

    scenario()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(RuntimeError("hunter2"), 500, 1011), (ProtocolError("invalid_token"), 401, 1008)],
)
def test_an_orphaned_socket_is_refused(error: Exception, status: int, code: int) -> None:
    def refusing(scope: Any) -> str | None:
        raise error

    @run
    async def scenario() -> None:
        async with served(build(), principal=refusing) as site:
            with pytest.raises(InvalidStatus) as caught:
                async with connect(f"ws://127.0.0.1:{site.port}/mcp"):
                    pass
            assert caught.value.response.status_code == status
            assert b"hunter2" not in (caught.value.response.body or b"")
            assert await plain_handshake(AsgiApp(site.app)) == code

    scenario()


async def handshake(app: Any, extensions: dict[str, Any]) -> list[Any]:
    """What the app answers to the handshake of a host with these extensions."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1")]
    scope = {
        "type": "websocket",
        "path": "/mcp",
        "headers": headers,
        "server": None,
        "extensions": extensions,
    }
    await app(scope, receive, send)
    return sent


async def plain_handshake(app: Any) -> int:
    """The code a host gets that cannot answer a handshake with a status."""
    sent = await handshake(app, {})
    assert [message["type"] for message in sent] == ["websocket.close"]
    return sent[0]["code"]


@run
async def test_a_server_that_does_not_start_turns_sockets_away_and_says_why_in_its_log_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        raise RuntimeError("the password of the database is hunter2")
        yield

    app = Server("broken", lifespan=lifespan).asgi()
    for extensions in ({}, {"websocket.http.response": {}}):
        caplog.clear()
        sent = await handshake(app, extensions)
        assert "hunter2" not in str(sent)
        assert "hunter2" in caplog.text
        if extensions:
            assert sent[0]["status"] == 500
        else:
            assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1011)]
    assert not app.app.state.started


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'[{"jsonrpc":"2.0","method":"notifications/initialized"}]',
    ],
)
def test_without_a_session_notifications_and_answers_are_400(body: bytes) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            found = await Web(site).ask("POST", legacy_headers(NEWEST), body)
            assert (found.status, found.message["error"]["code"]) == (400, -32600)
        async with served(build(), stateless=True) as site:
            found = await Web(site).ask("POST", legacy_headers("2025-03-26"), body)
            # "If the server cannot accept the input, it MUST return an HTTP error status code": nothing was asked.
            assert found.status == (400 if b"result" in body else 202)

    scenario()


@run
async def test_a_session_that_was_shut_down_is_unknown_afterwards() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST, experimental=ERLMCP)
        assert (await web.legacy(NEWEST, session, "shutdown")).message["result"] == {}
        assert (await web.legacy(NEWEST, session, "ping")).status == 404
        session, _ = await web.initialize("2025-03-26", experimental=ERLMCP)
        batch = b'[{"jsonrpc":"2.0","id":1,"method":"shutdown"},{"jsonrpc":"2.0","id":2,"method":"ping"}]'
        assert (await web.ask("POST", legacy_headers("2025-03-26", session), batch)).status == 200
        assert (await web.legacy("2025-03-26", session, "ping")).status == 404
        assert len(site.app.session_handler.sessions) == 0


def patient() -> tuple[Server, asyncio.Event]:
    """A server with a tool that finishes when the event is set."""
    server, release = build(), asyncio.Event()

    @server.tool
    async def finish() -> str:
        await release.wait()
        return "done"

    return server, release


@run
async def test_what_runs_when_a_session_is_shut_down_may_finish() -> None:
    server, release = patient()
    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST, experimental=ERLMCP)
        running = asyncio.create_task(web.legacy(NEWEST, session, "tools/call", {"name": "finish"}))
        await until(lambda: site.app.state.running)
        assert (await web.legacy(NEWEST, session, "shutdown")).status == 200
        release.set()
        assert "done" in str((await running).message["result"])
        assert (await web.legacy(NEWEST, session, "ping")).status == 404


@run
async def test_a_notification_shuts_a_session_down_as_a_request_does() -> None:
    server, release = patient()
    async with served(server) as site:
        web = Web(site)
        note = b'{"jsonrpc":"2.0","method":"shutdown"}'
        for revision, body in ((NEWEST, note), ("2025-03-26", b"[" + note + b"]")):
            session, _ = await web.initialize(revision, experimental=ERLMCP)
            assert (await web.ask("POST", legacy_headers(revision, session), body)).status == 202
            assert (await web.legacy(revision, session, "ping")).status == 404
        session, _ = await web.initialize(NEWEST, experimental=ERLMCP)
        running = asyncio.create_task(web.legacy(NEWEST, session, "tools/call", {"name": "finish"}))
        await until(lambda: site.app.state.running)
        for _ in range(2):
            assert (await web.ask("POST", legacy_headers(NEWEST, session), note)).status == 202
        refused = (await web.legacy(NEWEST, session, "tools/list")).message["error"]
        assert refused["code"] == 1008
        release.set()
        assert "done" in str((await running).message["result"])
        assert (await web.legacy(NEWEST, session, "ping")).status == 404
        assert len(site.app.session_handler.sessions) == 0
