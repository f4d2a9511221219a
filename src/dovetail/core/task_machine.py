"""A task: work whose result is fetched later. One state machine for all three designs.

====================  =========================================================================
status                meaning
====================  =========================================================================
``pending``           accepted, not started; officially it is told as ``working``
``working``           running
``input_required``    waiting for answers of the client
``completed``         there is a result (a tool's ``isError`` result is one too)
``failed``            there is an error
``cancelled``         stopped on request
====================  =========================================================================

`TaskMachine` is plain data that a store can keep (`msgspec.json.encode` and back); the moment is always
passed in. How it looks to a peer is `faces`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from msgspec import UNSET, Raw, Struct, UnsetType

from ..errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from ..model import Error, InputRequest, InputRequests
from ..wire.codec import Codec
from ..wire.frames import RequestId
from ..wire.methods import METHODS

Status = Literal["pending", "working", "input_required", "completed", "failed", "cancelled"]
FaceName = Literal["core", "extension", "erlmcp"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
TERMINAL: Final[frozenset[str]] = frozenset({"completed", "failed", "cancelled"})

_ENDS: Final[Mapping[str, Status]] = {"complete": "completed", "fail": "failed", "cancel": "cancelled"}
TRANSITIONS: Final[Mapping[str, Mapping[str, Status]]] = {
    "pending": {"start": "working", **_ENDS},
    "working": {"ask": "input_required", **_ENDS},
    "input_required": {"ask": "input_required", "answer": "working", **_ENDS},
    "completed": {},
    "failed": {},
    "cancelled": {},
}
"""Status → event → next status. What is not here is refused; a terminal status never changes."""


class TaskCaller(Struct, omit_defaults=True):
    """Who asked for a task and how, as far as it takes to run it again. No token and no claim is kept."""

    revision: str
    capabilities: dict[str, Any] = {}
    client_info: dict[str, Any] | None = None
    subject: str | None = None
    issuer: str | None = None
    scopes: list[str] = []
    client_id: str | None = None
    trace: dict[str, str] = {}
    """On whose behalf, see `trace_context`."""


class TaskMachine(Struct, kw_only=True, eq=False, omit_defaults=True):
    """One task. Change it through its methods only, and store it before you tell anybody."""

    id: str
    """Unguessable: where there is no principal, knowing it is the only right to the task."""
    face: FaceName
    """How the task was asked for; peers are answered in the same way."""
    created: float
    """Seconds since the epoch."""
    updated: float
    principal: str | None = None
    method: str = "tools/call"
    """What the task is the result of."""
    name: str | None = None
    """The tool or action it runs."""
    caller: TaskCaller | None = None
    """Kept where another worker may have to run it again."""
    parameters: Raw | UnsetType = UNSET
    status: Status = "pending"
    message: str | None = None
    """What the work says about itself, for people."""
    ttl: int | None = None
    """Milliseconds from creation for which the task is kept; None: for ever."""
    poll_interval: int | None = None
    """Milliseconds a client is asked to wait between looks."""
    timeout: int | None = None
    """Milliseconds the work may take."""
    progress_token: RequestId | None = None
    label: str | None = None
    """What its client calls it; peers are told this in place of ``id``."""
    depends_on: list[str] = []
    """Tasks, by their ids, that have to be completed before the work begins."""
    metadata: dict[str, Any] | UnsetType = UNSET
    """What erlmcp's client said of it."""
    progress: float | None = None
    total: float | None = None
    """How far the work is, of how much, as it says itself."""
    reason: str | None = None
    """Why somebody had it cancelled."""
    queued: bool = False
    """It was handed over to workers: until it begins, nobody else takes it up while there are any."""
    place: str | None = None
    """What counts it among those of its principal."""
    more: tuple[str, ...] = ()
    """What counts its bytes, where it has many."""
    result: Raw | UnsetType = UNSET
    is_error: bool = False
    """The result is a tool's ``isError`` result."""
    error: Error | UnsetType = UNSET
    questions: InputRequests = {}
    """What waits for an answer."""
    asked: list[str] = []
    """Every key ever asked under: keys are never used twice in the life of a task."""
    answers: dict[str, Raw] = {}
    """Answers the work has not taken yet."""

    @property
    def shown(self) -> str:
        """Its id for peers."""
        return self.label or self.id

    @property
    def over(self) -> bool:
        return self.status in TERMINAL

    # --- what happens to it -------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """The work begins."""
        self._advance("start", now)

    def start_again(self, now: float) -> None:
        """Another worker takes the work up from its beginning; what was asked last will be asked again."""
        if not self.over:
            self.status = "pending" if self.status == "pending" else "working"
            self.questions, self.answers = {}, {}
            self.updated = max(now, self.updated)

    def ask(self, questions: InputRequests, now: float) -> None:
        """The work needs answers; more questions may join those that wait already.

        Raises:
            LocalProtocolError: a key was used before.
        """
        for key in questions:
            if key in self.asked:
                raise LocalProtocolError("internal_error", f"the key {key!r} was used before in this task")
        self._advance("ask", now)
        self.questions = {**self.questions, **questions}
        self.asked = [*self.asked, *questions]

    def answer(self, responses: Mapping[str, Raw], codec: Codec, now: float) -> list[str]:
        """Take the client's answers; return the keys that were taken.

        Keys that are unknown or answered already are ignored, any part of the answers will do, and once the
        task is over nothing is wanted any more. Only when no question is left does the work go on.

        Raises:
            RemoteProtocolError: an answer does not fit its question (``invalid_params``); none was taken.
        """
        taken = {key: raw for key, raw in responses.items() if key in self.questions}
        if not taken or self.over:
            return []
        for key, raw in taken.items():
            _check_answer(key, self.questions[key], raw, codec)
        self.answers = {**self.answers, **taken}
        self.questions = {key: question for key, question in self.questions.items() if key not in taken}
        if self.questions:
            self.updated = max(now, self.updated)
        else:
            self._advance("answer", now)
        return list(taken)

    def withdraw(self, keys: Sequence[str], now: float) -> None:
        """Questions that will not be answered any more: the work went on without, or the client failed."""
        left = {key: question for key, question in self.questions.items() if key not in keys}
        if len(left) == len(self.questions):
            return
        self.questions = left
        if not left:
            self._advance("answer", now)

    def take_answer(self, key: str) -> Raw | None:
        """Hand an answer to the work; None while there is none."""
        return self.answers.pop(key, None)

    def complete(self, result: Raw, now: float, *, is_error: bool = False) -> None:
        """The work has a result; ``is_error`` for a tool's ``isError`` result."""
        self._advance("complete", now)
        self.result = result
        self.is_error = is_error

    def fail(self, error: Error, now: float) -> None:
        """The work ended in a JSON-RPC error."""
        self._advance("fail", now)
        self.error = error
        self.message = error.message

    def cancel(self, now: float, reason: str | None = None) -> None:
        """Somebody does not want the result any more.

        Raises:
            ProtocolError: ``task_already_completed`` when it is over.
        """
        if self.over:
            raise ProtocolError(
                "task_already_completed", f"the task is already {self.status}", data={"taskId": self.shown}
            )
        self._advance("cancel", now)
        self.reason, self.message = reason, reason or self.message

    def say(self, message: str | None, progress: float, total: float | None, now: float) -> None:
        """Note what the work says about itself; after the end nothing changes."""
        if not self.over:
            self.message = message or self.message
            self.progress, self.total = progress, total
            self.updated = max(now, self.updated)

    # --- what time does to it -----------------------------------------------------------------------------

    @property
    def expires(self) -> float | None:
        """The moment from which the task may be forgotten; None: never."""
        return None if self.ttl is None else self.created + self.ttl / 1000

    @property
    def seconds(self) -> float | None:
        """How long the work may take: past its time to live nobody could ask for its result."""
        limits = [limit for limit in (self.ttl, self.timeout) if limit is not None]
        return min(limits) / 1000 if limits else None

    def expired(self, now: float) -> bool:
        """Whether the task may be forgotten, finished or not."""
        expires = self.expires
        return expires is not None and now >= expires

    def _advance(self, event: str, now: float) -> None:
        target = TRANSITIONS[self.status].get(event)
        if target is None:
            raise ProtocolError(
                "task_state_invalid",
                f"a task that is {self.status} cannot {event}",
                data={"taskId": self.shown},
            )
        self.status = target
        # Clocks step back; a task's last change never lies before an earlier one.
        self.updated = max(now, self.updated)
        if target in TERMINAL:
            self.questions = {}


def _check_answer(key: str, question: InputRequest, raw: Raw, codec: Codec) -> None:
    method = str(type(question).__struct_config__.tag)
    try:
        codec.decode_result(METHODS[method], raw)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(
            "invalid_params", f"the answer {key!r} does not fit its question: {error.message}"
        ) from None
