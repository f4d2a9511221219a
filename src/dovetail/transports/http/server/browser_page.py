"""The HTML page that a web browser gets at ``/`` and at the endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from .http_exchange import Exchange, Headers

HTML_TYPE: Final = ("content-type", "text/html; charset=utf-8")
PAGE_HEADERS: Final[Headers] = (
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("vary", "accept"),
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{name}: MCP server</title></head>
<body>
<h1>{name}</h1>
<p>This is a server of the Model Context Protocol (MCP). It is made for MCP clients, not for web browsers.</p>
<p>Give an MCP client this URL: <code>{url}</code></p>
<p>To look at the server in a browser, run: <code>dovetail inspect {url}</code></p>
</body>
</html>
"""


def sent_by_browser(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a person opened this URL in a browser: it asks for HTML, and not for an event stream."""
    accept = headers.get("accept", "").lower()
    return method in ("GET", "HEAD") and "text/html" in accept and "text/event-stream" not in accept


def page(name: str, exchange: Exchange, path: str) -> bytes:
    """Render the page of the server ``name``, whose endpoint has the path ``path``."""
    scheme = exchange.scope.get("scheme", "http")
    mounted_at = exchange.scope.get("root_path", "")
    url = f"{scheme}://{exchange.headers.get('host', 'localhost')}{mounted_at}{path}"
    return _PAGE.format(name=escape(name), url=escape(url)).encode()
