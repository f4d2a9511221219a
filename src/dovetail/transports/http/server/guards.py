"""Who may call at all: `Host`, `Origin` and media types, before a body is read.

The rule follows the address the connection came in on. On loopback both headers are enforced, because a web
page the user visits can reach a local server (DNS rebinding). Elsewhere `Host` belongs to whoever runs the
proxy, and only pages of allowed origins may call. A request without `Origin` does not come from a page.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from ....settings import HttpOptions

SINGLE: Final = frozenset(
    {b"host", b"origin", b"content-type", b"content-length", b"mcp-session-id", b"last-event-id"}
)
"""Headers whose second value would be somebody's second opinion. (The routing headers have their own check.)"""
JSON: Final = 1
EVENTS: Final = 2


@functools.lru_cache(maxsize=256)
def is_loopback(host: str | None) -> bool:
    """Whether ``host``, an address or a name, means this machine only."""
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def split_host(value: str) -> str:
    """The name in a ``Host`` header, without the port, in lower case."""
    if value.startswith("["):
        return value.partition("]")[0] + "]"
    return value.partition(":")[0]


class Guard:
    """The decision for one app."""

    def __init__(self, options: HttpOptions) -> None:
        self._hosts = frozenset(host.lower() for host in options.allowed_hosts)
        self._origins = frozenset(origin.lower() for origin in options.allowed_origins)

    def refusal(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str | None:
        """Why this request is refused, naming the setting to change; None if it may pass."""
        server = scope.get("server")
        local: str | None = server[0] if server else None
        return self._host_problem(headers.get(b"host"), local) or self._origin_problem(
            headers.get(b"origin"), local
        )

    def _host_problem(self, value: bytes | None, local: str | None) -> str | None:
        # A unix socket has no address of this kind; no web page can reach it.
        enforced = is_loopback(local) or bool(self._hosts)
        if not enforced:
            return None
        if value is None:
            return "the Host header is missing"
        whole = value.decode("latin-1").strip().lower()
        name = split_host(whole)
        if whole in self._hosts or name in self._hosts or (is_loopback(local) and is_loopback(name)):
            return None
        return "this Host is not served here; add it to allowed_hosts"

    def _origin_problem(self, value: bytes | None, local: str | None) -> str | None:
        if value is None:
            return None
        origin = value.decode("latin-1").strip().lower()
        if origin in self._origins:
            return None
        if is_loopback(local) and is_loopback(split_host(origin.partition("://")[2])):
            return None
        return "pages of this Origin may not call; add it to allowed_origins"

    def allows_origin(self, value: bytes) -> bool:
        """Whether ``value`` is one of the configured origins (for CORS)."""
        return value.decode("latin-1").strip().lower() in self._origins


def doubled(raw: list[tuple[bytes, bytes]]) -> str | None:
    """The name of a header that came twice and must not."""
    seen: set[bytes] = set()
    for name, _ in raw:
        if name in seen and name in SINGLE:
            return name.decode("latin-1")
        seen.add(name)
    return None


def parse_accept(value: bytes | None) -> int:
    """What an ``Accept`` header lets us answer with: `JSON`, `EVENTS`, both or neither."""
    if value is None:
        return JSON | EVENTS
    found = 0
    for part in value.decode("latin-1").lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        if any(piece.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for piece in parameters):
            continue
        if media in ("application/json", "application/*", "*/*"):
            found |= JSON
        if media in ("text/event-stream", "text/*", "*/*"):
            found |= EVENTS
    return found


def is_json(value: bytes | None) -> bool:
    """Whether a ``Content-Type`` says JSON."""
    return value is not None and value.partition(b";")[0].strip().lower() == b"application/json"
