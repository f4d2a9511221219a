"""The processes that hold leases of tasks: what a dead one held is given back at once by others of its machine.

Those of other machines wait until the leases run out.
"""

from __future__ import annotations

from typing import Final

from ..server.tasks.kept import KeptTasks
from ..stores.base import split
from ..stores.bounds import LEASE_SECONDS
from .processes import ended, passport

_FOLDER: Final = "task-holders"


class Holders:
    """All holders, as one of them sees them."""

    def __init__(self, kept: KeptTasks) -> None:
        self._kept = kept

    async def sign(self, me: str) -> None:
        """Say who we are, for longer than a lease of ours lasts; ``me`` is what our leases call us."""
        await self._kept.store.put(f"{_FOLDER}/{me}", passport(), ttl=3 * LEASE_SECONDS)

    async def bury(self) -> bool:
        """Give back what the dead held; whether there were any."""
        store = self._kept.store
        signs = await store.scan(_FOLDER)
        dead = [split(key)[1] for key, sign in signs if ended(sign)]
        if dead:
            for _, key in await self._kept.unfinished():
                for holder in dead:
                    await store.lease(key, holder, 0)
        for holder in dead:
            await store.delete(f"{_FOLDER}/{holder}")  # last: whoever dies here leaves it to another
        return bool(dead)
