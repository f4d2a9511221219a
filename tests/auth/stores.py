"""Stores that fail when a test wants them to."""

import asyncio
from typing import Any

from dovetail.stores import MemoryStore, StoreFull


class FullStore(MemoryStore):
    """Takes nothing more while it is ``full``."""

    full = False

    async def put(self, key: str, value: bytes, **options: Any) -> bool:
        if self.full:
            raise StoreFull(1, "entries")
        return await super().put(key, value, **options)


class SlowStore(MemoryStore):
    """Answers for a login, once, when it is let: with what was there when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.slow = False

    async def get(self, key: str) -> bytes | None:
        found = await super().get(key)
        if self.slow and key.startswith("oauth/login/"):
            self.slow = False
            self.asked.set()
            await self.go_on.wait()
        return found
