"""Every failure, once.

A failure has one *kind*, a snake_case word that is the same on every revision, transport and dialect; catch
by class, decide by kind. What the kind looks like on a wire (JSON-RPC code, HTTP status, refusal number, the
numbers of the reference systems) is a row of `KINDS`; nothing but `dovetail.kinds` knows a number.

    DovetailError             .kind .message
    ├── ProtocolError         answered to the peer, or answered by it: .code .data .retry_after
    │   ├── LocalProtocolError    we were asked to send what this revision forbids: a bug on our side
    │   └── RemoteProtocolError   the peer sent what it may not: answer it, count it, carry on; .id
    │       └── SkillError            … a skill that is not what the server listed (`dovetail.client`)
    ├── ToolError             a tool failed; the model may read the text
    ├── Refusal               we could, but will not: 1001..1089, .hint .retry_after
    ├── TransportError        the way to the peer failed: .cause
    │   └── SessionLost       … while a call was out: .maybe_executed
    ├── RequestTimeout        .limit says which of the three limits ran out
    ├── CapabilityError       the peer never declared it; nothing was sent
    ├── StateError            the connection is not ready for this
    └── RegistrationError     a tool, resource or prompt that cannot be registered (also a ValueError)

Raise `ProtocolError("rate_limited")` to let each dialect choose its number; raise `Refusal(1003)` to say that
number to every peer.
"""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import UNSET, UnsetType

# ruff: noqa: F405
from .kinds import *  # noqa: F403  the table is a part of this module's face

NAME_ECHO: Final = 128
"""Characters of a name sent by a peer that an error repeats."""
URI_ECHO: Final = 1024
"""Characters of a URI sent by a peer that an error repeats."""
STORE_FULL_MS: Final = 60_000
"""Milliseconds after which a client may retry that a full store refused."""
RETRY_AFTER_MS: Final = 1000
"""Milliseconds after which a client may retry that was refused for want of capacity."""


class DovetailError(Exception):
    """The root of everything this package raises on purpose."""

    kind: str = "internal_error"
    raw: Any = None
    """The JSON-RPC error object that a peer sent, as it was received; None for all other errors."""

    def __init__(self, message: str | None = None, *, kind: str | None = None) -> None:
        if kind is not None:
            self.kind = kind
        if message is None:
            row = KINDS.get(self.kind)
            message = self.kind if row is None else row.message
        super().__init__(message)
        self.message = message


class ProtocolError(DovetailError):
    """A request ended in a JSON-RPC error: ours to send, or received from the peer.

    Raises:
        ValueError: the kind is not in `KINDS` and no ``code`` was given for it.
    """

    def __init__(
        self, kind: str, message: str | None = None, *, data: Any = UNSET, code: int | None = None
    ) -> None:
        super().__init__(message, kind=kind)
        if code is None:
            row = KINDS.get(kind)
            if row is None:
                raise ValueError(f"unknown kind {kind!r}: use one of dovetail.errors.KINDS or give a code")
            code = row.modern
            self.given_code: int | None = None
            """The code the raiser insisted on; None lets revision and dialect choose."""
        else:
            self.given_code = code
        self.code: int = code
        self.data: Any | UnsetType = data

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before another try, when the error says so."""
        return _retry_after(self.data)


class LocalProtocolError(ProtocolError):
    """We were asked to send what this revision forbids: fix the caller."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what it may not. Answer it under ``id`` when that is readable, and carry on."""

    def __init__(
        self,
        kind: str,
        message: str | None = None,
        *,
        data: Any = UNSET,
        code: int | None = None,
        id: int | str | None = None,
        answers: bool = False,
    ) -> None:
        super().__init__(kind, message, data=data, code=code)
        self.id = id
        self.answers = answers
        """It named no method: what could not be read was meant as the answer to ``id``."""


class ToolError(DovetailError):
    """A tool failed in a way the model may read and correct. Raise it in a handler; a client raises it too.

    ``content`` are the blocks of the result (default: the message as one text block); ``data`` becomes its
    structured content.
    """

    kind = "tool_execution_failed"

    def __init__(self, message: str, *, content: Any = None, data: Any = None) -> None:
        super().__init__(message)
        self.content = content
        self.data = data


class Refusal(DovetailError):
    """We will not do it. ``hint`` says what would help, ``retry_after`` (seconds) when to come back.

    ``as_result=True`` inside a tool gives the model an ``isError`` result in place of a JSON-RPC error.

    Raises:
        ValueError: ``code`` is not in 1001..1089.
    """

    def __init__(
        self,
        code: int = 1010,
        hint: str | None = None,
        retry_after: float | None = None,
        *,
        message: str | None = None,
        as_result: bool = False,
        kind: str | None = None,
    ) -> None:
        if code not in REFUSAL_CODES:
            raise ValueError(f"refusal codes are 1001..1089, not {code}")
        kind = kind or refusal_kind(code)
        super().__init__(message if message or kind in KINDS else "Refused", kind=kind)
        self.code = code
        self.hint = hint
        self.retry_after = retry_after
        self.as_result = as_result


class TransportError(DovetailError):
    """The way to the peer failed; ``cause`` is one word: eof, reset, refused, status, closed, protocol, …"""

    kind = "transport_error"

    stderr = ""
    """The end of what a child process wrote to stderr. The message quotes it."""

    def __init__(self, message: str | None = None, *, cause: str = "closed") -> None:
        super().__init__(message)
        self.cause = cause


class SessionLost(TransportError):
    """The connection went away under a call. ``maybe_executed``: the peer may have acted on it."""

    kind = "session_lost"

    def __init__(
        self, message: str | None = None, *, cause: str = "closed", maybe_executed: bool = True
    ) -> None:
        super().__init__(message, cause=cause)
        self.maybe_executed = maybe_executed


class RequestTimeout(DovetailError):
    """No answer in time; the peer was told to stop. ``limit`` is "connect", "idle" or "total"."""

    kind = "request_timeout"

    def __init__(self, message: str | None = None, *, limit: str = "total") -> None:
        super().__init__(message)
        self.limit = limit


class CapabilityError(DovetailError):
    """The peer never declared ``capability``, so nothing was sent."""

    kind = "capability_not_supported"

    def __init__(self, capability: str, message: str | None = None) -> None:
        super().__init__(message or f"the peer did not declare the capability {capability!r}")
        self.capability = capability


class StateError(DovetailError):
    """The connection is not ready for this: connect first, or wait until it is back."""

    kind = "state"


class RegistrationError(DovetailError, ValueError):
    """A tool, resource or prompt cannot be registered as written: correct its definition."""

    kind = "registration"


def masked(incident: str) -> ProtocolError:
    """The only thing a peer learns of an unexpected exception: that it is in our log under ``incident``."""
    return ProtocolError("internal_error", data={"incident": incident})


def _retry_after(data: Any) -> float | None:
    if not isinstance(data, dict):
        return None
    value: Any = cast("dict[str, Any]", data).get("retryAfterMs")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value / 1000 if number and value >= 0 else None
