"""What tests of legacy sessions say and read."""

import json
from typing import Any

from tests.support.schemas import validate
from tests.support.web import (
    Connection,
    Site,
    legacy_headers,
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
