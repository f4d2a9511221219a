"""The codec of one revision and dialect: decode and encode params, results and errors.

Decoding is one typed decode of the raw member. If that fails, because the peer used a dialect or an unknown
content type, the member is converted and decoded again. Encoding is one encode. The newest revision requires
two members in every result, ``resultType`` and the server info; their encoded bytes are cached and written
first. Older revisions apply their edits.
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
from .edits.downgrade import Downgrade
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
from .methods import METHODS, CustomParams, Method, Reader, result_type_of
from .revisions import Revision, downgrade_for
from .shared_params import ParamsFor

REREAD_VALUES: Final = 16 << 10
"""Bytes up to which a large invalid message is decoded again if it has few values."""
CODECS_KEPT: Final = 64
"""Codecs that are cached."""
DECODERS_KEPT: Final = 256
"""Decoders that are cached."""


_EMPTY = Raw(b"{}")
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""The exceptions of msgspec for values that cannot be encoded: unsupported objects, lone surrogates, infinite
nesting."""

Claims = tuple[tuple[bytes, Alias], ...]
"""Aliases that may apply to bytes that decode without them, each with the first byte string to search for."""


class _Opening(Struct, eq=False):
    """The cached first members of modern results of one type."""

    members: bytes
    result_type: str | UnsetType
    needles: tuple[bytes, ...]
    """Byte strings in a result that require editing it."""


class Codec:
    """Decodes and encodes the messages of ``revision`` in ``dialect``; a server passes its ``server_info``.

    It has no state, so one codec per pair serves all connections (`codec_for`).
    """

    preserves_unknown = False
    """Whether unknown members are preserved (`unknown_fields`), for forwarding."""

    def __init__(
        self, revision: Revision, dialect: Dialect = OFFICIAL, server_info: Implementation | None = None
    ) -> None:
        self.revision = revision
        self.dialect = dialect
        self._downgrade = downgrade_for(revision)
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
        self.set_server_info(server_info)

    def set_server_info(self, server_info: Implementation | None) -> None:
        """Set the server info. A proxy learns it after connecting to its upstream."""
        self.server_info = server_info
        self._server_meta: dict[str, Any] = {}
        if self.revision.modern and server_info is not None:
            self._server_meta = {SERVER_INFO: Raw(encode(server_info))}
        self._openings: dict[type, _Opening | None] = {}

    def preserve_unknown(self) -> None:
        """Preserve unknown members of results, input requests and notifications, and write them again.

        Used for forwarding.
        """
        if not self.preserves_unknown:
            self.preserves_unknown = True
            self._decoders.clear()
            self._openings.clear()

    # --- decoding -------------------------------------------------------------------------------------------

    def decode_params(self, method: Method, raw: Raw | bytes | UnsetType) -> Any:
        """Decode the params of a request or notification. Missing params are an empty object.

        Raises:
            RemoteProtocolError: ``invalid_params`` with path and reason, never the value; ``parse_error`` if
                the bytes are not JSON.
        """
        if raw is UNSET:
            raw = _EMPTY
        decode = self._decoders.get(method.params) or self._decoder(method.params)
        try:
            claims = self._params_in.get(method.name)
            if claims is not None:
                data = bytes(raw)
                for needle, alias in claims:
                    if data.find(needle) >= 0 and alias.matches(data):  # faster than ``in``
                        return decode(rewrite(self.dialect.field_in[method.name], data))
            return decode(raw)
        except UNREADABLE as error:
            return self._decode_params_again(method, decode, bytes(raw), error)

    def decode_result(self, method: Method, raw: Raw | bytes) -> Any:
        """Decode a result. ``input_required`` and created tasks have their own types.

        A content block of an unknown type becomes a text block with its JSON, so that one block does not
        invalidate the result.

        Raises:
            RemoteProtocolError: ``validation_failed`` or ``parse_error``; the result is unusable.
        """
        data = bytes(raw)
        try:
            kind = result_type_of(method, data, self.revision)
            decode = self._decoders.get(kind) or self._decoder(kind)
            for needle, alias in self._result_in.get(method.name, ()):
                if needle in data and alias.matches(data):
                    return decode(rewrite(self.dialect.result_in[method.name], data))
            return decode(data)
        except UNREADABLE as error:
            return self._decode_result_again(method, data, error)

    def decode_error(self, raw: Raw | bytes) -> ProtocolError | Refusal:
        """Decode the error object of a response into the exception to raise.

        Raises:
            RemoteProtocolError: ``validation_failed`` or ``parse_error``; the response is unusable.
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
        decode = decoder_for(kind).decode
        if self.preserves_unknown:
            decode = _unknown().preserving(kind, decode)
        self._decoders[kind] = decode
        return decode

    def _decode_params_again(
        self, method: Method, decode: Callable[[Any], Any], data: bytes, reason: Exception
    ) -> Any:
        """Decode once more with the aliases that the bytes did not reveal, else raise with the reason."""
        try:
            if data == b"null":  # some peers write null for missing params
                return decode(_EMPTY)
            if isinstance(reason, msgspec.ValidationError) and method.name in self.dialect.field_in:
                return decode(rewrite(self.dialect.field_in[method.name], data))
        except UNREADABLE as error:
            # The first error describes what the peer wrote. An alias may have converted it since, which
            # matters for fields with their own error kind.
            if isinstance(error, msgspec.ValidationError) and _fault(error, method.error_kinds) is not None:
                # a new object, without the reference cycle of its traceback
                reason = msgspec.ValidationError(str(error))
        raise _refusal("invalid_params", "Invalid params", reason, method.error_kinds) from None

    def _decode_result_again(self, method: Method, data: bytes, reason: Exception) -> Any:
        # Large data usually is one long string. A million small values would be converted one by one.
        few = len(data) <= REREAD_BYTES or data.count(b",") <= REREAD_VALUES
        if isinstance(reason, msgspec.ValidationError) and few:
            try:
                data = rewrite(self.dialect.result_in.get(method.name, ()), data)
                kind = result_type_of(method, data, self.revision)
                from .fallback_decoding import known_blocks  # rarely needed

                result = self._decoder(kind)(known_blocks(data))
                return _unknown().attach_original(result, data) if self.preserves_unknown else result
            except UNREADABLE as error:
                if isinstance(error, msgspec.ValidationError):
                    reason = error
        text = f"the result of {method.name} is malformed"
        raise _refusal("validation_failed", text, reason, method.error_kinds) from None

    # --- encoding -------------------------------------------------------------------------------------------

    def encode_result(self, id: RequestId, result: Any) -> bytes:
        """Encode a complete response. A `Raw` result is written unchanged; `prepare` creates one for reuse.

        Raises:
            LocalProtocolError: the revision cannot express it, or it cannot be encoded as JSON.
        """
        kind: Any = result.__class__
        try:
            opening = self._openings[kind]
        except KeyError:
            opening = self._prepare_opening(kind)
        try:
            if opening is not None and result.meta is UNSET and result.result_type == opening.result_type:
                body = encode(result)
                for needle in opening.needles:
                    if body.find(needle) >= 0:
                        body = encode(self._downgrade.edit(result))
                        break
                members = opening.members if len(body) > 2 else opening.members[:-1]
                data = b'{"jsonrpc":"2.0","id":%b,"result":{%b%b}' % (encode(id), members, body[1:])
            else:
                data = encode(ResultFrame(id, result if kind is Raw else self._downgraded(result)))
        except _UNWRITABLE as error:
            raise LocalProtocolError("internal_error", "the result cannot be encoded as JSON") from error
        return data if LINE_FEED not in data and CARRIAGE_RETURN not in data else _on_one_line(data)

    def convert_encoded(self, kind: type, data: bytes) -> Raw | None:
        """Convert an encoded result of ``kind`` from another revision to this one; None: it must be decoded
        first."""
        if self.revision.modern or self._outbound:
            return None
        goes = self._downgrade.convert_encoded(kind, data)
        return None if goes is None else Raw(goes)

    def prepare(self, result: Any) -> Raw:
        """Encode a result as `encode_result` would, for reuse in several responses.

        Raises:
            LocalProtocolError: see `encode_result`.
        """
        try:
            return Raw(_line(self._downgraded(result)))
        except _UNWRITABLE as error:
            raise LocalProtocolError("internal_error", "the result cannot be encoded as JSON") from error

    def encode_request(
        self,
        id: RequestId,
        method: str,
        params: Struct | Raw | dict[str, Any] | None,
        most: int | None = None,
        came: Raw | None = None,
    ) -> bytes:
        """Encode a request. ``came``: the forwarded params, whose unknown members are preserved.

        Raises:
            LocalProtocolError: the revision does not have this method or cannot express these params, or the
                request exceeds ``most`` bytes.
        """
        try:
            name, goes = self._outgoing(method, params)
            if came is not None and isinstance(params, Struct):
                goes = Raw(_unknown().merge_unknown(type(params), came, encode(goes)))
            data = _line(RequestFrame(id, name, goes))
        except _UNWRITABLE as error:
            raise LocalProtocolError("internal_error", f"{method} cannot be encoded as JSON") from error
        if most is not None and len(data) > most:
            raise LocalProtocolError("message_too_large", f"{method} exceeds {most} bytes")
        return data

    def encode_notification(
        self, method: str, params: Struct | Raw | dict[str, Any] | None, most: int | None = None
    ) -> bytes:
        """Encode a notification. `ParamsFor` params are encoded once for all subscribers.

        Raises:
            LocalProtocolError: the revision does not have this method; or the params cannot be encoded as
                JSON or exceed ``most`` bytes (``notification_failed``, for progress
                ``progress_update_failed``).
        """
        kind = "progress_update_failed" if method == "notifications/progress" else "notification_failed"
        try:
            if type(params) is ParamsFor:
                data = params.write(self, lambda own: _line(NotificationFrame(*self._outgoing(method, own))))
            else:
                data = _line(NotificationFrame(*self._outgoing(method, params)))
        except _UNWRITABLE as error:
            raise LocalProtocolError(kind, f"{method} cannot be encoded as JSON") from error
        if most is not None and len(data) > most:
            raise LocalProtocolError(kind, f"{method} exceeds {most} bytes")
        return data

    def encode_error(self, id: RequestId | None, error: DovetailError) -> bytes:
        """Encode the error response: code, message and ``data.kind`` as revision and dialect define them."""
        code, message, data = wire_error(error, self.revision, self.dialect)
        nobody = None if self._null_error_id else UNSET
        if error.kind == "invalid_encoding" and self._anonymous_encoding_errors:
            id = None
        wire_id = nobody if id is None else id
        try:
            return _line(ErrorFrame(wire_id, Error(code, message, data=data)))
        except _UNWRITABLE:
            # Custom data cannot be encoded. The peer still needs a response.
            message = message.encode(errors="replace").decode()
            return _line(ErrorFrame(wire_id, Error(code, message, data={"kind": error.kind})))

    def downgrade(self, value: Any) -> Any:
        """Downgrade a value: remove or convert everything that this revision does not define.

        Raises:
            LocalProtocolError: the revision cannot express the value.
        """
        return self._downgrade.edit(value)

    def _prepare_opening(self, kind: type) -> _Opening | None:
        """Determine once whether results of this type need no edits."""
        opening = None
        apart = self.preserves_unknown and kind is InputRequiredResult
        if (
            self.revision.modern
            and issubclass(kind, Result)
            and not issubclass(kind, CacheableResult)
            and not apart
        ):
            # Most types leave ``resultType`` unset, which means "complete".
            own = next(field.default for field in fields(kind) if field.name == "result_type")
            members: dict[str, Any] = {"resultType": "complete"} if own is UNSET else {}
            if self._server_meta:
                members["_meta"] = self._server_meta
            written = encode(members)[1:-1] + b"," if members else b""
            opening = _Opening(written, own, self._downgrade.needles(kind))
        self._openings[kind] = opening
        return opening

    def _downgraded(self, result: Any, *, alone: bool = False) -> Any:
        """Return the result in the form of this revision, with its preserved members unless ``alone``."""
        if self.preserves_unknown and not alone:
            return _unknown().encode_preserving(result, functools.partial(self._downgraded, alone=True))
        value = self._downgrade.edit(result)
        if self.revision.modern:
            return self._completed(value)
        edit = self._outbound.get(type(result).__name__)
        return value if edit is None else edit(_builtins(value))

    def _completed(self, value: Any) -> Any:
        """Add the members that 2026-07-28 requires in every result and that the handler left out."""
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
            # Caching is opt-in: otherwise one user could get the data of another.
            if value.ttl_ms is UNSET:
                changes["ttl_ms"] = 0
            if value.cache_scope is UNSET:
                changes["cache_scope"] = "private"
        return replace(value, **changes) if changes else value

    def _outgoing(self, method: str, params: Any, *, alone: bool = False) -> tuple[str, Any]:
        name = self._names.get(method) or self._name_of(method)
        if params is None:
            params = UNSET
        elif isinstance(params, CustomParams):
            if self.revision.modern and params.positional:
                raise LocalProtocolError(
                    "invalid_params", f"{method}: revision {self.revision} has no array params"
                )
            params = params.merged()
        elif self.preserves_unknown and not alone:

            def edited(one: Any) -> Any:
                return self._outgoing(method, one, alone=True)[1]

            params = _unknown().encode_preserving(params, edited)
        elif type(params) is not Raw:
            params = self._downgrade.edit(params)
            edit = self._outbound.get(method)
            if edit is not None:
                params = edit(_builtins(params))
        return name, params

    def _name_of(self, method: str) -> str:
        """Return the method name in this revision and dialect, cached for existing methods."""
        row = METHODS.get(method)
        older = not self.revision.modern and method in self.dialect.older
        if row is not None and not (row.on(self.revision) or older or method in self.dialect.methods):
            raise LocalProtocolError(
                "method_not_found",
                f"revision {self.revision} has no method {method}",
                data={"method": method},
            )
        name = method if self.revision.modern else self.dialect.outbound_methods.get(method, method)
        if row is not None:
            self._names[method] = name
        return name


def codec_for(
    revision: Revision, dialect: Dialect = OFFICIAL, server_info: Implementation | None = None
) -> Codec:
    """Return the shared codec of this pair. A codec with a ``server_info`` is not shared."""
    if server_info is not None:
        return Codec(revision, dialect, server_info)
    return _codec_for(revision, dialect, downgrade_for(revision))


@functools.lru_cache(maxsize=CODECS_KEPT)
def _codec_for(revision: Revision, dialect: Dialect, downgrade: Downgrade) -> Codec:
    return Codec(revision, dialect)


@functools.lru_cache(maxsize=DECODERS_KEPT)
def decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _claims(aliases: tuple[Alias, ...]) -> Claims:
    return tuple((alias.needles[0], alias) for alias in aliases if alias.needles)


def _builtins(value: Any) -> dict[str, Any]:
    # Not `msgspec.to_builtins`, which does not support raw members.
    return msgspec.json.decode(encode(value))


def _unknown() -> Any:
    from . import unknown_fields  # imported only for forwarding

    return unknown_fields


def _line(value: Any) -> bytes:
    data = encode(value)
    return data if LINE_FEED not in data and CARRIAGE_RETURN not in data else _on_one_line(data)


def _on_one_line(data: bytes) -> bytes:
    # Only raw members that a peer wrote over several lines contain line breaks. Inside strings they are
    # escaped.
    return msgspec.json.format(data, indent=-1)


def _fault(reason: msgspec.ValidationError, faults: tuple[tuple[str, str], ...]) -> str | None:
    """Return the error kind of a field that has its own one."""
    from .fallback_decoding import explain  # only wrong messages need it

    place = explain(reason).rpartition(" - at `")[2].rstrip("`")
    return next((own for pattern, own in faults if re.search(pattern, place)), None)


def _refusal(
    kind: str, message: str, reason: Exception, faults: tuple[tuple[str, str], ...] = ()
) -> RemoteProtocolError:
    if isinstance(reason, msgspec.ValidationError):
        from .fallback_decoding import explain  # only wrong messages need it

        details = explain(reason)
        kind = _fault(reason, faults) or kind
        return RemoteProtocolError(kind, f"{message}: {details}", data={"details": details})
    return RemoteProtocolError("parse_error", "the message is not valid JSON")
