"""Fetching what verifiers need (keys, metadata, introspection) with bounds on size, time and place.

Redirects are not followed: what an administrator names is where it lies. Addresses that a document names may be no more
private than the one the administrator named.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from ...errors import DovetailError
from ..client.guarding import AddressGuard
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
) -> dict[str, Any]:
    """The JSON object at ``url``, by GET or, with a ``form``, by POST.

    Raises:
        Unavailable: it cannot be had, or is something else; our log says what.
    """
    from ...transports.http.client.pool import HttpFetch  # a verifier that has its keys needs no HTTP client

    try:
        await guard.check(url, "the document", "authorization server")
        lines = {"Accept": "application/json", **(headers or {})}
        body = None if form is None else urlencode(form).encode()
        if body is not None:
            lines["Content-Type"] = "application/x-www-form-urlencoded"
        async with HttpFetch().session() as send:
            response = await send("POST" if body is not None else "GET", url, lines, body, DOCUMENT_SECONDS)
            try:
                found = await _read(response)
            finally:
                response.close()
    except (DovetailError, TimeoutError, OSError) as error:
        log.warning("%s cannot be had: %s", url, error)
        raise Unavailable("the authorization server cannot be asked now") from None
    return found


async def _read(response: Any) -> dict[str, Any]:
    if response.status != 200:
        raise AuthError(f"status {response.status}", fault="authorization server")
    async with asyncio.timeout(DOCUMENT_SECONDS):
        body = await response.read(DOCUMENT_BYTES)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AuthError("no JSON", fault="authorization server") from None
    if not isinstance(found, dict):
        raise AuthError("no JSON object", fault="authorization server")
    return cast("dict[str, Any]", found)
