"""Messages without a connection: read and write any of them, on any revision, in any dialect.

For tests, proxies, recorders and everybody who has bytes and wants to know what they say:

    >>> from dovetail.codec import MessageCodec
    >>> codec = MessageCodec("2025-11-25", "erlmcp")
    >>> codec.encode_request(1, "resources/read", {"uri": "doc://readme"})
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"doc://readme"}}'
    >>> codec.decode(b'{"jsonrpc":"2.0","method":"resources/updated","params":{"uri":"a:b"}}').method
    'notifications/resources/updated'
    >>> codec.encode_notification("notifications/tools/list_changed")
    b'{"jsonrpc":"2.0","method":"tools/list_changed"}'

Nothing here knows whether a message is allowed *now*; that is the business of `dovetail.core`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from .errors import DovetailError, ProtocolError, Refusal, RemoteProtocolError
from .wire.codec import codec_for
from .wire.dialects import DIALECTS, strictly
from .wire.frames import Frame, RequestId, is_batch, too_large
from .wire.frames import decode as decode_frame
from .wire.frames import decode_batch as decode_frames
from .wire.frames import encode_batch as join_batch
from .wire.methods import METHODS, Method
from .wire.revisions import BY_NAME, newest

__all__ = ["ErrorResponse", "Message", "MessageCodec", "Notification", "Request", "Response", "is_batch"]


class Request(Struct, frozen=True):
    """A request. ``params`` is the model's Struct, or plain JSON for a method nobody knows."""

    id: RequestId
    method: str
    params: Any = UNSET


class Notification(Struct, frozen=True):
    """A notification: a request without an id and without an answer."""

    method: str
    params: Any = UNSET


class Response(Struct, frozen=True):
    """A result. It is the model's Struct when the codec was told what was asked, else plain JSON."""

    id: RequestId
    result: Any
    method: str | None = None


class ErrorResponse(Struct, frozen=True):
    """A failure. ``id`` is None when the peer could not read ours."""

    id: RequestId | None
    error: DovetailError


Message = Request | Notification | Response | ErrorResponse
Answers = str | Mapping[RequestId, str] | None


class MessageCodec:
    """Read and write whole messages of one revision in one dialect.

    Args:
        revision: a revision's name; the newest by default.
        dialect: "official", "erlmcp", "minimcp" or "mcp_client".
        strict: understand no other system's names and shapes.

    Raises:
        ValueError: there is no such revision or dialect; the message lists them.
    """

    def __init__(
        self, revision: str | None = None, dialect: str = "official", *, strict: bool = False
    ) -> None:
        revision = newest(modern=True).name if revision is None else revision
        if revision not in BY_NAME:
            raise ValueError(f"unknown revision {revision!r}: use one of {', '.join(BY_NAME)}")
        if dialect not in DIALECTS:
            raise ValueError(f"unknown dialect {dialect!r}: use one of {', '.join(DIALECTS)}")
        profile = strictly(DIALECTS[dialect]) if strict else DIALECTS[dialect]
        self._codec = codec_for(BY_NAME[revision], profile)

    # --- reading -------------------------------------------------------------------------------------------

    def decode(self, data: bytes, answers: Answers = None) -> Message:
        """Read one message.

        ``answers`` says what a result answers: the method, or the methods by request id.

        Raises:
            RemoteProtocolError: it is no JSON, no JSON-RPC, or its members are not what the method wants.
        """
        return self._message(decode_frame(data), answers)

    def decode_batch(self, data: bytes, answers: Answers = None) -> list[Message | RemoteProtocolError]:
        """Read an array of messages; a bad entry is the error to answer it with.

        Raises:
            RemoteProtocolError: it is no array, or an empty one.
        """
        messages: list[Message | RemoteProtocolError] = []
        for frame in decode_frames(data):
            try:
                messages.append(
                    frame if isinstance(frame, RemoteProtocolError) else self._message(frame, answers)
                )
            except RemoteProtocolError as error:
                messages.append(error)
        return messages

    def _message(self, frame: Frame, answers: Answers) -> Message:
        if frame.method is not UNSET:
            return self._call(frame)
        if frame.error is not UNSET:
            error = self._codec.decode_error(frame.error)
            return ErrorResponse(None if frame.id is UNSET else frame.id, error)
        result = cast("Raw", frame.result)
        name = answers if isinstance(answers, str) or answers is None else answers.get(frame.id)
        row = METHODS.get(name) if name is not None else None
        if row is None:
            return Response(frame.id, msgspec.json.decode(result), name)
        return Response(frame.id, self._codec.decode_result(row, result), name)

    def _call(self, frame: Frame) -> Request | Notification:
        method = self._codec.dialect.inbound_methods.get(frame.method, frame.method)
        row = METHODS.get(method)
        try:
            if frame.params is UNSET:
                params: Any = UNSET
            elif row is None:
                params = msgspec.json.decode(frame.params)
            else:
                params = self._codec.decode_params(row, frame.params)
        except RemoteProtocolError as error:
            error.id = None if frame.id is UNSET else frame.id
            raise
        return Notification(method, params) if frame.id is UNSET else Request(frame.id, method, params)

    # --- writing -------------------------------------------------------------------------------------------

    def encode(self, message: Message) -> bytes:
        """Write any message.

        Raises:
            LocalProtocolError: this revision cannot say it.
        """
        if isinstance(message, Request):
            return self.encode_request(message.id, message.method, message.params)
        if isinstance(message, Notification):
            return self.encode_notification(message.method, message.params)
        if isinstance(message, Response):
            return self.encode_response(message.id, message.result, message.method)
        return self._codec.encode_error(message.id, message.error)

    def encode_batch(self, messages: Iterable[Message | bytes]) -> bytes:
        """Write an array of messages, in order."""
        return join_batch(
            [message if isinstance(message, bytes) else self.encode(message) for message in messages]
        )

    def encode_request(self, id: RequestId, method: str, params: Any = UNSET) -> bytes:
        """Write a request; ``params`` may be the model's Struct or a dictionary as on the wire.

        Raises:
            LocalProtocolError: this revision has no such method or cannot say these params.
            RemoteProtocolError: the dictionary is not what the method wants.
        """
        return self._codec.encode_request(id, method, self._typed(method, params))

    def encode_notification(self, method: str, params: Any = UNSET) -> bytes:
        """Write a notification; raises as `encode_request`."""
        return self._codec.encode_notification(method, self._typed(method, params))

    def encode_response(self, id: RequestId, result: Any, method: str | None = None) -> bytes:
        """Write a result. A dictionary is written as it is unless ``method`` says what it answers."""
        row = METHODS.get(method) if method is not None else None
        if isinstance(result, dict):
            raw = Raw(msgspec.json.encode(result))
            result = raw if row is None else self._codec.decode_result(row, raw)
        return self._codec.encode_result(id, result)

    def encode_error_response(
        self, id: RequestId | None, code: int, message: str, data: Any = UNSET
    ) -> bytes:
        """Write an error with a code of your own choice.

        2026-07-28 keeps -32000 … -32099 for itself: there such a code travels as ``data.dialectCode``.
        """
        kind = self._codec.decode_error(msgspec.json.encode({"code": code, "message": message})).kind
        if code in range(1001, 1090) and data is UNSET:
            return self._codec.encode_error(id, Refusal(code, message=message))
        return self._codec.encode_error(id, ProtocolError(kind, message, code=code, data=data))

    def encode_error(self, id: RequestId | None, error: DovetailError) -> bytes:
        """Write any failure the way this revision and dialect do."""
        return self._codec.encode_error(id, error)

    def _typed(self, method: str, params: Any) -> Any:
        row: Method | None = METHODS.get(method)
        if params is UNSET or params is None:
            return None
        if row is None or not isinstance(params, dict):
            return params
        return self._codec.decode_params(row, Raw(msgspec.json.encode(params)))

    # --- the errors one needs most -------------------------------------------------------------------------

    def error_parse(self) -> bytes:
        return self._error(None, "parse_error")

    def error_invalid_request(self, id: RequestId | None = None) -> bytes:
        return self._error(id, "invalid_request")

    def error_method_not_found(self, id: RequestId, method: str) -> bytes:
        return self._error(id, "method_not_found", {"method": method})

    def error_invalid_params(self, id: RequestId, details: str) -> bytes:
        return self._error(id, "invalid_params", {"details": details})

    def error_internal(self, id: RequestId | None) -> bytes:
        return self._error(id, "internal_error")

    def error_not_initialized(self, id: RequestId) -> bytes:
        return self._error(id, "not_initialized")

    def error_tool_not_found(self, id: RequestId, name: str) -> bytes:
        return self._error(id, "tool_not_found", {"tool": name}, f"Unknown tool: {name}")

    def error_prompt_not_found(self, id: RequestId, name: str) -> bytes:
        return self._error(id, "prompt_not_found", {"prompt": name}, f"Unknown prompt: {name}")

    def error_resource_not_found(self, id: RequestId, uri: str) -> bytes:
        return self._error(id, "resource_not_found", {"uri": uri})

    def error_message_too_large(self, limit: int) -> bytes:
        return self._codec.encode_error(None, too_large(limit))

    def _error(self, id: RequestId | None, kind: str, data: Any = UNSET, message: str | None = None) -> bytes:
        return self._codec.encode_error(id, ProtocolError(kind, message, data=data))
