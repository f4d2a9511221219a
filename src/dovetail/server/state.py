"""``ctx.state``: small values that belong to whoever calls.

They belong to the principal where there is one: it is the same on every connection. Else to the legacy session. Where
there is neither, nothing says whose they would be: keep a value with ``ctx.keep`` and let its handle travel.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from ..core.channel import Call
from ..errors import StateError
from ..settings import SESSION_STATE_SECONDS
from ..stores.base import Store
from ..stores.records import Records
from .handles import owner, written

_records = Records(Raw)


class State:
    """The values of one caller, by key. They are plain JSON: what went in as an object comes out as a dict."""

    __slots__ = ("_folder", "_lifetime", "_store")

    def __init__(self, store: Store, call: Call) -> None:
        self._store = store
        if call.principal is not None:
            self._folder, self._lifetime = f"state/{owner(call.principal)}", None
        else:
            self._folder, self._lifetime = f"state/{_session(call)}", SESSION_STATE_SECONDS

    async def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``; ``default`` where there is none, or none any more."""
        data = await self._store.get(self._key(key))
        return default if data is None else msgspec.json.decode(_records.read(data))

    async def set(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep ``value``, for ``ttl`` seconds or as long as its owner is known.

        Raises:
            TypeError, ValueError: it has no JSON form, or is too large.
        """
        data = _records.write(Raw(written(value)))
        await self._store.put(self._key(key), data, ttl=self._lifetime if ttl is None else ttl)

    async def delete(self, key: str) -> None:
        """Forget ``key``; whether there was one does not matter."""
        await self._store.delete(self._key(key))

    def _key(self, key: str) -> str:
        return f"{self._folder}/{quote(key, safe='')}"


def _session(call: Call) -> str:
    session = call.session
    if session is None:
        raise StateError(
            "nobody is known to whom state could belong: there is neither a principal nor a session. "
            "Keep the value with ctx.keep and take it as a parameter annotated Handle[…]"
        )
    if session.id is None:
        # One connection, one session: it needs a name only if it keeps something.
        session.id = f"local-{secrets.token_hex(16)}"
    return f"session-{hashlib.sha256(session.id.encode()).hexdigest()[:32]}"
