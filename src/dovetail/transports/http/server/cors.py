"""What browsers want to hear before pages of the allowed origins may call. Only where it is configured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .asgi import Headers, Message, Send

METHODS: Final = b"POST, GET, DELETE"
_REQUEST_HEADERS: Final = (
    b"Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, "
    b"Mcp-Method, Mcp-Name"
)
_PARAMETER: Final = re.compile(rb"mcp-param-[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}", re.IGNORECASE)
_MOST: Final = 64


def preflight(headers: Mapping[bytes, bytes]) -> Headers:
    """The answer to a preflight. Which ``Mcp-Param-*`` headers there are only the page knows."""
    asked = headers.get(b"access-control-request-headers", b"").split(b",")[:_MOST]
    named = [name.strip() for name in asked if _PARAMETER.fullmatch(name.strip())]
    return [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", b", ".join([_REQUEST_HEADERS, *named])),
        (b"access-control-max-age", b"600"),
    ]


def with_cors(send: Send, origin: bytes) -> Send:
    """``send``, with the permission for ``origin`` in the head of the response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message["headers"],
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate, Retry-After"),
                (b"vary", b"Origin"),
            ]
        await send(message)

    return sending
