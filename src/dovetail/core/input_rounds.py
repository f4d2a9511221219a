"""Asking the client in the middle of a request, 2026-07-28: answers known, answers wanted.

A modern server cannot send requests. A handler that needs an answer ends the call with ``input_required``;
the client repeats the call with the answers, and the handler runs again from the top. `Rounds` is what one
run knows: `ask` returns the answer if an earlier round brought it, or notes the wish and returns `Wanted`;
then unwind the handler and answer with `result`. `step` and `remember` keep work that must not be done twice.

Between rounds everything travels in ``requestState``, sealed: bound to the principal, the method and the
salient params (name or uri, and the arguments), expiring, counted. An answer belongs to one question: it is
found by the question's key (given, or counted in order of asking) and holds only while the mark of the
question, its kind and a digest, is the same. A question that changed is asked again; so is one whose answer is
missing. What is no answer to its question is refused before the handler runs, and answers to questions nobody
asked are ignored.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import model as m
from ..errors import CapabilityError, LocalProtocolError, ProtocolError, Refusal, RemoteProtocolError
from ..settings import Limits
from ..wire.methods import METHODS, Method, OpenParams
from ..wire.seal import Seal, bind, digest
from .channel import Call
from .input_request_checks import needed_capability
from .principal import key_of

PURPOSE: Final = "state"

_LETTERS: Final = {"elicitation/create": "E", "sampling/createMessage": "S", "roots/list": "R"}
"""What the mark of a question begins with."""
_METHODS: Final = {letter: method for method, letter in _LETTERS.items()}

_REQUESTS: Final[dict[str, type[m.CreateMessageRequest | m.ElicitRequest | m.ListRootsRequest]]] = {
    "elicitation/create": m.ElicitRequest,
    "sampling/createMessage": m.CreateMessageRequest,
    "roots/list": m.ListRootsRequest,
}
_NEVER_ASKED: Final = m.InputResponseRequestParams()


class Put(Struct, eq=False):
    """A question as a client is asked it. The same one is put again whenever its handler runs again."""

    request: m.InputRequest
    method: str
    """The one it would have as a request of its own."""
    params: Struct | None
    need: str
    """The capability of a client that can be asked it."""
    _mark: str = ""

    @property
    def mark(self) -> str:
        """Its kind and a digest: another question has another one."""
        if not self._mark:
            self._mark = _LETTERS[self.method] + digest(self.request).hex()[:32]
        return self._mark


def put(request: m.InputRequest) -> Put:
    """``request`` as it can be put, again and again."""
    method = cast("str", type(request).__struct_config__.tag)
    params = None if isinstance(request, m.ListRootsRequest) else request.params
    return Put(request, method, params, needed_capability(method, params))


def put_as(method: str, params: Struct | None = None) -> Put:
    """The question of this method.

    Raises:
        LocalProtocolError: there is no such question.
    """
    kind = _REQUESTS.get(method)
    if kind is None:
        raise LocalProtocolError("internal_error", f"nobody can be asked for {method}")
    return put(kind(UNSET if params is None else params))  # type: ignore[arg-type]


class Wanted(Struct, frozen=True):
    """No answer yet. It has been noted; end the call with `Rounds.result`."""

    key: str
    request: m.InputRequest


class _Known(Struct, array_like=True):
    mark: str
    answer: Raw


class _State(Struct, omit_defaults=True):
    """What travels. One-letter names: it travels in every message of the conversation."""

    r: int = 0
    """Rounds so far."""
    q: dict[str, str] = {}
    """Questions asked in the last round: key → mark."""
    a: dict[str, _Known] = {}
    """Answers of earlier rounds."""
    m: dict[str, Raw] = {}
    """Steps done."""
    s: Any = UNSET
    """The handler's own."""


_write = msgspec.json.Encoder().encode
_read_state = msgspec.json.Decoder(_State).decode


MISSING: Final = object()
"""There is no memo under this key: do the work, then `remember` it."""


class Rounds:
    """One run of one call. Make it for every call that may ask; it costs nothing until it is used.

    Raises:
        ProtocolError: ``requestState`` was altered, belongs to another call or person, or is too old
            (``invalid_request_state``); or what answers a question of the last round is no answer to it
            (``invalid_params``).
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
        self.wanted: m.InputRequests = {}
        """What this run asked and has no answer for."""
        self._resumed = params.request_state is not UNSET
        self._state = self._open(params.request_state, now) if self._resumed else _State()
        self._fault: ProtocolError | None = None
        self._fresh: dict[str, Any] = {}
        """What answers the questions of the last round, decoded."""
        for key, mark in self._state.q.items():
            method, raw = _METHODS.get(mark[0]), self._answers.get(key)
            if method is not None and raw is not None:
                self._fresh[key] = self._read(method, key, raw)

    @property
    def state(self) -> Any:
        """What the handler left for itself in the last round; UNSET when nothing. Set it for the next one."""
        return self._state.s

    @state.setter
    def state(self, value: Any) -> None:
        self._state.s = value

    @property
    def round(self) -> int:
        """How often the client has been asked already."""
        return self._state.r

    def ask(self, question: Put, key: str | None = None) -> Any | Wanted:
        """The decoded answer to this question, or `Wanted`.

        Raises:
            CapabilityError: this client cannot be asked that; nothing was noted.
            LocalProtocolError: this call may not ask, or ``key`` already stands for another question.
            RemoteProtocolError: (``invalid_params``) what the client answered is no answer.
        """
        mark, state = question.mark, self._state
        key = self._noted(question, mark, key)
        known = state.a.get(key)
        if known is not None and known.mark == mark:
            return self._read(question.method, key, known.answer)
        raw = self._answers.get(key)
        # Without a state nothing says what was asked: a client that answers by itself is believed.
        if raw is not None and (not self._resumed or state.q.get(key) == mark):
            answer = self._fresh[key] if self._resumed else self._read(question.method, key, raw)
            state.a[key] = _Known(mark, raw)
            return answer
        self.wanted[key] = question.request
        return Wanted(key, question.request)

    def want(self, question: Put, key: str | None = None) -> Wanted:
        """Note a question whatever is known already: for handlers that read the answers themselves.

        Raises:
            CapabilityError, LocalProtocolError: as `ask`.
        """
        key = self._noted(question, question.mark, key)
        self.wanted[key] = question.request
        return Wanted(key, question.request)

    def step(self, key: str) -> Any:
        """What an earlier round remembered under ``key`` (plain JSON values), or `MISSING`."""
        memo = self._state.m.get(key)
        return MISSING if memo is None else msgspec.json.decode(memo)

    def remember(self, key: str, value: Any) -> None:
        """Keep the outcome of a step for the rounds to come.

        Raises:
            LocalProtocolError: the value cannot be written as JSON.
        """
        try:
            self._state.m[key] = Raw(msgspec.json.encode(value))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise LocalProtocolError(
                "internal_error", f"the outcome of step {key!r} cannot be written as JSON"
            ) from error

    def refuse(self, error: ProtocolError) -> ProtocolError:
        """An answer was none: whatever is open besides, the client is told so and not asked again."""
        self._fault = error
        return error

    def result(self) -> m.InputRequiredResult:
        """The answer that asks: every wish noted so far, and the sealed state.

        Raises:
            ProtocolError: of kind ``invalid_params``, when an answer was none.
            Refusal: the call has asked `Limits.max_input_rounds` times, or its state outgrew
                `Limits.max_request_state_bytes`.
        """
        if self._fault is not None:
            raise self._fault
        if self._state.r >= self._limits.max_input_rounds:
            raise Refusal(1004, message="this call has asked its client too often")
        before = self._state
        asked = self._asked
        if len(asked) != len(self.wanted):
            asked = {key: asked[key] for key in self.wanted}
        payload = _write(_State(before.r + 1, asked, before.a, before.m, before.s))
        token = self._seal.seal(PURPOSE, payload, expires=self._expires, bound=self._bound())
        if len(token) > self._limits.max_request_state_bytes:
            raise Refusal(1004, message="the state of this call is too large to travel")
        return m.InputRequiredResult(input_requests=self.wanted or UNSET, request_state=token)

    # --- inside -------------------------------------------------------------------------------------------

    def _open(self, token: str, now: float) -> _State:
        if len(token) > self._limits.max_request_state_bytes:
            raise ProtocolError("invalid_request_state")
        payload = self._seal.open(PURPOSE, token, now=now, bound=self._bound())
        return _read_state(payload)

    def _bound(self) -> bytes:
        """What a state is good for: this person, this method, these params."""
        params = self._call.params
        name, arguments = None, UNSET
        if isinstance(params, (m.CallToolRequestParams, m.GetPromptRequestParams)):
            name, arguments = params.name, params.arguments
        elif isinstance(params, m.ReadResourceRequestParams):
            name = params.uri
        elif isinstance(params, OpenParams):
            arguments = params.arguments
        return bind(key_of(self._call.principal), self._call.method, name, digest(arguments))

    def _noted(self, question: Put, mark: str, key: str | None) -> str:
        """The key of a question that may be asked."""
        call = self._call
        if self._row is None or not self._row.may_ask:
            raise LocalProtocolError("internal_error", f"{call.method} cannot ask for {question.method}")
        if not call.capabilities.has(question.need):
            raise CapabilityError(question.need)
        if key is None:
            self._count += 1
            key = f"input_{self._count}"
        if self._asked.setdefault(key, mark) != mark:
            raise LocalProtocolError("internal_error", f"two different questions share the key {key!r}")
        return key

    def _read(self, method: str, key: str, raw: Raw) -> Any:
        try:
            return self._call.codec.decode_result(METHODS[method], raw)
        except RemoteProtocolError as error:
            message = f"inputResponses[{key!r}] is no answer to {method}"
            raise self.refuse(RemoteProtocolError("invalid_params", message, data=error.data)) from None
