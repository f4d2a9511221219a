"""The old names of `cancellation`, for the HTTP server, until it uses the new ones."""

from __future__ import annotations

from typing import Any

from .cancellation import CancelledCalls


class Stopping(CancelledCalls):
    def __init__(self, account: Any, most: int) -> None:
        super().__init__(most)

    stop = CancelledCalls.cancel
    ended = CancelledCalls.finished
