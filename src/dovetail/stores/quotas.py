"""How much of a kind one owner may have in a store, and all together: counted without a look at the things.

An owner has so many places, and everything takes one for as long as it is kept, or several if it is large: that is a
write for each, however many there are and whichever process asks. So what is counted is bytes as well. Places lie in
drawers, so that the look for a free one stays short when few are left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ..core.channel import Call, Notice
from ..core.principal import Principal
from .base import Store, StoreFull, split
from .store_limits import PLACE_BYTES, PLACE_DRAWER, PLACE_DRAWERS, PLACE_TRIES


class Places:
    """The places of one ``kind`` of things: ``own`` for each owner, ``total`` for all.

    With ``within`` owners belong to somebody, such as sessions to an address, who gets half of all at most.
    """

    def __init__(self, store: Store, kind: str, *, own: int, total: int, within: str | None = None) -> None:
        self._store = store
        self._kind = kind
        self._own = own
        self._total = total
        self._within = within

    async def take(self, owner: str, ttl: float | None, size: int = 0) -> tuple[str, ...]:
        """Count one thing more, of ``size`` bytes; what is returned goes to `renew`, `fit` and `free`.

        Raises:
            StoreFull: there is as much as there may be.
        """
        return await self.fit(owner, (), ttl, size)

    async def fit(self, owner: str, places: tuple[str, ...], ttl: float | None, size: int) -> tuple[str, ...]:
        """The places of a thing that is to have ``size`` bytes and has ``places`` now.

        Whoever has then written the thing must `free` those that it needs no more; else those that are new.

        Raises: as `take`.
        """
        levels = self._levels(owner)
        count = len(levels) * (1 + size // PLACE_BYTES)
        taken: list[str] = []
        try:
            for number in range(len(places), count):
                folder, most, what = levels[number % len(levels)]
                place = await take_place(self._store, folder, most, b"", ttl)
                if place is None:
                    raise StoreFull(most, what)
                taken.append(place)
        except BaseException:
            await free(self._store, taken)
            raise
        return (*places, *taken)[:count]

    def _levels(self, owner: str) -> list[tuple[str, int, str]]:
        folder, things = f"place/{self._kind}", f"{self._kind}s"
        levels = [(f"{folder}/{owner}", self._own, f"{things} of one owner")]
        if self._within is not None:
            levels.append((f"{folder}-of/{self._within}", self._total // 2, f"{things} of one address"))
        return [*levels, (f"{folder}-all", self._total, things)]


def holder(places: tuple[str, ...]) -> str:
    """Whose places these are."""
    return places[0].split("/")[2]


async def renew(store: Store, places: tuple[str, ...], ttl: float | None) -> None:
    """The thing is kept for ``ttl`` seconds from now on, or for good."""
    for place in places:
        await store.put(place, b"", ttl=ttl)


async def free(store: Store, places: Iterable[str]) -> None:
    """The thing is gone."""
    for place in places:
        await store.delete(place)


async def take_place(store: Store, folder: str, count: int, mark: bytes, ttl: float | None) -> str | None:
    """One of the ``count`` places of ``folder`` that nobody has; None where there is none."""
    import random  # it takes time to load

    drawers = -(-count // PLACE_DRAWER)

    async def take(numbers: Iterable[int]) -> str | None:
        for number in numbers:
            place = f"{folder}/{number % drawers:x}/{number // drawers:02x}"
            if await store.put(place, mark, ttl=ttl, only_new=True):
                return place
        return None

    place = await take(random.choices(range(count), k=PLACE_TRIES))
    for drawer in random.sample(range(drawers), min(drawers, PLACE_DRAWERS)):
        if place is None:
            entries = await store.scan(f"{folder}/{drawer:x}", limit=PLACE_DRAWER)
            taken = {int(split(key)[1], 16) for key, _ in entries}
            left = [number for number in range(drawer, count, drawers) if number // drawers not in taken]
            place = await take(random.sample(left, len(left)))
    return place


def owner_of(principal: Principal | None, scope: Mapping[str, Any]) -> str:
    """Whose places things take: the principal's or, where there is none, those of the address or of a pipe's end."""
    client = scope.get("client")
    who = network_of(client[0]) if client else ""
    return hashlib.sha256(f"={principal.key}".encode() if principal else who.encode()).hexdigest()[:32]


def client_of(call: Call | Notice) -> Hashable:
    """Whoever can be told apart: the principal, the session, the address, or the one peer there is."""
    who = call.principal
    if who is not None:
        return who.subject if who.issuer is None else (who.issuer, who.subject)
    session = call.session
    if session is not None:
        return session.id or id(session)
    client = call.scope.get("client")
    if not client:
        return ""
    return network_of(client[0]) if ":" in client[0] else client[0]


def network_of(host: str) -> str:
    """Of an IPv6 address the network, since one client has a whole one; an address that hides an IPv4 one is that."""
    from ipaddress import IPv6Address  # few servers ask

    try:
        found = IPv6Address(host)
    except ValueError:
        return host
    return str(found.ipv4_mapped) if found.ipv4_mapped is not None else found.exploded[:19]
