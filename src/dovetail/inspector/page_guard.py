"""Access control of the inspector: only its page, in a browser on this machine, with the token of this run.

The printed link contains the token. The page stores it for its tab and sends it as a header, which pages of other
origins cannot do. Other programs on this machine can see the cookie, so it opens only the empty page.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from ..transports.loopback import is_loopback

TOKEN_HEADER: Final = "x-dovetail-token"
_HOST: Final = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9.-]{1,253})(?::[0-9]{1,5})?")
_HERE: Final = ("", "same-origin", "none")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy of the page: only scripts of the inspector, and no markup from text."""

ALWAYS: Final = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=(), clipboard-write=(self)"),
)


class PageGuard:
    """Checks the requests of one run."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._visit = secrets.token_urlsafe(24)

    def refusal(self, headers: Mapping[str, str], *, navigation: bool) -> str | None:
        """Return why a request is rejected on every path, or None. A link can be followed from other sites."""
        host = headers.get("host", "").strip().lower()
        found = _HOST.fullmatch(host)
        if found is None or not is_loopback(found[1]):
            return "the inspector accepts only loopback names as Host"
        origin = headers.get("origin")
        if origin is not None and origin.strip().lower() != f"http://{host}":
            return "the inspector rejects requests from pages of other origins"
        site = headers.get("sec-fetch-site", "").strip().lower()
        if site not in _HERE and not (navigation and headers.get("sec-fetch-mode") == "navigate"):
            return "the inspector rejects requests from pages of other sites"
        return None

    def knows(self, token: str) -> bool:
        """Return whether the token is correct."""
        return compare_digest(token.encode(), self._token.encode())

    def cookie(self, port: int) -> str:
        """Return the cookie that allows a page to be reloaded; it opens only the empty page."""
        return f"dovetail-inspector-{port}={self._visit}; Path=/; HttpOnly; SameSite=Strict"

    def visited(self, headers: Mapping[str, str]) -> bool:
        """Return whether the headers contain the cookie."""
        parts = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        return any(
            name.startswith("dovetail-inspector-") and compare_digest(value.encode(), self._visit.encode())
            for name, _, value in parts
        )


_SOURCE: Final = re.compile(
    r"(https?|wss?)://(\*\.)?[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?(/[\w.~%/-]{0,200})?", re.ASCII
)


def app_policy(wanted: Mapping[str, object]) -> str:
    """Return the content security policy of an MCP App: its own content, and the domains that it declares."""

    def domains(name: str) -> str:
        given = wanted.get(name)
        listed = [str(one) for one in given] if isinstance(given, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return " ".join(one for one in listed if _SOURCE.fullmatch(one))

    def only(name: str) -> str:
        return domains(name) or "'none'"

    loaded = domains("resourceDomains")
    parts = (
        "sandbox allow-scripts allow-forms", "default-src 'none'", f"script-src 'unsafe-inline' {loaded}",
        f"style-src 'unsafe-inline' {loaded}", f"img-src data: blob: {loaded}", f"font-src data: {loaded}",
        f"media-src data: blob: {loaded}", f"connect-src {only('connectDomains')}", f"frame-src {only('frameDomains')}",
        "object-src 'none'", f"base-uri {only('baseUriDomains')}", "form-action 'none'",
    )  # fmt: skip
    return "; ".join(part.strip() for part in parts)
