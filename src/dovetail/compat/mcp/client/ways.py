"""A way to a server: what ``stdio_client()`` and its kin yield, for a `ClientSession` between the two ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Way(Struct, frozen=True, eq=False):
    """Where the server is; both ends of what theirs yield. A `ClientSession` opens it."""

    target: Any
    options: Mapping[str, Any] = {}

    async def aclose(self) -> None:
        """Nothing is open until a session is."""
