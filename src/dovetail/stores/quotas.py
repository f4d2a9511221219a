"""`Quota`: limit what one owner, and all owners together, may keep in a store.

Each limit is a fixed number of slots, and each slot is a key in the store. An entry occupies one slot plus
one for every `BYTES_PER_SLOT` bytes. Acquiring a slot is one conditional write, so the cost does not depend
on the number of entries or processes. Slots are grouped into buckets, so that finding a free one stays fast
when few are left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from ..core.channel import Call, Notice
from ..core.principal import Principal
from .base import Store, StoreFull, split

BYTES_PER_SLOT: Final = 64 << 10
"""Bytes of a stored entry that one quota slot covers."""
SLOT_LIFETIME: Final = 30 * 86_400.0
"""A slot expires if its entry is not written for this long."""
SLOTS_PER_BUCKET: Final = 256
"""Slots in one bucket of a quota."""
MAX_BUCKET_SCANS: Final = 8
"""Buckets that are searched for a free slot. With more buckets, a few free slots may be missed."""
RANDOM_SLOT_TRIES: Final = 3
"""Random slots that are tried before buckets are searched."""


class Quota:
    """Limit entries of one ``kind``: ``own`` slots per owner, ``total`` slots for all.

    With ``within``, owners are also grouped (for example sessions by address): one group may use half of the
    total.
    """

    def __init__(self, store: Store, kind: str, *, own: int, total: int, within: str | None = None) -> None:
        self._store = store
        self._kind = kind
        self._own = own
        self._total = total
        self._within = within

    async def acquire(self, owner: str, ttl: float | None, size: int = 0) -> tuple[str, ...]:
        """Acquire slots for a new entry of ``size`` bytes. Pass them to `renew`, `resize` and `release`
        later.

        Raises:
            StoreFull: the quota is used up.
        """
        return await self.resize(owner, (), ttl, size)

    async def resize(
        self, owner: str, slots: tuple[str, ...], ttl: float | None, size: int
    ) -> tuple[str, ...]:
        """Return the slots for an entry of ``size`` bytes that holds ``slots`` now.

        After a successful write, `release` the slots that are no longer needed; after a failed one, the new
        slots.

        Raises:
            StoreFull: the quota is used up.
        """
        levels = self._levels(owner)
        count = len(levels) * (1 + size // BYTES_PER_SLOT)
        taken: list[str] = []
        try:
            for number in range(len(slots), count):
                folder, most, what = levels[number % len(levels)]
                slot = await acquire_slot(self._store, folder, most, b"", ttl)
                if slot is None:
                    raise StoreFull(most, what)
                taken.append(slot)
        except BaseException:
            await release(self._store, taken)
            raise
        return (*slots, *taken)[:count]

    def _levels(self, owner: str) -> list[tuple[str, int, str]]:
        folder, things = f"place/{self._kind}", f"{self._kind}s"
        levels = [(f"{folder}/{owner}", self._own, f"{things} of one owner")]
        if self._within is not None:
            levels.append((f"{folder}-of/{self._within}", self._total // 2, f"{things} of one address"))
        return [*levels, (f"{folder}-all", self._total, things)]


def owner_of_slots(slots: tuple[str, ...]) -> str:
    """Return the owner of ``slots``."""
    return slots[0].split("/")[2]


async def renew(store: Store, slots: tuple[str, ...], ttl: float | None) -> None:
    """Extend the slots to ``ttl`` seconds from now, or indefinitely."""
    for slot in slots:
        await store.put(slot, b"", ttl=ttl)


async def release(store: Store, slots: Iterable[str]) -> None:
    """Release slots whose entry was removed."""
    for slot in slots:
        await store.delete(slot)


async def acquire_slot(store: Store, folder: str, count: int, mark: bytes, ttl: float | None) -> str | None:
    """Acquire a free slot out of ``count`` in ``folder``. Return None if none is free."""
    import random  # slow to import

    buckets = -(-count // SLOTS_PER_BUCKET)

    async def take(numbers: Iterable[int]) -> str | None:
        for number in numbers:
            slot = f"{folder}/{number % buckets:x}/{number // buckets:02x}"
            if await store.put(slot, mark, ttl=ttl, only_new=True):
                return slot
        return None

    slot = await take(random.choices(range(count), k=RANDOM_SLOT_TRIES))
    for bucket in random.sample(range(buckets), min(buckets, MAX_BUCKET_SCANS)):
        if slot is None:
            entries = await store.scan(f"{folder}/{bucket:x}", limit=SLOTS_PER_BUCKET)
            taken = {int(split(key)[1], 16) for key, _ in entries}
            left = [number for number in range(bucket, count, buckets) if number // buckets not in taken]
            slot = await take(random.sample(left, len(left)))
    return slot


def quota_owner(principal: Principal | None, scope: Mapping[str, Any]) -> str:
    """Return the quota owner: a hash of the principal or, without one, of the client address."""
    client = scope.get("client")
    who = network_of(client[0]) if client else ""
    return hashlib.sha256(f"={principal.key}".encode() if principal else who.encode()).hexdigest()[:32]


def client_key(call: Call | Notice) -> Hashable:
    """Return the identity that limits count by: principal, session, address, or the single peer of a pipe."""
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
    """Return the /64 network of an IPv6 address, and any other host unchanged. IPv4-mapped ones become IPv4."""
    from ipaddress import IPv6Address  # rarely needed

    try:
        found = IPv6Address(host)
    except ValueError:
        return host
    return str(found.ipv4_mapped) if found.ipv4_mapped is not None else found.exploded[:19]
