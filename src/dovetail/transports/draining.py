"""Waiting for a peer that is slow to take what was sent: the inside of `Link.drain`."""

from __future__ import annotations

import asyncio


class Waiters:
    """Whoever waits in `Link.drain` until the peer takes more."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        await future

    def release(self) -> None:
        """It does, or never will: let everybody go on."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)
