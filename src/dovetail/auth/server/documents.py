"""Fetching what servers need (keys, metadata, introspection, a provider's tokens) with bounds on size, time and place.

Redirects are not followed: what an administrator names is where it lies. Addresses that a document names may be no more
private than the one the administrator named, and the connection goes to the addresses that were looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from ...client.fetch import Response
from ...errors import DovetailError
from ..client.guarding import AddressGuard, pinned
from ..core.problems import AuthError
from ..settings import DOCUMENT_BYTES, DOCUMENT_SECONDS
from .verifier import Unavailable

log = logging.getLogger("dovetail.auth")


async def fetch(
    url: str,
    *,
    guard: AddressGuard,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    limit: int = DOCUMENT_BYTES,
) -> dict[str, Any]:
    """The JSON object at ``url``, by GET or, with a ``form``, by POST.

    Raises:
        Unavailable: it cannot be had, or is something else; our log says what.
    """
    status, found = await ask(url, guard=guard, form=form, headers=headers, limit=limit)
    if status != 200:
        log.warning("%s cannot be had: status %s", url, status)
        raise Unavailable("the authorization server cannot be asked now")
    return found


async def ask(
    url: str,
    *,
    guard: AddressGuard,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    limit: int = DOCUMENT_BYTES,
) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object that ``url`` answers with; of other answers than 200 and 4xx nothing is read.

    Raises:
        Unavailable: there is no answer, or none of this kind; our log says what.
    """
    from ...transports.http.client.pool import HttpFetch  # a verifier that has its keys needs no HTTP client

    lines = {"Accept": "application/json", **(headers or {})}
    body = None if form is None else urlencode(form).encode()
    if body is not None:
        lines["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        async with asyncio.timeout(DOCUMENT_SECONDS):
            where = await guard.check(url, "the document", "authorization server")
            async with HttpFetch().session() as plain, pinned(plain, where) as send:
                response = await send("POST" if body is not None else "GET", url, lines, body)
                try:
                    return response.status, await _read(response, limit)
                finally:
                    response.close()
    except (DovetailError, TimeoutError, OSError) as error:
        log.warning("%s cannot be had: %s", url, str(error) or "it took too long")
        raise Unavailable("the authorization server cannot be asked now") from None


async def _read(response: Response, limit: int) -> dict[str, Any]:
    if response.status != 200 and not 400 <= response.status < 500:
        raise AuthError(f"status {response.status}", fault="authorization server")
    body = await response.read(limit)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if response.status != 200:
            return {}
        raise AuthError("no JSON", fault="authorization server") from None
    if not isinstance(found, dict):
        raise AuthError("no JSON object", fault="authorization server")
    return cast("dict[str, Any]", found)
