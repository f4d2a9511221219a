"""Signatures of webhooks: the profile of Standard Webhooks that the events extension uses.

A secret is ``whsec_`` and 24 to 64 bytes in base64. The signature covers id, timestamp and the raw body.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Iterable, Mapping
from typing import Final

PREFIX: Final = "whsec_"
SIGNATURE_TOLERANCE: Final = 300.0
"""Seconds by which the time of a delivery may differ from the time here."""
MAX_SIGNATURES: Final = 8
"""Signatures of one delivery that are compared."""


def new_secret() -> str:
    """Make a secret."""
    return PREFIX + base64.b64encode(os.urandom(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """Return the key of a secret. Raises ValueError: it is not a secret of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError("a webhook secret is whsec_ and 24 to 64 bytes in base64")
    return key


def signed_headers(keys: Iterable[bytes], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign ``body`` with each of ``keys``."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(key, id, str(timestamp), body) for key in keys),
    }


def is_signed(key: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether one signature of a delivery is that of ``key``. Header names are in lower case."""
    wanted = _signature(
        key, headers.get("webhook-id", ""), headers.get("webhook-timestamp", ""), body
    ).encode()
    given = headers.get("webhook-signature", "").split(" ", MAX_SIGNATURES)[:MAX_SIGNATURES]
    return any(hmac.compare_digest(wanted, one.encode("utf-8", "replace")) for one in given)


def is_fresh(headers: Mapping[str, str], now: float) -> bool:
    """Whether a delivery was sent just now."""
    text = headers.get("webhook-timestamp", "")
    return (
        text.isascii() and text.isdigit() and len(text) < 16 and abs(int(text) - now) <= SIGNATURE_TOLERANCE
    )


def _signature(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return "v1," + base64.b64encode(digest).decode()
