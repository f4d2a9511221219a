"""Messages of one revision and dialect: typed values to bytes and back.

Reading is one typed decode straight from the raw member. Only when that is not enough, because the peer used
another project's names or a content type nobody knows, is the member taken apart and put right.
Writing is one encode. The newest revision wants two members in every result, ``resultType`` and the server's
name; they are the same bytes each time and are written in front of the others. Older revisions go through
their edits.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import fields, replace

from ..errors import DovetailError, LocalProtocolError, ProtocolError, Refusal, RemoteProtocolError
from ..model import CacheableResult, Error, Implementation, InputRequiredResult, Result
from ..model.meta import SERVER_INFO
from .dialects import OFFICIAL
from .dialects.dialect import Alias, Dialect, error_from_wire, rewrite, wire_error
from .edits.downgrade import Sieve
from .fallback_decoding import explain, known_blocks
from .frames import (
    CARRIAGE_RETURN,
    LINE_FEED,
    REREAD_BYTES,
    UNREADABLE,
    ErrorFrame,
    NotificationFrame,
    RequestFrame,
    RequestId,
    ResultFrame,
    encode,
)
from .methods import METHODS, Method, OpenParams, Reader, result_type_of
from .revisions import Revision, sieve_for
from .shared_params import ParamsFor

REREAD_VALUES: Final = 16 << 10
"""Bytes up to which a large invalid message is decoded again if it has few values."""
CODECS_KEPT: Final = 64
"""Codecs that are cached."""
DECODERS_KEPT: Final = 256
"""Decoders that are cached."""


_EMPTY = Raw(b"{}")
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What msgspec raises for values that have no JSON: foreign objects, lone surrogates, endless nesting."""

Claims = tuple[tuple[bytes, Alias], ...]
"""Aliases that may apply to bytes that decode without them, each with the first needle to look for."""


class _Opening(Struct, eq=False):
    """What every modern result of one type begins with, ready to be followed by its own members."""

    members: bytes
    result_type: str | UnsetType
    needles: tuple[bytes, ...]
    """What is written of a result in which something has to go first."""


class Codec:
    """Read and write the messages of ``revision``, in ``dialect``, as the server ``server_info`` if it is one.

    Has no state of its own; one per pair serves all connections (`codec_for`).
    """

    keeps = False
    """Whether what nobody knows is kept (`unknown_fields`): for those who pass results on."""

    def __init__(
        self, revision: Revision, dialect: Dialect = OFFICIAL, server_info: Implementation | None = None
    ) -> None:
        self.revision = revision
        self.dialect = dialect
        self._sieve = sieve_for(revision)
        self._decoders: dict[Any, Callable[[Any], Any]] = {}
        self._names: dict[str, str] = {}
        self._params_in = {name: _claims(aliases) for name, aliases in dialect.field_in.items()}
        self._result_in = {name: _claims(aliases) for name, aliases in dialect.result_in.items()}
        # A dialect changes what is sent on the legacy revisions only.
        self._outbound: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = (
            {} if revision.modern else dialect.field_out
        )
        self._null_error_id = revision.null_error_id or (dialect.null_error_id and not revision.modern)
        self._anonymous_encoding_errors = dialect.anonymous_encoding_errors and not revision.modern
        self.introduce(server_info)

    def introduce(self, server_info: Implementation | None) -> None:
        """Speak as this server from now on: one that stands for another learns its name late."""
        self.server_info = server_info
        self._server_meta: dict[str, Any] = {}
        if self.revision.modern and server_info is not None:
            self._server_meta = {SERVER_INFO: Raw(encode(server_info))}
        self._openings: dict[type, _Opening | None] = {}

    def keep_unknown(self) -> None:
        """From now on what no definition knows of a result, a question or a notification is kept, and written again
        where that is."""
        if not self.keeps:
            self.keeps = True
            self._decoders.clear()
            self._openings.clear()

    # --- reading -------------------------------------------------------------------------------------------

    def decode_params(self, method: Method, raw: Raw | bytes | UnsetType) -> Any:
        """Read the params of a request or notification; left-out params read as an empty object.

        Raises:
            RemoteProtocolError: ``invalid_params``, naming the place and the reason but never the value;
                ``parse_error`` when the bytes turn out to be no JSON.
        """
        if raw is UNSET:
            raw = _EMPTY
        decode = self._decoders.get(method.params) or self._decoder(method.params)
        try:
            claims = self._params_in.get(method.name)
            if claims is not None:
                data = bytes(raw)
                for needle, alias in claims:
                    if data.find(needle) >= 0 and alias.claims(data):  # half the price of ``in``
                        return decode(rewrite(self.dialect.field_in[method.name], data))
            return decode(raw)
        except UNREADABLE as error:
            return self._decode_params_again(method, decode, bytes(raw), error)

    def decode_result(self, method: Method, raw: Raw | bytes) -> Any:
        """Read a result. An ``input_required`` or a created task comes back as its own type.

        A content block of a type nobody knows becomes a text block with its JSON, so that one block does not
        cost the whole result.

        Raises:
            RemoteProtocolError: ``validation_failed`` or ``parse_error``; the answer is unusable.
        """
        data = bytes(raw)
        try:
            kind = result_type_of(method, data, self.revision)
            decode = self._decoders.get(kind) or self._decoder(kind)
            for needle, alias in self._result_in.get(method.name, ()):
                if needle in data and alias.claims(data):
                    return decode(rewrite(self.dialect.result_in[method.name], data))
            return decode(data)
        except UNREADABLE as error:
            return self._decode_result_again(method, data, error)

    def decode_error(self, raw: Raw | bytes) -> ProtocolError | Refusal:
        """Read the error object of an answer into the exception to raise to whoever waits for it.

        Raises:
            RemoteProtocolError: ``validation_failed`` or ``parse_error``; the answer is unusable.
        """
        try:
            error = msgspec.json.decode(raw, type=Error)
        except UNREADABLE as reason:
            raise _refusal("validation_failed", "the error object is malformed", reason) from None
        found = error_from_wire(error.code, error.message, error.data, self.revision, self.dialect)
        found.raw = msgspec.json.decode(raw)
        return found

    def _decoder(self, kind: Any) -> Callable[[Any], Any]:
        if isinstance(kind, Reader):
            return kind.decode
        decode = _decoder_for(kind).decode
        if self.keeps:
            decode = _unknown().keeping(kind, decode)
        self._decoders[kind] = decode
        return decode

    def _decode_params_again(
        self, method: Method, decode: Callable[[Any], Any], data: bytes, reason: Exception
    ) -> Any:
        """Try the aliases that could not be told from the bytes, then give up with a reason."""
        try:
            if data == b"null":  # some peers write null for "none"
                return decode(_EMPTY)
            if isinstance(reason, msgspec.ValidationError) and method.name in self.dialect.field_in:
                return decode(rewrite(self.dialect.field_in[method.name], data))
        except UNREADABLE as error:
            # The first reason speaks of what the peer wrote. Where places have codes of their own, an alias may have
            # explained it away.
            if isinstance(error, msgspec.ValidationError) and _fault(error, method.faults) is not None:
                reason = msgspec.ValidationError(str(error))  # with its traceback it would be in a circle
        raise _refusal("invalid_params", "Invalid params", reason, method.faults) from None

    def _decode_result_again(self, method: Method, data: bytes, reason: Exception) -> Any:
        # Most of what is long is one string. A million values would be taken apart by hand.
        few = len(data) <= REREAD_BYTES or data.count(b",") <= REREAD_VALUES
        if isinstance(reason, msgspec.ValidationError) and few:
            try:
                data = rewrite(self.dialect.result_in.get(method.name, ()), data)
                kind = result_type_of(method, data, self.revision)
                result = self._decoder(kind)(known_blocks(data))
                return _unknown().kept(result, data) if self.keeps else result
            except UNREADABLE as error:
                if isinstance(error, msgspec.ValidationError):
                    reason = error
        text = f"the result of {method.name} is malformed"
        raise _refusal("validation_failed", text, reason, method.faults) from None

    # --- writing -------------------------------------------------------------------------------------------

    def encode_result(self, id: RequestId, result: Any) -> bytes:
        """Write the whole answer. A `Raw` result is written as it is; get one to keep from `prepare`.

        Raises:
            LocalProtocolError: this revision has no way to say it, or it is no JSON.
        """
        kind: Any = result.__class__
        try:
            opening = self._openings[kind]
        except KeyError:
            opening = self._learn(kind)
        try:
            if opening is not None and result.meta is UNSET and result.result_type == opening.result_type:
                body = encode(result)
                for needle in opening.needles:
                    if body.find(needle) >= 0:
                        body = encode(self._sieve.edit(result))
                        break
                members = opening.members if len(body) > 2 else opening.members[:-1]
                data = b'{"jsonrpc":"2.0","id":%b,"result":{%b%b}' % (encode(id), members, body[1:])
            else:
                data = encode(ResultFrame(id, result if kind is Raw else self._written(result)))
        except _UNWRITABLE as error:
            raise LocalProtocolError("internal_error", "the result cannot be written as JSON") from error
        return data if LINE_FEED not in data and CARRIAGE_RETURN not in data else _on_one_line(data)

    def passed(self, kind: type, data: bytes) -> Raw | None:
        """A result of ``kind`` that another revision wrote, as this one would; None: it has to be read for that."""
        if self.revision.modern or self._outbound:
            return None
        goes = self._sieve.passed(kind, data)
        return None if goes is None else Raw(goes)

    def prepare(self, result: Any) -> Raw:
        """The result as `encode_result` would write it, to keep and answer with again and again.

        Raises:
            LocalProtocolError: as `encode_result`.
        """
        try:
            return Raw(_line(self._written(result)))
        except _UNWRITABLE as error:
            raise LocalProtocolError("internal_error", "the result cannot be written as JSON") from error

    def encode_request(
        self,
        id: RequestId,
        method: str,
        params: Struct | Raw | dict[str, Any] | None,
        most: int | None = None,
        came: Raw | None = None,
    ) -> bytes:
        """Write a whole request; ``came``: with what nobody knows of the params that it is made of.

        Raises:
            LocalProtocolError: this revision has no such method, or no way to say these params; or it is larger than
                ``most`` bytes.
        """
        try:
            name, goes = self._outgoing(method, params)
            if came is not None and isinstance(params, Struct):
                goes = Raw(_unknown().carried(type(params), came, encode(goes)))
            data = _line(RequestFrame(id, name, goes))
        except _UNWRITABLE as error:
            raise LocalProtocolError("internal_error", f"{method} cannot be written as JSON") from error
        if most is not None and len(data) > most:
            raise LocalProtocolError("message_too_large", f"{method} exceeds {most} bytes")
        return data

    def encode_notification(
        self, method: str, params: Struct | Raw | dict[str, Any] | None, most: int | None = None
    ) -> bytes:
        """Write a whole notification; `ParamsFor` one of many only the first time.

        Raises:
            LocalProtocolError: this revision has no such method; or the params have no JSON form, or one of more than
                ``most`` bytes (``notification_failed``, of progress ``progress_update_failed``).
        """
        kind = "progress_update_failed" if method == "notifications/progress" else "notification_failed"
        try:
            if type(params) is ParamsFor:
                data = params.write(self, lambda own: _line(NotificationFrame(*self._outgoing(method, own))))
            else:
                data = _line(NotificationFrame(*self._outgoing(method, params)))
        except _UNWRITABLE as error:
            raise LocalProtocolError(kind, f"{method} cannot be written as JSON") from error
        if most is not None and len(data) > most:
            raise LocalProtocolError(kind, f"{method} exceeds {most} bytes")
        return data

    def encode_error(self, id: RequestId | None, error: DovetailError) -> bytes:
        """Write the answer for a failure: code, text and ``data.kind`` as revision and dialect have them."""
        code, message, data = wire_error(error, self.revision, self.dialect)
        nobody = None if self._null_error_id else UNSET
        if error.kind == "invalid_encoding" and self._anonymous_encoding_errors:
            id = None
        wire_id = nobody if id is None else id
        try:
            return _line(ErrorFrame(wire_id, Error(code, message, data=data)))
        except _UNWRITABLE:
            # Data somebody attached has no JSON form. The peer still needs its answer.
            message = message.encode(errors="replace").decode()
            return _line(ErrorFrame(wire_id, Error(code, message, data={"kind": error.kind})))

    def edit(self, value: Any) -> Any:
        """The sieve: the value with nothing in it that this revision does not know.

        Raises:
            LocalProtocolError: what it says cannot be said on this revision at all.
        """
        return self._sieve.edit(value)

    def _learn(self, kind: type) -> _Opening | None:
        """Find out once whether results of this type are written by the straight path."""
        opening = None
        apart = self.keeps and kind is InputRequiredResult  # what is kept is in its questions
        if (
            self.revision.modern
            and issubclass(kind, Result)
            and not issubclass(kind, CacheableResult)
            and not apart
        ):
            # Most types leave it to us to say "complete"; the others write their own word.
            own = next(field.default for field in fields(kind) if field.name == "result_type")
            members: dict[str, Any] = {"resultType": "complete"} if own is UNSET else {}
            if self._server_meta:
                members["_meta"] = self._server_meta
            written = encode(members)[1:-1] + b"," if members else b""
            opening = _Opening(written, own, self._sieve.needles(kind))
        self._openings[kind] = opening
        return opening

    def _written(self, result: Any, *, alone: bool = False) -> Any:
        """The result as this revision knows it; with what was kept of it, but ``alone``."""
        if self.keeps and not alone:
            return _unknown().written(result, functools.partial(self._written, alone=True))
        value = self._sieve.edit(result)
        if self.revision.modern:
            return self._completed(value)
        edit = self._outbound.get(type(result).__name__)
        return value if edit is None else edit(_builtins(value))

    def _completed(self, value: Any) -> Any:
        """Add what 2026-07-28 demands of every result and the handler left to us."""
        if not isinstance(value, Result):
            members = cast("dict[str, Any]", value) if isinstance(value, dict) else _builtins(value)
            said: Any = members.get("_meta", {})
            meta = {**self._server_meta, **(msgspec.json.decode(said) if type(said) is Raw else said)}
            return {"resultType": "complete", **members, **({"_meta": meta} if meta else {})}
        changes: dict[str, Any] = {}
        if value.result_type is UNSET:
            changes["result_type"] = "complete"
        if value.meta is UNSET:
            changes["meta"] = self._server_meta or UNSET
        elif SERVER_INFO not in value.meta:
            changes["meta"] = {**value.meta, **self._server_meta}
        if isinstance(value, CacheableResult):
            # Caching is for those who ask for it: anything else could show one user the data of another.
            if value.ttl_ms is UNSET:
                changes["ttl_ms"] = 0
            if value.cache_scope is UNSET:
                changes["cache_scope"] = "private"
        return replace(value, **changes) if changes else value

    def _outgoing(self, method: str, params: Any, *, alone: bool = False) -> tuple[str, Any]:
        name = self._names.get(method) or self._name_of(method)
        if params is None:
            params = UNSET
        elif isinstance(params, OpenParams):
            if self.revision.modern and params.positional:
                raise LocalProtocolError("invalid_params", f"{method}: {self.revision} has no array params")
            params = params.together()
        elif self.keeps and not alone:

            def edited(one: Any) -> Any:
                return self._outgoing(method, one, alone=True)[1]

            params = _unknown().written(params, edited)
        elif type(params) is not Raw:
            params = self._sieve.edit(params)
            edit = self._outbound.get(method)
            if edit is not None:
                params = edit(_builtins(params))
        return name, params

    def _name_of(self, method: str) -> str:
        """How this revision and dialect call a method; looked up once for those that exist."""
        row = METHODS.get(method)
        older = not self.revision.modern and method in self.dialect.older
        if row is not None and not (row.on(self.revision) or older or method in self.dialect.methods):
            raise LocalProtocolError(
                "method_not_found", f"{self.revision} has no {method}", data={"method": method}
            )
        name = method if self.revision.modern else self.dialect.outbound_methods.get(method, method)
        if row is not None:
            self._names[method] = name
        return name


def codec_for(
    revision: Revision, dialect: Dialect = OFFICIAL, server_info: Implementation | None = None
) -> Codec:
    """The codec of this pair, made once; a codec with a ``server_info`` belongs to the caller."""
    if server_info is not None:
        return Codec(revision, dialect, server_info)
    return _codec_for(revision, dialect, sieve_for(revision))


@functools.lru_cache(maxsize=CODECS_KEPT)
def _codec_for(revision: Revision, dialect: Dialect, sieve: Sieve) -> Codec:
    return Codec(revision, dialect)


@functools.lru_cache(maxsize=DECODERS_KEPT)
def _decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _claims(aliases: tuple[Alias, ...]) -> Claims:
    return tuple((alias.needles[0], alias) for alias in aliases if alias.needles)


def _builtins(value: Any) -> dict[str, Any]:
    # Not `msgspec.to_builtins`: it does not know raw members.
    return msgspec.json.decode(encode(value))


def _unknown() -> Any:
    from . import unknown_fields  # loaded by those who pass messages on

    return unknown_fields


def _line(value: Any) -> bytes:
    data = encode(value)
    return data if LINE_FEED not in data and CARRIAGE_RETURN not in data else _on_one_line(data)


def _on_one_line(data: bytes) -> bytes:
    # Only raw members that a peer wrote over several lines bring line ends; inside strings they are escaped.
    return msgspec.json.format(data, indent=-1)


def _fault(reason: msgspec.ValidationError, faults: tuple[tuple[str, str], ...]) -> str | None:
    """The kind of a fault in a place that has one of its own."""
    place = explain(reason).rpartition(" - at `")[2].rstrip("`")
    return next((own for pattern, own in faults if re.search(pattern, place)), None)


def _refusal(
    kind: str, message: str, reason: Exception, faults: tuple[tuple[str, str], ...] = ()
) -> RemoteProtocolError:
    if isinstance(reason, msgspec.ValidationError):
        details = explain(reason)
        kind = _fault(reason, faults) or kind
        return RemoteProtocolError(kind, f"{message}: {details}", data={"details": details})
    return RemoteProtocolError("parse_error", "the message is not valid JSON")
