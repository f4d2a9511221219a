"""State that outlives a call: values under handles, which replace sessions, and ``ctx.state`` of the caller.

``handle = await ctx.create_handle(Cart(), ttl=3600)`` returns an opaque id that the model passes on. A parameter
annotated ``Handle[Cart]`` is that id to clients and a `Handle` with the loaded ``value`` to the function. Handles
belong to the principal that created them. Unknown, expired and foreign handles give the same error, so guessing reveals
nothing.

``ctx.state`` belongs to the principal, if there is one: it is the same on every connection. Otherwise it belongs to the
legacy session. Without both, store the value under a handle.
"""

from __future__ import annotations

import hashlib
import os
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Session
from ..core.principal import Principal
from ..errors import ProtocolError, StateError
from ..stores.base import Store, StoreUnavailable, StoreUnreadable
from ..stores.quotas import SLOT_LIFETIME, Quota, quota_owner, release, renew
from ..stores.versioned_records import VersionedRecords
from .signatures.annotation_schemas import Schemas
from .signatures.depends import CONTEXT
from .signatures.plain_types import encode

if TYPE_CHECKING:
    from .context import Context
    from .signatures.objects import Field
    from .signatures.parameters import Signature

SESSION_STATE_SECONDS: Final = 86_400.0
"""Seconds for which the state of a legacy session is stored after it was set."""
MAX_HANDLE_SLOTS_PER_OWNER: Final = 2000
"""Quota slots for the handles of one owner."""
MAX_HANDLE_SLOTS: Final = 200_000
"""Quota slots for all handles."""
MAX_STATE_SLOTS_PER_OWNER: Final = 2000
"""Quota slots for the ``ctx.state`` of one principal or session."""
MAX_STATE_SLOTS: Final = 200_000
"""Quota slots for all ``ctx.state``."""
STATE_WRITE_ATTEMPTS: Final = 16
"""Attempts to write a ``ctx.state`` key that other calls write at the same time."""


HANDLE_SECONDS: Final = 3600.0
"""Default lifetime of a handle, in seconds."""
KEPT_BYTES: Final = 1 << 20
"""The maximum size of one stored value as JSON, in bytes."""

T = TypeVar("T")

_ON_THE_WIRE: Final = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=128, description="A handle that this server returned before.")
]


class _Kept(Struct, array_like=True):
    value: Raw
    ttl: float | None
    places: tuple[str, ...] = ()


_records = VersionedRecords(_Kept)
_states = VersionedRecords(_Kept, 2)
_values = VersionedRecords(Raw)


def owner(principal: Principal | None) -> str:
    """The key prefix of the values of ``principal``. Anonymous callers share one: handle ids cannot be guessed."""
    return "-" if principal is None else hashlib.sha256(principal.key.encode()).hexdigest()[:32]


def written(value: Any) -> bytes:
    """``value`` as JSON.

    Raises:
        ValueError: the JSON is larger than `KEPT_BYTES`.
        TypeError: the value cannot be encoded as JSON.
    """
    data = encode(value)
    if len(data) > KEPT_BYTES:
        raise ValueError(f"the value has {len(data)} bytes as JSON; at most {KEPT_BYTES} can be stored")
    return data


class Handle(Generic[T]):
    """A stored value: ``value`` is the loaded object, ``id`` what clients see. Change the value and call `save`."""

    __slots__ = ("_folder", "_owner", "_places", "_store", "_ttl", "id", "value")

    def __init__(self, store: Store, folder: str, owner: str, id: str, value: T, kept: _Kept) -> None:
        self._store = store
        self._folder = folder
        self._owner = owner
        self._ttl = kept.ttl
        self._places = kept.places
        self.id = id
        self.value = value

    async def save(self, *, ttl: float | None = None) -> None:
        """Store ``value`` as it is now, for ``ttl`` seconds or for its original lifetime.

        Raises:
            TypeError, ValueError: the value cannot be encoded as JSON, or is too large.
            StoreFull: the quota of its owner is used up.
        """
        store, before, data = self._store, self._places, Raw(written(self.value))
        self._ttl = self._ttl if ttl is None else ttl
        self._places = await _handles(store).resize(self._owner, before, self._ttl, len(bytes(data)))
        await renew(store, self._places, self._ttl)
        kept = _Kept(data, self._ttl, self._places)
        await store.put(f"{self._folder}/{self.id}", _records.encode(kept), ttl=self._ttl)
        await release(store, set(before).difference(self._places))

    async def release(self) -> None:
        """Delete the handle: its id becomes unknown. A second call does nothing."""
        if await self._store.delete(f"{self._folder}/{self.id}"):
            await release(self._store, self._places)

    def __repr__(self) -> str:
        return f"Handle({self.value!r})"


async def create_handle(store: Store, call: Call, value: Any, ttl: float | None) -> str:
    """Store ``value`` for the caller and return the id of its handle."""
    data, ttl = Raw(written(value)), HANDLE_SECONDS if ttl is None else ttl
    places = await _handles(store).acquire(quota_owner(call.principal, call.scope), ttl, len(bytes(data)))
    import secrets  # it takes time to load

    id = secrets.token_urlsafe(24)
    try:
        await store.put(f"{_folder(call.principal)}/{id}", _records.encode(_Kept(data, ttl, places)), ttl=ttl)
    except BaseException:
        await release(store, places)
        raise
    return id


def _handles(store: Store) -> Quota:
    return Quota(store, "handle", own=MAX_HANDLE_SLOTS_PER_OWNER, total=MAX_HANDLE_SLOTS)


async def load(
    store: Store,
    principal: Principal | None,
    id: str,
    read: Callable[[Raw], Any],
    scope: Mapping[str, Any],
) -> Handle[Any]:
    """Load the handle ``id`` of ``principal``; if it grows, its size is counted for the owner in ``scope``."""
    folder = _folder(principal)
    data = None if "/" in id else await store.get(f"{folder}/{id}")
    if data is None:
        raise ProtocolError("handle_not_found")
    try:
        kept = _records.decode(data)
        value = read(kept.value)
    except (
        ValueError,
        RecursionError,
        StoreUnreadable,
    ):  # stored with another type or version
        raise ProtocolError("handle_not_found") from None
    return Handle(store, folder, quota_owner(principal, scope), id, value, kept)


def _folder(principal: Principal | None) -> str:
    return f"handle/{owner(principal)}"


# --- parameters ---------------------------------------------------------------------------------------------


def with_handles(signature: Signature) -> Signature:
    """Return ``signature``, or, if it has parameters annotated `Handle`, a wrapper that loads them first."""
    readers = {
        parameter.name: Schemas(signature.locals).decoder(*kept)
        for parameter in signature.parameters
        if (kept := _kept_type(parameter.annotation)) is not None
    }
    if not readers:
        return signature
    own, function, is_async = signature.context_parameter, signature.call, signature.is_async

    async def call(**arguments: Any) -> Any:
        context: Context = arguments[own or CONTEXT]
        if own is None:
            del arguments[CONTEXT]
        for name, read in readers.items():
            if arguments.get(name) is not None:
                id, kept = arguments[name], context.server.lifecycle.state_store
                arguments[name] = await load(kept, context.principal, id, read, context.scope)
        return await (
            function(**arguments) if is_async else context.server.lifecycle.runner.call(function, **arguments)
        )

    return replace(
        signature,
        call=call,
        is_async=True,
        context_parameter=own or CONTEXT,
        parameters=tuple(_as_text(p) if p.name in readers else p for p in signature.parameters),
    )


def _kept_type(annotation: Any) -> tuple[Any] | None:
    """The value type of a `Handle` parameter, in a tuple; None for every other parameter."""
    members = typing.get_args(annotation) if type(None) in typing.get_args(annotation) else (annotation,)
    for member in members:
        if member is Handle:
            return (Any,)
        if typing.get_origin(member) is Handle:
            return (typing.get_args(member)[0],)
    return None


def _as_text(parameter: Field) -> Field:
    optional = type(None) in typing.get_args(parameter.annotation)
    return replace(parameter, annotation=typing.Optional[_ON_THE_WIRE] if optional else _ON_THE_WIRE)  # noqa: UP045


# --- state --------------------------------------------------------------------------------------------------


class State:
    """The values of one caller, by key. They are plain JSON: an object is returned as a dict."""

    __slots__ = ("_folder", "_lifetime", "_owner", "_shares", "_store")

    def __init__(self, store: Store, call: Call) -> None:
        within: str | None = None
        if call.principal is not None:
            self._owner, self._lifetime = owner(call.principal), None
        else:
            self._owner, self._lifetime = _session_folder(call), SESSION_STATE_SECONDS
            within = quota_owner(None, call.scope)
        self._store = store
        self._folder = f"state/{self._owner}"
        self._shares = Quota(
            store, "state", own=MAX_STATE_SLOTS_PER_OWNER, total=MAX_STATE_SLOTS, within=within
        )

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if it is missing or expired."""
        data = await self._store.get(self._key(key))
        return default if data is None else msgspec.json.decode(_read_state(data).value)

    async def set(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Store ``value`` for ``ttl`` seconds, or as long as its owner exists.

        Raises:
            TypeError, ValueError: the value cannot be encoded as JSON, or is too large.
            StoreFull: the quota of the owner, or of the server, is used up.
        """
        data, ttl = Raw(written(value)), self._lifetime if ttl is None else ttl
        for _ in range(STATE_WRITE_ATTEMPTS):
            if await self._set(self._key(key), data, ttl):
                return
        raise StoreUnavailable("the key could not be written: other calls keep changing it")

    async def _set(self, key: str, value: Raw, ttl: float | None) -> bool:
        """Write once; False if another call has changed ``key`` meanwhile."""
        store, counted = self._store, min(ttl or SLOT_LIFETIME, SLOT_LIFETIME)
        old = await store.get(key)
        before = () if old is None else _read_state(old).places
        places = await self._shares.resize(self._owner, before, counted, len(bytes(value)))
        unused = set(places).difference(before)
        try:
            await renew(store, tuple(set(before).intersection(places)), counted)
            data = _states.encode(_Kept(value, ttl, places))
            if await store.put(key, data, ttl=ttl, only_new=old is None, expect=old):
                unused = set(before).difference(places)
                return True
        finally:
            await release(store, unused)
        return False

    async def delete(self, key: str) -> None:
        """Delete ``key``, if it exists."""
        old = await self._store.get(self._key(key))
        if old is not None and await self._store.delete(self._key(key)):
            await release(self._store, _read_state(old).places)

    def _key(self, key: str) -> str:
        from urllib.parse import quote  # it takes time to load

        return f"{self._folder}/{quote(key, safe='')}"


def _read_state(data: bytes) -> _Kept:
    """Decode a stored value. Version 1 was the bare value, which no quota counted."""
    return _Kept(_values.decode(data), None) if data.startswith(b"1 ") else _states.decode(data)


def _session_folder(call: Call) -> str:
    if call.session is None:
        raise StateError(
            "ctx.state has no owner: the call has neither a principal nor a session. "
            "Store the value with ctx.create_handle(…) and take it as a parameter annotated Handle[…]"
        )
    return session_folder(call.session)


def session_folder(session: Session) -> str:
    """The key prefix of the values of a legacy session."""
    if session.id is None:
        # A session of one connection gets a name only when it stores something.
        session.id = f"local-{os.urandom(16).hex()}"
    return f"session-{hashlib.sha256(session.id.encode()).hexdigest()[:32]}"
