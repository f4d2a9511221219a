"""Input requests during a request of 2026-07-28: multi round-trip requests with sealed state.

A modern server cannot send requests. A handler that needs input ends the call with ``input_required``. The
client repeats the call with its responses, and the handler runs again from the top. `InputRounds` holds the
state of one run. `request_input` returns the response if an earlier round brought it, or records the request and
returns `MissingInput`. Then unwind the handler and respond with `result`. `step` and `remember` store the
results of steps that must not run twice.

Between rounds the state travels in ``requestState``. It is sealed, bound to the principal, the method and the
routing params (name or URI, and the arguments), and it expires. A response belongs to one input request. It
is found by the key of the request (given, or counted in order) and is valid only while the fingerprint of the
request (its type and a digest) is unchanged. A changed request is sent again; so is one without a response.
An invalid response is refused before the handler runs. Responses that were not requested are ignored.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import model as m
from ..errors import CapabilityError, LocalProtocolError, ProtocolError, Refusal, RemoteProtocolError
from ..settings import Limits
from ..wire.methods import METHODS, CustomParams, Method
from ..wire.seal import Seal, bind, digest
from .channel import Call
from .input_request_checks import needed_capability
from .principal import key_of

PURPOSE: Final = "state"

_LETTERS: Final = {"elicitation/create": "E", "sampling/createMessage": "S", "roots/list": "R"}
"""First letter of the fingerprint, by method."""
_METHODS: Final = {letter: method for method, letter in _LETTERS.items()}

_REQUESTS: Final[dict[str, type[m.CreateMessageRequest | m.ElicitRequest | m.ListRootsRequest]]] = {
    "elicitation/create": m.ElicitRequest,
    "sampling/createMessage": m.CreateMessageRequest,
    "roots/list": m.ListRootsRequest,
}
_NEVER_ASKED: Final = m.InputResponseRequestParams()


class PreparedInput(Struct, eq=False):
    """An input request with its encoded params. A handler that runs again reuses it."""

    request: m.InputRequest
    method: str
    """The method it would have as a separate JSON-RPC request."""
    params: Struct | None
    need: str
    """The client capability that it needs."""
    _fingerprint: str = ""

    @property
    def fingerprint(self) -> str:
        """Fingerprint: its type and a digest. Different requests have different fingerprints."""
        if not self._fingerprint:
            self._fingerprint = _LETTERS[self.method] + digest(self.request).hex()[:32]
        return self._fingerprint


def prepare_input(request: m.InputRequest) -> PreparedInput:
    """Prepare ``request`` for use in several rounds."""
    method = cast("str", type(request).__struct_config__.tag)
    params = None if isinstance(request, m.ListRootsRequest) else request.params
    return PreparedInput(request, method, params, needed_capability(method, params))


def prepare_input_for(method: str, params: Struct | None = None) -> PreparedInput:
    """Build the input request for this method.

    Raises:
        LocalProtocolError: the method is not an input request.
    """
    kind = _REQUESTS.get(method)
    if kind is None:
        raise LocalProtocolError("internal_error", f"{method} is not an input request")
    return prepare_input(kind(UNSET if params is None else params))  # type: ignore[arg-type]


class MissingInput(Struct, frozen=True):
    """Result of `InputRounds.request_input` without a response.

    The request is recorded; end the call with `InputRounds.result`.
    """

    key: str
    request: m.InputRequest


class _KnownResponse(Struct, array_like=True):
    mark: str
    answer: Raw


class _State(Struct, omit_defaults=True):
    """The contents of ``requestState``.

    Names have one letter because every message of the conversation carries them.
    """

    r: int = 0
    """Number of rounds so far."""
    q: dict[str, str] = {}
    """Input requests of the last round: key → fingerprint."""
    a: dict[str, _KnownResponse] = {}
    """Responses of earlier rounds."""
    m: dict[str, Raw] = {}
    """Results of completed steps."""
    s: Any = UNSET
    """The state of the handler."""


_write = msgspec.json.Encoder().encode
_read_state = msgspec.json.Decoder(_State).decode


MISSING: Final = object()
"""Returned by `InputRounds.step` without a stored result: run the step, then `remember` its result."""


class InputRounds:
    """The input state of one run of one call.

    Create it for every call that may request input; it costs nothing until used.

    Raises:
        ProtocolError: ``requestState`` was altered, belongs to another call or principal, or has expired
            (``invalid_request_state``); or a response does not match its input request (``invalid_params``).
    """

    def __init__(
        self,
        call: Call,
        seal: Seal,
        *,
        now: float,
        limits: Limits | None = None,
        lifetime: float,
        row: Method | None = None,
    ) -> None:
        self._call = call
        self._row = row or METHODS.get(call.method)
        self._seal = seal
        self._limits = Limits() if limits is None else limits
        self._expires = now + lifetime
        self._asked: dict[str, str] = {}
        self._count = 0
        params: Any = call.params if isinstance(call.params, m.InputResponseRequestParams) else _NEVER_ASKED
        self._answers: dict[str, Raw] = params.input_responses or {}
        self.missing: m.InputRequests = {}
        """Input requests of this run that have no response."""
        self._resumed = params.request_state is not UNSET
        self._state = self._open(params.request_state, now) if self._resumed else _State()
        self._fault: ProtocolError | None = None
        self._fresh: dict[str, Any] = {}
        """Decoded responses to the input requests of the last round."""
        for key, mark in self._state.q.items():
            method, raw = _METHODS.get(mark[0]), self._answers.get(key)
            if method is not None and raw is not None:
                self._fresh[key] = self._read(method, key, raw)

    @property
    def state(self) -> Any:
        """The state that the handler stored in the last round; UNSET if none. Set it for the next round."""
        return self._state.s

    @state.setter
    def state(self, value: Any) -> None:
        self._state.s = value

    @property
    def round(self) -> int:
        """How many times the client has been asked for input already."""
        return self._state.r

    def request_input(self, question: PreparedInput, key: str | None = None) -> Any | MissingInput:
        """Return the decoded response to this input request, or `MissingInput`.

        Raises:
            CapabilityError: the client did not declare the capability; nothing was recorded.
            LocalProtocolError: this method may not request input, or ``key`` already belongs to another request.
            RemoteProtocolError: (``invalid_params``) the response does not match the request.
        """
        mark, state = question.fingerprint, self._state
        key = self._noted(question, mark, key)
        known = state.a.get(key)
        if known is not None and known.mark == mark:
            return self._read(question.method, key, known.answer)
        raw = self._answers.get(key)
        # Without a state the requests of the last round are unknown, so an unrequested response is accepted.
        if raw is not None and (not self._resumed or state.q.get(key) == mark):
            answer = self._fresh[key] if self._resumed else self._read(question.method, key, raw)
            state.a[key] = _KnownResponse(mark, raw)
            return answer
        self.missing[key] = question.request
        return MissingInput(key, question.request)

    def record(self, question: PreparedInput, key: str | None = None) -> MissingInput:
        """Record an input request, whatever is known already: for handlers that read the responses
        themselves.

        Raises:
            CapabilityError, LocalProtocolError: see `request_input`.
        """
        key = self._noted(question, question.fingerprint, key)
        self.missing[key] = question.request
        return MissingInput(key, question.request)

    def step(self, key: str) -> Any:
        """Return the result that an earlier round stored under ``key`` (plain JSON values), or `MISSING`."""
        memo = self._state.m.get(key)
        return MISSING if memo is None else msgspec.json.decode(memo)

    def remember(self, key: str, value: Any) -> None:
        """Store the result of a step for the following rounds.

        Raises:
            LocalProtocolError: the value cannot be encoded as JSON.
        """
        try:
            self._state.m[key] = Raw(msgspec.json.encode(value))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise LocalProtocolError(
                "internal_error", f"the result of step {key!r} cannot be encoded as JSON"
            ) from error

    def refuse(self, error: ProtocolError) -> ProtocolError:
        """Record an invalid response: the call ends with this error, whatever other input is missing."""
        self._fault = error
        return error

    def result(self) -> m.InputRequiredResult:
        """Build the result ``input_required``: all recorded input requests, and the sealed state.

        Raises:
            ProtocolError: of kind ``invalid_params``, if a response was invalid.
            Refusal: the call has requested input `Limits.max_input_rounds` times, or its state exceeds
                `Limits.max_request_state_bytes`.
        """
        if self._fault is not None:
            raise self._fault
        if self._state.r >= self._limits.max_input_rounds:
            raise Refusal(1004, message="this call has requested input too many times")
        before = self._state
        asked = self._asked
        if len(asked) != len(self.missing):
            asked = {key: asked[key] for key in self.missing}
        payload = _write(_State(before.r + 1, asked, before.a, before.m, before.s))
        token = self._seal.seal(PURPOSE, payload, expires=self._expires, bound=self._bound())
        if len(token) > self._limits.max_request_state_bytes:
            raise Refusal(1004, message="the request state of this call exceeds its size limit")
        return m.InputRequiredResult(input_requests=self.missing or UNSET, request_state=token)

    # --- internal -----------------------------------------------------------------------------------------

    def _open(self, token: str, now: float) -> _State:
        if len(token) > self._limits.max_request_state_bytes:
            raise ProtocolError("invalid_request_state")
        payload = self._seal.open(PURPOSE, token, now=now, bound=self._bound())
        return _read_state(payload)

    def _bound(self) -> bytes:
        """Return what the state is bound to: principal, method and params."""
        params = self._call.params
        name, arguments = None, UNSET
        if isinstance(params, (m.CallToolRequestParams, m.GetPromptRequestParams)):
            name, arguments = params.name, params.arguments
        elif isinstance(params, m.ReadResourceRequestParams):
            name = params.uri
        elif isinstance(params, CustomParams):
            arguments = params.arguments
        return bind(key_of(self._call.principal), self._call.method, name, digest(arguments))

    def _noted(self, question: PreparedInput, mark: str, key: str | None) -> str:
        """Check that the input request is allowed and return its key."""
        call = self._call
        if self._row is None or not self._row.may_request_input:
            raise LocalProtocolError("internal_error", f"{call.method} cannot request {question.method}")
        if not call.capabilities.has(question.need):
            raise CapabilityError(question.need)
        if key is None:
            self._count += 1
            key = f"input_{self._count}"
        if self._asked.setdefault(key, mark) != mark:
            raise LocalProtocolError("internal_error", f"two different input requests use the key {key!r}")
        return key

    def _read(self, method: str, key: str, raw: Raw) -> Any:
        try:
            return self._call.codec.decode_result(METHODS[method], raw)
        except RemoteProtocolError as error:
            message = f"inputResponses[{key!r}] is not a valid response to {method}"
            raise self.refuse(RemoteProtocolError("invalid_params", message, data=error.data)) from None
