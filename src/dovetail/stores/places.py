"""How many things of a kind one owner may have in a store, and all together: counted without a look at the things.

An owner has so many places, and everything takes one for as long as it is kept: that is one write, however many there
are and whichever process asks. Places lie in drawers, so that the look for a free one stays short when few are left.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..core.principal import Principal
from .base import Store, StoreFull, split

_DRAWER: Final = 256
_DRAWERS: Final = 8
"""Drawers that are looked into: where there are more, a few places may be left when somebody is refused."""
_TRIES: Final = 3
"""Places tried blindly before all that are taken are looked at."""


class Places:
    """The places of one ``kind`` of things: ``own`` for each owner, ``total`` for all."""

    def __init__(self, store: Store, kind: str, *, own: int, total: int) -> None:
        self._store = store
        self._kind = kind
        self._own = own
        self._total = total

    async def take(self, owner: str, ttl: float) -> tuple[str, ...]:
        """Count one thing more; what is returned goes to `renew` and `free`.

        Raises:
            StoreFull: there are as many as there may be.
        """
        folder = f"place/{self._kind}"
        mine = await take_place(self._store, f"{folder}/{owner}", self._own, b"", ttl)
        if mine is None:
            raise StoreFull(self._own, f"{self._kind}s of one owner")
        try:
            common = await take_place(self._store, f"{folder}-all", self._total, b"", ttl)
            if common is None:
                raise StoreFull(self._total, f"{self._kind}s")
        except BaseException:
            await self._store.delete(mine)
            raise
        return mine, common


async def renew(store: Store, places: tuple[str, ...], ttl: float | None) -> None:
    """The thing is kept for ``ttl`` seconds from now on, or for good."""
    for place in places:
        await store.put(place, b"", ttl=ttl)


async def free(store: Store, places: tuple[str, ...]) -> None:
    """The thing is gone."""
    for place in places:
        await store.delete(place)


async def take_place(store: Store, folder: str, count: int, mark: bytes, ttl: float | None) -> str | None:
    """One of the ``count`` places of ``folder`` that nobody has; None where there is none."""
    drawers = -(-count // _DRAWER)

    async def take(numbers: Iterable[int]) -> str | None:
        for number in numbers:
            place = f"{folder}/{number % drawers:x}/{number // drawers:02x}"
            if await store.put(place, mark, ttl=ttl, only_new=True):
                return place
        return None

    place = await take(random.choices(range(count), k=_TRIES))
    for drawer in random.sample(range(drawers), min(drawers, _DRAWERS)):
        if place is None:
            entries = await store.scan(f"{folder}/{drawer:x}", limit=_DRAWER)
            taken = {int(split(key)[1], 16) for key, _ in entries}
            left = [number for number in range(drawer, count, drawers) if number // drawers not in taken]
            place = await take(random.sample(left, len(left)))
    return place


def owner_of(principal: Principal | None, scope: Mapping[str, Any]) -> str:
    """Whose places things take: the principal's or, where there is none, those of the address or of a pipe's end."""
    client = scope.get("client")
    who = network_of(client[0]) if client else ""
    return hashlib.sha256(f"={principal.key}".encode() if principal else who.encode()).hexdigest()[:32]


def network_of(host: str) -> str:
    """Of an IPv6 address the network, since one client has a whole one; an address that hides an IPv4 one is that."""
    from ipaddress import IPv6Address  # few servers ask

    try:
        found = IPv6Address(host)
    except ValueError:
        return host
    return str(found.ipv4_mapped) if found.ipv4_mapped is not None else found.exploded[:19]
