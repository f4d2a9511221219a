"""The state of a session in a store of the author's: whatever has ``get``, ``put`` and ``delete`` of py-key-value."""

from __future__ import annotations

from typing import Any, Final

_COLLECTION: Final = "fastmcp_state"
SECONDS: Final = 86400
"""How long a value is kept after it was set, as theirs."""


class KeptState:
    """What one session has kept."""

    __slots__ = ("_prefix", "_store")

    def __init__(self, store: Any, session_id: str) -> None:
        self._store, self._prefix = store, session_id

    async def get(self, key: str) -> Any:
        found = await self._store.get(key=f"{self._prefix}:{key}", collection=_COLLECTION)
        return None if found is None else found.get("value")

    async def put(self, key: str, value: Any) -> None:
        await self._store.put(
            key=f"{self._prefix}:{key}", value={"value": value}, collection=_COLLECTION, ttl=SECONDS
        )

    async def delete(self, key: str) -> None:
        await self._store.delete(key=f"{self._prefix}:{key}", collection=_COLLECTION)
