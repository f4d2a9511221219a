"""The state machine of a task: work whose result is fetched later. One machine for all three task designs.

====================  =========================================================================
status                meaning
====================  =========================================================================
``pending``           accepted, not started; official revisions report ``working``
``working``           running
``input_required``    waiting for input from the client
``completed``         the result is available (also an ``isError`` tool result)
``failed``            the error is available
``cancelled``         stopped on request
====================  =========================================================================

`TaskMachine` is plain data that a store can save (`msgspec.json.encode` and back). The time is always passed
in. `task_views` defines how a peer sees a task.
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
TaskDesign = Literal["core", "extension", "erlmcp"]

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
"""Status → event → next status. Other events are errors. A terminal status never changes."""


class TaskCaller(Struct, omit_defaults=True):
    """The caller of a task, stored so that a worker can run the task again. Tokens and claims are not stored."""

    revision: str
    capabilities: dict[str, Any] = {}
    client_info: dict[str, Any] | None = None
    subject: str | None = None
    issuer: str | None = None
    scopes: list[str] = []
    client_id: str | None = None
    trace: dict[str, str] = {}
    """The trace context of the request, see `trace_context`."""


class TaskMachine(Struct, kw_only=True, eq=False, omit_defaults=True):
    """One task. Change it only through its methods, and store it before notifying a peer."""

    id: str
    """Unguessable: without a principal, knowledge of the id is the only authorization."""
    design: TaskDesign
    """The task design of the request. Responses use the same design."""
    created: float
    """Seconds since the epoch."""
    updated: float
    principal: str | None = None
    method: str = "tools/call"
    """The method that the task runs."""
    name: str | None = None
    """Name of the tool or action."""
    caller: TaskCaller | None = None
    """Stored if another worker may have to run the task again."""
    parameters: Raw | UnsetType = UNSET
    status: Status = "pending"
    message: str | None = None
    """Status message of the handler, for people."""
    ttl: int | None = None
    """Milliseconds from creation until the task expires; None: never."""
    poll_interval: int | None = None
    """Milliseconds between polls that the client is asked to keep."""
    timeout: int | None = None
    """Milliseconds that the handler may take."""
    progress_token: RequestId | None = None
    label: str | None = None
    """The id that the client chose; peers see it instead of ``id``."""
    depends_on: list[str] = []
    """Ids of tasks that must complete before this one starts."""
    metadata: dict[str, Any] | UnsetType = UNSET
    """Metadata that an erlmcp client sent."""
    progress: float | None = None
    total: float | None = None
    """Progress as reported by the handler, and its total."""
    reason: str | None = None
    """Reason for the cancellation."""
    queued: bool = False
    """The task was queued for workers. Until it starts, only a worker may run it while workers exist."""
    quota_key: str | None = None
    """Key of the quota entry for its principal."""
    byte_quota_keys: tuple[str, ...] = ()
    """Keys of the quota entries for its bytes, if it is large."""
    result: Raw | UnsetType = UNSET
    is_error: bool = False
    """The result is an ``isError`` tool result."""
    error: Error | UnsetType = UNSET
    input_requests: InputRequests = {}
    """Input requests that wait for a response."""
    input_keys: list[str] = []
    """All keys of input requests so far. A task never uses a key twice."""
    responses: dict[str, Raw] = {}
    """Responses that the handler has not read yet."""

    @property
    def public_id(self) -> str:
        """The task id that peers see."""
        return self.label or self.id

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    # --- events -------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """The handler starts."""
        self._advance("start", now)

    def restart(self, now: float) -> None:
        """Another worker restarts the handler from the beginning. Open input requests will be sent again."""
        if not self.ended:
            self.status = "pending" if self.status == "pending" else "working"
            self.input_requests, self.responses = {}, {}
            self.updated = max(now, self.updated)

    def request_input(self, questions: InputRequests, now: float) -> None:
        """The handler needs input. Further input requests may be added while others wait.

        Raises:
            LocalProtocolError: a key was used before.
        """
        for key in questions:
            if key in self.input_keys:
                raise LocalProtocolError(
                    "internal_error", f"this task already used the input request key {key!r}"
                )
        self._advance("ask", now)
        self.input_requests = {**self.input_requests, **questions}
        self.input_keys = [*self.input_keys, *questions]

    def respond(self, responses: Mapping[str, Raw], codec: Codec, now: float) -> list[str]:
        """Store the client's responses and return the keys that were accepted.

        Unknown and answered keys are ignored, and partial responses are allowed. After the task has ended,
        all responses are ignored. The handler continues once no input request is open.

        Raises:
            RemoteProtocolError: a response does not match its input request (``invalid_params``); none was
                stored.
        """
        taken = {key: raw for key, raw in responses.items() if key in self.input_requests}
        if not taken or self.ended:
            return []
        for key, raw in taken.items():
            _check_answer(key, self.input_requests[key], raw, codec)
        self.responses = {**self.responses, **taken}
        self.input_requests = {
            key: question for key, question in self.input_requests.items() if key not in taken
        }
        if self.input_requests:
            self.updated = max(now, self.updated)
        else:
            self._advance("answer", now)
        return list(taken)

    def withdraw(self, keys: Sequence[str], now: float) -> None:
        """Remove input requests that will get no response: the handler continued without them, or the client
        failed."""
        left = {key: question for key, question in self.input_requests.items() if key not in keys}
        if len(left) == len(self.input_requests):
            return
        self.input_requests = left
        if not left:
            self._advance("answer", now)

    def take_response(self, key: str) -> Raw | None:
        """Return the response for ``key`` to the handler and remove it; None without a response."""
        return self.responses.pop(key, None)

    def complete(self, result: Raw, now: float, *, is_error: bool = False) -> None:
        """The handler returned a result; ``is_error`` for an ``isError`` tool result."""
        self._advance("complete", now)
        self.result = result
        self.is_error = is_error

    def fail(self, error: Error, now: float) -> None:
        """The handler failed with a JSON-RPC error."""
        self._advance("fail", now)
        self.error = error
        self.message = error.message

    def cancel(self, now: float, reason: str | None = None) -> None:
        """Cancel the task.

        Raises:
            ProtocolError: ``task_already_completed`` if it has ended.
        """
        if self.ended:
            raise ProtocolError(
                "task_already_completed",
                f"the task is already {self.status}",
                data={"taskId": self.public_id},
            )
        self._advance("cancel", now)
        self.reason, self.message = reason, reason or self.message

    def report_progress(self, message: str | None, progress: float, total: float | None, now: float) -> None:
        """Record the progress and status message of the handler. Ignored after the end."""
        if not self.ended:
            self.message = message or self.message
            self.progress, self.total = progress, total
            self.updated = max(now, self.updated)

    # --- expiry -------------------------------------------------------------------------------------------

    @property
    def expires(self) -> float | None:
        """The time after which the task may be deleted; None: never."""
        return None if self.ttl is None else self.created + self.ttl / 1000

    @property
    def time_limit(self) -> float | None:
        """Seconds that the handler may take.

        It is limited by the TTL, after which the result cannot be fetched.
        """
        limits = [limit for limit in (self.ttl, self.timeout) if limit is not None]
        return min(limits) / 1000 if limits else None

    def expired(self, now: float) -> bool:
        """Whether the task may be deleted, finished or not."""
        expires = self.expires
        return expires is not None and now >= expires

    def _advance(self, event: str, now: float) -> None:
        target = TRANSITIONS[self.status].get(event)
        if target is None:
            raise ProtocolError(
                "task_state_invalid",
                f"task with status {self.status!r} does not allow {event!r}",
                data={"taskId": self.public_id},
            )
        self.status = target
        # The clock may step back. The last change of a task never precedes an earlier one.
        self.updated = max(now, self.updated)
        if target in TERMINAL:
            self.input_requests = {}


def _check_answer(key: str, question: InputRequest, raw: Raw, codec: Codec) -> None:
    method = str(type(question).__struct_config__.tag)
    try:
        codec.decode_result(METHODS[method], raw)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(
            "invalid_params", f"response {key!r} does not match its input request: {error.message}"
        ) from None
