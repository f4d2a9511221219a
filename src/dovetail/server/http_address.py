"""The address of this server as a client of it wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def base_url(scope: Mapping[str, Any]) -> str | None:
    """The URL of the HTTP server in the request of ``scope``; None where it did not arrive over HTTP."""
    host = next((value for name, value in scope.get("headers", ()) if bytes(name).lower() == b"host"), None)
    if host is None:
        return None
    text = host.decode("latin-1") if isinstance(host, bytes) else str(host)
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "http"), scope.get("scheme", "http"))
    return f"{scheme}://{text}{scope.get('root_path', '')}"
