"""What outlives a call: values under handles, in place of sessions, and the state of whoever calls.

``handle = await ctx.keep(Cart(), ttl=3600)`` gives an opaque text that the model passes on; a parameter annotated
``Handle[Cart]`` is that text to clients and a `Handle` with the loaded ``value`` to the function. Handles belong to
the principal they were made for. Unknown, expired and foreign ones are one and the same error: whoever guesses learns
nothing.

``ctx.state`` belongs to the principal where there is one: it is the same on every connection. Else to the legacy
session. Where there is neither, nothing says whose it would be: keep the value, and let its handle travel.
"""

from __future__ import annotations

import hashlib
import secrets
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Session
from ..core.principal import Principal
from ..errors import ProtocolError, StateError
from ..settings import HANDLE_SECONDS, KEPT_BYTES, SESSION_STATE_SECONDS
from ..stores.base import Store, StoreUnreadable
from ..stores.bounds import HANDLES_ALL, HANDLES_OWN
from ..stores.places import Places, free, owner_of, renew
from ..stores.records import Records
from .signatures.depends import CONTEXT
from .signatures.plain_types import encode
from .signatures.schemas import Schemas

if TYPE_CHECKING:
    from .context import Context
    from .signatures.objects import Field
    from .signatures.parameters import Signature

T = TypeVar("T")

_ON_THE_WIRE: Final = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=128, description="A handle that this server gave before.")
]


class _Kept(Struct, array_like=True):
    value: Raw
    ttl: float | None
    places: tuple[str, ...] = ()


_records = Records(_Kept)
_values = Records(Raw)


def owner(principal: Principal | None) -> str:
    """The folder below which things of ``principal`` are kept; nobody's share one, where names are unguessable."""
    return "-" if principal is None else hashlib.sha256(principal.key.encode()).hexdigest()[:32]


def written(value: Any) -> bytes:
    """``value`` as JSON.

    Raises:
        ValueError: it is larger than `settings.KEPT_BYTES`.
        TypeError: it has no JSON form.
    """
    data = encode(value)
    if len(data) > KEPT_BYTES:
        raise ValueError(f"at most {KEPT_BYTES} bytes can be kept under one name, not {len(data)}")
    return data


class Handle(Generic[T]):
    """A kept value: ``value`` is what was loaded, ``id`` what travels. Change the value and `save` it."""

    __slots__ = ("_folder", "_places", "_store", "_ttl", "id", "value")

    def __init__(
        self, store: Store, folder: str, id: str, value: T, ttl: float | None, places: tuple[str, ...]
    ) -> None:
        self._store = store
        self._folder = folder
        self._ttl = ttl
        self._places = places
        self.id = id
        self.value = value

    async def save(self, *, ttl: float | None = None) -> None:
        """Keep ``value`` as it is now, for ``ttl`` seconds or as long as it was kept for at first."""
        self._ttl = self._ttl if ttl is None else ttl
        data = _records.write(_Kept(Raw(written(self.value)), self._ttl, self._places))
        await renew(self._store, self._places, self._ttl)
        await self._store.put(f"{self._folder}/{self.id}", data, ttl=self._ttl)

    async def release(self) -> None:
        """Forget it: from now on the handle is unknown. Releasing twice is fine."""
        if await self._store.delete(f"{self._folder}/{self.id}"):
            await free(self._store, self._places)

    def __repr__(self) -> str:
        return f"Handle({self.value!r})"


async def keep(store: Store, call: Call, value: Any, ttl: float | None) -> str:
    """Keep ``value`` for whoever calls and return the id of its handle."""
    data, ttl = Raw(written(value)), HANDLE_SECONDS if ttl is None else ttl
    places = await Places(store, "handle", own=HANDLES_OWN, total=HANDLES_ALL).take(
        owner_of(call.principal, call.scope), ttl
    )
    id = secrets.token_urlsafe(24)
    try:
        await store.put(f"{_folder(call.principal)}/{id}", _records.write(_Kept(data, ttl, places)), ttl=ttl)
    except BaseException:
        await free(store, places)
        raise
    return id


async def load(store: Store, principal: Principal | None, id: str, read: Callable[[Raw], Any]) -> Handle[Any]:
    """The handle ``id`` of ``principal``."""
    folder = _folder(principal)
    data = None if "/" in id else await store.get(f"{folder}/{id}")
    if data is None:
        raise ProtocolError("handle_not_found")
    try:
        kept = _records.read(data)
        value = read(kept.value)
    except (
        ValueError,
        RecursionError,
        StoreUnreadable,
    ):  # of another type, or version: none of this parameter
        raise ProtocolError("handle_not_found") from None
    return Handle(store, folder, id, value, kept.ttl, kept.places)


def _folder(principal: Principal | None) -> str:
    return f"handle/{owner(principal)}"


# --- parameters ---------------------------------------------------------------------------------------------


def with_handles(signature: Signature) -> Signature:
    """``signature`` as it is; or, where it has parameters annotated `Handle`, one that loads them first."""
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
                arguments[name] = await load(context.server.kept, context.principal, arguments[name], read)
        return await (
            function(**arguments) if is_async else context.server.runner.call(function, **arguments)
        )

    return replace(
        signature,
        call=call,
        is_async=True,
        context_parameter=own or CONTEXT,
        parameters=tuple(_as_text(p) if p.name in readers else p for p in signature.parameters),
    )


def _kept_type(annotation: Any) -> tuple[Any] | None:
    """What a parameter's handle holds, in a tuple; None for every other parameter."""
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
    """The values of one caller, by key. They are plain JSON: what went in as an object comes out as a dict."""

    __slots__ = ("_folder", "_lifetime", "_store")

    def __init__(self, store: Store, call: Call) -> None:
        self._store = store
        if call.principal is not None:
            self._folder, self._lifetime = f"state/{owner(call.principal)}", None
        else:
            self._folder, self._lifetime = f"state/{_session_folder(call)}", SESSION_STATE_SECONDS

    async def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``; ``default`` where there is none, or none any more."""
        data = await self._store.get(self._key(key))
        return default if data is None else msgspec.json.decode(_values.read(data))

    async def set(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep ``value``, for ``ttl`` seconds or as long as its owner is known.

        Raises:
            TypeError, ValueError: it has no JSON form, or is too large.
        """
        data = _values.write(Raw(written(value)))
        await self._store.put(self._key(key), data, ttl=self._lifetime if ttl is None else ttl)

    async def delete(self, key: str) -> None:
        """Forget ``key``; whether there was one does not matter."""
        await self._store.delete(self._key(key))

    def _key(self, key: str) -> str:
        return f"{self._folder}/{quote(key, safe='')}"


def _session_folder(call: Call) -> str:
    if call.session is None:
        raise StateError(
            "nobody is known to whom state could belong: there is neither a principal nor a session. "
            "Keep the value with ctx.keep and take it as a parameter annotated Handle[…]"
        )
    return session_folder(call.session)


def session_folder(session: Session) -> str:
    """The folder below which things of a legacy session are kept."""
    if session.id is None:
        # One connection, one session: it needs a name only if it keeps something.
        session.id = f"local-{secrets.token_hex(16)}"
    return f"session-{hashlib.sha256(session.id.encode()).hexdigest()[:32]}"
