"""A way to a server: what ``stdio_client()`` and its kin yield, for a `ClientSession` between the two ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct


class Way(Struct, frozen=True, eq=False):
    """Where the server is; both ends of what theirs yield. A `ClientSession` opens it."""

    target: Any
    options: Mapping[str, Any] = {}
    silence: float | None = None
    """Seconds that the server may say nothing while an answer is awaited; None is for ever, as over their stdio."""

    async def aclose(self) -> None:
        """Nothing is open until a session is."""


def seconds(limit: float | timedelta) -> float:
    """A limit as SDK 1.x takes it, older ones as a number."""
    return limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
