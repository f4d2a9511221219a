"""The exceptions of Dovetail.

Every error has one *kind*, a snake_case word that is the same on every revision, transport and dialect. Catch errors by
class, and decide by kind. `KINDS` has the JSON-RPC code, HTTP status and refusal number of each kind.

    DovetailError             .kind .message
    ├── ProtocolError         a JSON-RPC error, sent or received: .code .data .retry_after
    │   ├── LocalProtocolError    the program sends what this revision forbids: a bug in the program
    │   └── RemoteProtocolError   the peer violated the protocol: .id
    │       └── SkillError            a skill differs from its entry in the list (`dovetail.client`)
    ├── ToolError             a tool failed; its text is for the model
    ├── Refusal               the server refuses the request: 1001..1089, .hint .retry_after
    ├── TransportError        the connection failed: .cause
    │   └── SessionLost       the connection was lost during a call: .maybe_executed
    ├── RequestTimeout        no response in time: .limit names the timeout
    ├── CapabilityError       the peer did not declare a capability; nothing was sent
    ├── StateError            the operation is not possible in this state
    └── RegistrationError     a tool, resource or prompt that cannot be registered (also a ValueError)

`ProtocolError("rate_limited")` gets the code of the dialect; `Refusal(1003)` has this code in every dialect.
"""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import UNSET, UnsetType

# ruff: noqa: F405
from .kinds import *  # noqa: F403  the table is part of this module's public names

NAME_ECHO: Final = 128
"""Characters of a name sent by a peer that an error repeats."""
URI_ECHO: Final = 1024
"""Characters of a URI sent by a peer that an error repeats."""
STORE_FULL_MS: Final = 60_000
"""Milliseconds after which a client may retry that a full store refused."""
RETRY_AFTER_MS: Final = 1000
"""Milliseconds after which a client may retry that was refused for want of capacity."""


class DovetailError(Exception):
    """The base class of all errors that Dovetail raises intentionally."""

    kind: str = "internal_error"
    raw: Any = None
    """The received JSON-RPC error object; None for all other errors."""

    def __init__(self, message: str | None = None, *, kind: str | None = None) -> None:
        if kind is not None:
            self.kind = kind
        if message is None:
            row = KINDS.get(self.kind)
            message = self.kind if row is None else row.message
        super().__init__(message)
        self.message = message


class ProtocolError(DovetailError):
    """A JSON-RPC error, to send or received.

    Raises:
        ValueError: the kind is not in `KINDS` and there is no ``code``.
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
            """The explicit code; None: the code of the revision and dialect."""
        else:
            self.given_code = code
        self.code: int = code
        self.data: Any | UnsetType = data

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before a retry, if the error has them."""
        return _retry_after(self.data)


class LocalProtocolError(ProtocolError):
    """The program sends what this revision forbids. Fix the caller."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol. Respond with ``id`` if it is known, and continue."""

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
        """The message has no method: it was a malformed response to ``id``."""


class ToolError(DovetailError):
    """A tool failed, with a text for the model. Raise it in a handler; `Client.call_tool` raises it, too.

    ``content`` are the content blocks of the result (default: the message as one text block); ``data`` is its
    structured content.
    """

    kind = "tool_execution_failed"

    def __init__(self, message: str, *, content: Any = None, data: Any = None) -> None:
        super().__init__(message)
        self.content = content
        self.data = data


class Refusal(DovetailError):
    """The server refuses a request. ``hint`` says what to do, ``retry_after`` (seconds) when to retry.

    With ``as_result=True``, a tool returns an ``isError`` result instead of a JSON-RPC error.

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
    """The connection failed; ``cause`` is one word: eof, reset, refused, status, closed, protocol, …"""

    kind = "transport_error"

    stderr = ""
    """The last stderr output of a child process; it is part of the message."""
    exit_status = ""
    """How a child process ended, for example "exited with status 3"; empty if it did not."""

    def __init__(self, message: str | None = None, *, cause: str = "closed") -> None:
        super().__init__(message)
        self.cause = cause


class SessionLost(TransportError):
    """The connection was lost during a call. ``maybe_executed``: the peer may have executed it."""

    kind = "session_lost"

    def __init__(
        self, message: str | None = None, *, cause: str = "closed", maybe_executed: bool = True
    ) -> None:
        super().__init__(message, cause=cause)
        self.maybe_executed = maybe_executed


class RequestTimeout(DovetailError):
    """No response in time; the request was cancelled. ``limit`` is "connect", "idle" or "total"."""

    kind = "request_timeout"

    def __init__(self, message: str | None = None, *, limit: str = "total") -> None:
        super().__init__(message)
        self.limit = limit


class CapabilityError(DovetailError):
    """The peer did not declare ``capability``, so nothing was sent."""

    kind = "capability_not_supported"

    def __init__(self, capability: str, message: str | None = None) -> None:
        super().__init__(message or f"the peer did not declare the capability {capability!r}")
        self.capability = capability


class StateError(DovetailError):
    """The operation is not possible in this state; for example, the client is not connected."""

    kind = "state"


class RegistrationError(DovetailError, ValueError):
    """The definition of a tool, resource or prompt is not valid."""

    kind = "registration"


def masked(incident: str) -> ProtocolError:
    """Return the error for an unexpected exception: it has only the id of the log entry."""
    return ProtocolError("internal_error", data={"incident": incident})


def _retry_after(data: Any) -> float | None:
    if not isinstance(data, dict):
        return None
    value: Any = cast("dict[str, Any]", data).get("retryAfterMs")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value / 1000 if number and value >= 0 else None
