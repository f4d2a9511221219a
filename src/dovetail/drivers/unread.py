"""Large answers that a peer asked for and does not take: counted among those of all peers, and in the end refused."""

from __future__ import annotations

import asyncio

from ..core.budget import Account, unread
from ..core.channel import Call, Link


class Unread:
    """What one connection holds: reading stops while a peer takes nothing, but calls under way go on."""

    def __init__(self, account: Account) -> None:
        self._account, self._held = account, 0
        self._waiting: asyncio.Task[None] | None = None

    def fitting(self, call: Call, data: bytes, link: Link) -> bytes:
        """``data``, or the refusal to send in its place."""
        if not link.blocked:
            return data
        refusal = unread(self._account, self._held, len(data))
        if refusal is not None:
            return call.codec.encode_error(call.id, refusal)
        self._account.take(len(data))
        self._held += len(data)
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(self._taken(link))
        return data

    async def _taken(self, link: Link) -> None:
        await link.drain()  # returns also when the peer is gone
        self._account.give(self._held)
        self._held, self._waiting = 0, None
