"""Fetch JSON documents for servers: keys, metadata, introspection, provider tokens. Redirects are not
followed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlencode

import msgspec

from ...errors import DovetailError
from ...transports.http.client.guarded_fetch import AddressGuard, Fetched, guarded_fetch
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from .verifier import Unavailable

DOCUMENT_BYTES: Final = 512 << 10
"""Size limit of a key set, of metadata, and of an introspection response."""
DOCUMENT_SECONDS: Final = 10.0
"""Timeout of one request in seconds, including the response body."""


log = logging.getLogger("dovetail.auth")


async def fetch(
    url: str,
    *,
    guard: AddressGuard,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    limit: int = DOCUMENT_BYTES,
) -> dict[str, Any]:
    """Fetch the JSON object at ``url``, by GET or, with a ``form``, by POST.

    Raises:
        Unavailable: the request failed or returned something else; the log has the details.
    """
    status, found = await ask(url, guard=guard, form=form, headers=headers, limit=limit)
    if status != 200:
        log.warning("document not available url=%s status=%s", url, status)
        raise Unavailable("the authorization server is unavailable")
    return found


async def ask(
    url: str,
    *,
    guard: AddressGuard,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    limit: int = DOCUMENT_BYTES,
) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of a response; an error without JSON has an empty object.

    Raises:
        Unavailable: the request failed or returned something else; the log has the details.
    """
    lines = {"Accept": "application/json", **(headers or {})}
    if form is not None:
        lines["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        answer = await guarded_fetch(
            url,
            guard=guard,
            max_bytes=limit,
            timeout=DOCUMENT_SECONDS,
            method="GET" if form is None else "POST",
            headers=lines,
            body=None if form is None else urlencode(form).encode(),
            check=lambda where: oauth_urls.secure(where, "the document", "authorization server"),
        )
        return answer.status, _read(answer)
    except (DovetailError, OSError) as error:
        log.warning("document not available url=%s: %s", url, error)
        raise Unavailable("the authorization server is unavailable") from None


def _read(answer: Fetched) -> dict[str, Any]:
    if answer.status != 200 and not 400 <= answer.status < 500:
        raise AuthError(f"status {answer.status}", fault="authorization server")
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if answer.status != 200:
            return {}
        raise AuthError("no JSON", fault="authorization server") from None
    if not isinstance(found, dict):
        raise AuthError("no JSON object", fault="authorization server")
    return cast("dict[str, Any]", found)
