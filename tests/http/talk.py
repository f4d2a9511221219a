"""What tests of legacy sessions say and read."""

import json
from collections.abc import AsyncIterator
from typing import Any

from tests.support.schemas import validate
from tests.support.web import (
    Connection,
    Site,
    Web,
    legacy_headers,
    request,
)

NEWEST = "2025-11-25"


SESSIONS = ("2025-03-26", "2025-06-18", NEWEST)


SHOUT = {"name": "shout", "arguments": {"words": "hey"}}


def who(scope: Any) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


async def stream(site: Site, session: str, **headers: str) -> tuple[Connection, Any]:
    """An open GET stream whose head has arrived, and its events."""
    connection = await site.connect()
    connection.request("GET", "/mcp", legacy_headers(NEWEST, session) | headers)
    head = await connection.head()
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
    return connection, connection.events()


async def data(events: Any) -> dict[str, Any]:
    """The next message of a stream; events without one are passed over."""
    async for event in events:
        if event.data is not None:
            message = json.loads(event.data)
            validate(message, NEWEST)
            return message
    raise AssertionError("the stream has ended")


async def begin(
    site: Site, session: str, tool: str, arguments: Any = None, id: Any = "c"
) -> tuple[Any, AsyncIterator[Any]]:
    """Call a tool whose answer is a stream; the connection, and what comes on it."""
    connection = await site.connect()
    body = json.dumps(request("tools/call", {"name": tool, "arguments": arguments or {}}, id=id)).encode()
    connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
    assert (await connection.head()).headers["content-type"] == "text/event-stream"
    return connection, connection.events()


async def post(site: Site, session: str | None, message: Any, revision: str = NEWEST) -> Any:
    return await Web(site).ask("POST", legacy_headers(revision, session), json.dumps(message).encode())


async def resume(site: Site, session: str, last: str) -> tuple[Any, AsyncIterator[Any]]:
    connection = await site.connect()
    connection.request("GET", "/mcp", legacy_headers(NEWEST, session) | {"Last-Event-ID": last})
    assert (await connection.head()).status == 200
    return connection, connection.events()
