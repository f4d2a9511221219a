"""Large answers on their way to a peer: counted among those of all peers until it has taken them, or refused."""

from __future__ import annotations

from ..core.budget import Account, unread
from ..core.channel import Call, Link


class Unread:
    """What one connection holds: reading stops while a peer takes nothing, but calls under way go on."""

    def __init__(self, account: Account) -> None:
        self._account, self._held = account, 0

    async def send(self, call: Call, data: bytes, link: Link) -> None:
        """Send ``data`` behind what was not taken yet, or the refusal in its place; returns once it is taken."""
        account, size = self._account, len(data)
        # One alone may be as large as it likes; those of an array were counted when they gathered.
        refusal = unread(account, self._held, size) if account.taken and call.batch is None else None
        if refusal is not None:
            link.send(call.codec.encode_error(call.id, refusal))
            return
        account.taken += size
        self._held += size
        try:
            if link.blocked:
                await link.drain()  # returns also when the peer is gone
            link.send(data)
            if link.blocked:
                await link.drain()
        finally:
            account.give(size)
            self._held -= size
