"""Checks of a header block before the body is read: `Host`, `Origin`, media types and CORS.

The checks depend on the local address of the connection. On loopback both headers are enforced, because a web page that
the user visits can reach a local server (DNS rebinding). On other addresses `Host` is checked only against
`HttpOptions.allowed_hosts`, if that is set, and only pages of allowed origins may call. A request without `Origin` does
not come from a page. ``"*"`` in `allowed_hosts` accepts every Host: hosting platforms forward requests over loopback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from .... import extras
from ....lazy_pattern import lazy_pattern
from ....settings import HttpOptions
from ...loopback import is_loopback
from .http_exchange import CLOSE, TEXT_TYPE, Headers, RequestHeaders

PREFLIGHT_NAMES: Final = 64
"""Header names read of a CORS preflight."""

SINGLE: Final = (
    "host",
    "origin",
    "sec-fetch-site",
    "content-type",
    "content-encoding",
    "content-length",
    "mcp-session-id",
    "last-event-id",
)
"""Headers that may occur only once: a proxy could read another value than the server. `wire.headers` checks others."""
JSON: Final = 1
EVENTS: Final = 2
WORKAROUNDS: Final = {
    JSON: "accept-without-events",
    EVENTS: "accept-without-json",
}  # `middleware.client_workarounds`

AS_IT_IS: Final = (("accept-encoding", "identity"),)
"""The header of a 415 response. RFC 9110, 15.5.16: it should name the supported encodings."""

_INSTALL: Final = (
    f"WebSockets need the websockets package on the server: {extras.install('websockets')}\n".encode()
)
NO_WEBSOCKETS: Final = (501, _INSTALL, CLOSE, TEXT_TYPE)
"""The response to a WebSocket handshake on a server without WebSockets."""

# Exactly what browsers send. A more tolerant parser could read a different host than the browser does.
_PORT: Final = r"[0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_NAME: Final = rf"(\[[0-9a-f:.]{{2,45}}\]|[a-z0-9._-]{{1,253}})(?::(?:{_PORT}))?"
_HOST: Final = lazy_pattern(_NAME)
_ORIGIN: Final = lazy_pattern(rf"https?://{_NAME}")


class Guard:
    """The Host and Origin checks of one app."""

    def __init__(self, options: HttpOptions) -> None:
        self._hosts = frozenset(host.lower() for host in options.allowed_hosts)
        self._origins = frozenset(origin.lower() for origin in options.allowed_origins)

    def refusal(self, local: str, headers: Mapping[str, str]) -> str | None:
        """Why this request is refused, naming the setting to change; None if it may pass.

        ``local`` is the address its connection came in on.
        """
        return self.host_refusal(local, headers) or self.page_refusal(local, headers)

    def host_refusal(self, local: str, headers: Mapping[str, str]) -> str | None:
        """Why a request is refused because of its Host; any page may send it."""
        return self._host_problem(headers.get("host"), local)

    def page_refusal(self, local: str, headers: Mapping[str, str]) -> str | None:
        """Why a request is refused because of the page that sent it; its Host is not checked."""
        origin = headers.get("origin")
        problem = self._origin_problem(origin, local)
        elsewhere = headers.get("sec-fetch-site", "").strip().lower() == "cross-site"
        if problem is None and elsewhere and not (origin is not None and self.allows_origin(origin)):
            # Browsers send Sec-Fetch-Site even without Origin: for links, forms, images and scripts of another site.
            return "pages of other sites may not call; add their Origin to allowed_origins"
        return problem

    def _host_problem(self, value: str | None, local: str) -> str | None:
        # Web pages cannot reach a Unix socket, which has no such address.
        enforced = is_loopback(local) or bool(self._hosts)
        if not enforced or "*" in self._hosts:
            return None
        if value is None:
            return "the Host header is missing"
        whole = value.strip().lower()
        found = _HOST.fullmatch(whole)
        name = None if found is None else found[1]
        if whole in self._hosts or name in self._hosts or (is_loopback(local) and is_loopback(name)):
            return None
        return "this Host is not served here; add it to allowed_hosts"

    def _origin_problem(self, value: str | None, local: str) -> str | None:
        if value is None:
            return None
        origin = value.strip().lower()
        if origin in self._origins:
            return None
        found = _ORIGIN.fullmatch(origin)
        if found is not None and is_loopback(local) and is_loopback(found[1]):
            return None
        return "pages of this Origin may not call; add it to allowed_origins"

    def allows_origin(self, value: str) -> bool:
        """Whether ``value`` is one of the configured origins (for CORS)."""
        return value.strip().lower() in self._origins


def ambiguous(head: RequestHeaders, others: Sequence[str]) -> str | None:
    """Return why a header block is ambiguous: a header of `SINGLE` or ``others`` is repeated or has invalid
    bytes."""
    twice = None if head.plain else head.doubled((*SINGLE, *others))
    return None if twice is None else f"the header {twice} is repeated or contains invalid bytes"


def parse_accept(value: str | None) -> int:
    """The response types that an ``Accept`` header allows: `JSON`, `EVENTS`, both or neither."""
    if value is None:
        return JSON | EVENTS
    found = 0
    for part in value.lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        if any(piece.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for piece in parameters):
            continue
        if media in ("application/json", "application/*", "*/*"):
            found |= JSON
        if media in ("text/event-stream", "text/*", "*/*"):
            found |= EVENTS
    return found


def unreadable(headers: Mapping[str, str]) -> str | None:
    """Why a body of this type cannot be read: it is not JSON, or it is compressed."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "Content-Type must be application/json"
    packed = headers.get("content-encoding", "").strip().lower() not in ("", "identity")
    return "send the body without a Content-Encoding" if packed else None


# --- CORS ---------------------------------------------------------------------------------------------------

METHODS: Final = "POST, GET, DELETE"
_REQUEST_HEADERS: Final = (
    "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, "
    "Mcp-Method, Mcp-Name"
)
_PARAMETER: Final = lazy_pattern(r"mcp-param-[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}", re.ASCII | re.IGNORECASE)


def preflight(headers: Mapping[str, str], methods: str) -> Headers:
    """The headers of the response to a preflight. It allows any ``Mcp-Param-*`` header that the page requests."""
    asked = headers.get("access-control-request-headers", "").split(",")[:PREFLIGHT_NAMES]
    named = [name.strip() for name in asked if _PARAMETER.fullmatch(name.strip())]
    return (
        ("access-control-allow-methods", methods),
        ("access-control-allow-headers", ", ".join([_REQUEST_HEADERS, *named])),
        ("access-control-max-age", "600"),
    )


def permission(origin: str) -> Headers:
    """The CORS headers of every response to a page of ``origin``."""
    return (
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", "Mcp-Session-Id, WWW-Authenticate, Retry-After"),
        ("vary", "Origin"),
    )
