"""Responses of the proxy: HTML pages for users, JSON for clients, and redirects."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..core.client_metadata import ProxyClient
from ..core.code_request import CodeRequest
from ..server.verifier_routes import PageAnswer

ANYBODY: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-headers", "authorization, content-type, mcp-protocol-version"),
    ("access-control-allow-methods", "GET, POST"),
    ("cache-control", "no-store"),
)
"""CORS headers for clients that are web pages: these responses need no cookie."""
# No form-action: browsers apply it to later redirects, to the provider and the client.
_NOTHING: Final = "default-src 'none'; base-uri 'none'"
_PAGE: Final = (
    ("content-security-policy", f"{_NOTHING}; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),  # no-referrer would send `Origin: null` with the form
    ("cache-control", "no-store"),
)  # fmt: skip
_STYLE: Final = (
    "body{font:1rem/1.5 sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}b{word-break:break-all}"
)


def json_answer(value: Any, status: int = 200) -> PageAnswer:
    return PageAnswer(status, msgspec.json.encode(value), ANYBODY)


def page(status: int, title: str, content: str, headers: Sequence[tuple[str, str]] = ()) -> PageAnswer:
    """Return a page with the HTML ``content``. Escape values from outside."""
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    body = f"{head}<style>{_STYLE}</style><h1>{html.escape(title)}</h1>{content}"
    return PageAnswer(status, body.encode(), (*_PAGE, *headers), "text/html; charset=utf-8")


def error_page(text: str, status: int = 400, headers: Sequence[tuple[str, str]] = ()) -> PageAnswer:
    return page(status, "This login cannot continue", f"<p>{html.escape(text)}</p>", headers)


def redirect(url: str, headers: Sequence[tuple[str, str]] = (), status: int = 303) -> PageAnswer:
    """Redirect with See Other: the browser does not repeat a POST."""
    lines = (("location", url), ("cache-control", "no-store"), ("referrer-policy", "no-referrer"), *headers)
    return PageAnswer(status, headers=lines)


def consent_page(
    server: str, client: ProxyClient, request: CodeRequest, fields: dict[str, str], action: str, cookie: str
) -> PageAnswer:
    """Return the consent page for ``client``. Unverified metadata is marked as such."""
    name = html.escape(_line(client.name or "An application without a name"))
    proved = (
        f"It is described at <b>{html.escape(client.described_at)}</b>."
        if client.described_at
        else "It registered itself: <em>its name is not verified</em>."
    )
    scopes = "".join(f"<li>{html.escape(scope)}</li>" for scope in request.scopes)
    wants = f"<p>It asks for:</p><ul>{scopes}</ul>" if scopes else ""
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(value)}">' for name, value in fields.items()
    )
    content = (
        f"<p><b>{name}</b> wants to use <b>{html.escape(server)}</b> in your name. {proved}</p>{wants}"
        f"<p>You will be sent back to <b>{html.escape(_place(request.redirect_uri))}</b>.</p>"
        f'<form method="post" action="{html.escape(action)}">{hidden}'
        '<button type="submit" name="decision" value="allow">Allow</button> '
        '<button type="submit" name="decision" value="deny">Deny</button></form>'
    )
    return page(200, "Allow access?", content, (("set-cookie", cookie),))


def _line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text[:100])


def _place(uri: str) -> str:
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" + (
        " (a program on your computer)" if parts.scheme == "http" else ""
    )
