"""How a handler that runs as a task requests input, reports progress and detaches from its call.

A running task has no open request. Its input requests are stored in the task and answered by ``tasks/update``, or on
the stream of ``tasks/result``. Its progress becomes the status message of the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from ...core.channel import Call, Channel, PlainChannel, ServerRequestsNotSupported
from ...model import InputRequest, InputRequiredResult, ProgressNotificationParams
from ...server.execution import stop_clock
from ...server.input_requests.client_requests import Asking, LegacyAsking, Unwind
from ...server.input_requests.input_required import InputRequired
from ...server.input_requests.request_kinds import Question
from ...server.signatures.plain_types import plain
from ...wire.methods import METHODS
from ...wire.seal import digest

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher

PROGRESS = "notifications/progress"

Put = Callable[[dict[str, InputRequest]], Awaitable[dict[str, asyncio.Future[Raw]]]]


class TaskSteps(Protocol):
    """The stored steps and answers of a handler, for the next worker; UNSET means none."""

    async def get(self, key: str) -> Any: ...
    async def put(self, key: str, value: Any) -> None: ...
    async def run(self, key: str, work: Callable[[], Awaitable[Any]]) -> Any: ...


class TaskAsking(LegacyAsking):
    """Input requests are stored in the task, and the handler waits until the client answers them."""

    asker = "task"

    def __init__(
        self,
        dispatcher: Dispatcher,
        call: Call,
        channel: Channel,
        put: Put,
        asked: Callable[[str], bool],
        steps: TaskSteps | None = None,
    ) -> None:
        super().__init__(dispatcher, call, channel)
        self._steps = steps
        self._asks = 0
        self._put = put
        self._asked = asked
        self._count = 0

    async def take(self, required: InputRequired) -> InputRequiredResult | None:
        await self._take(required)
        return None

    async def ask(self, questions: Sequence[Question[Any]]) -> list[Any]:
        for question in questions:
            self._checked(question)
        self._count_round()  # every round is stored, so every round counts
        raws = await self._known(questions) or await self._wait(questions)
        decode = self._call.codec.decode_result
        return [
            question.read(decode(METHODS[question.method], raw))
            for question, raw in zip(questions, raws, strict=True)
        ]

    async def ask_one(self, question: Question[Any]) -> Any:
        return (await self.ask((question,)))[0]

    async def _wait(self, questions: Sequence[Question[Any]]) -> list[Raw]:
        answers = await self._put({self._key(question.key): question.request for question in questions})
        stopped = stop_clock()
        try:
            raws = await asyncio.gather(*answers.values())
        finally:
            if stopped is not None:
                stopped.resume()
            for answer in answers.values():
                answer.cancel()
        if self._steps is not None:
            kept = [_mark(questions), *(msgspec.json.decode(raw) for raw in raws)]
            await self._steps.put(f"asked-{self._asks}", kept)
        return raws

    async def _known(self, questions: Sequence[Question[Any]]) -> list[Raw] | None:
        """The answers that a previous worker received to the same input requests."""
        if self._steps is None:
            return None
        self._asks += 1
        found = await self._steps.get(f"asked-{self._asks}")
        if found is UNSET or found[0] != _mark(questions):
            return None
        return [Raw(msgspec.json.encode(answer)) for answer in found[1:]]

    async def step(self, key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._steps is not None and key not in self._memo:

            async def work() -> Any:
                return plain(await self._runner.call(function, *args))

            self._memo[key] = await self._steps.run(key, work)
        return await super().step(key, function, args)

    def _key(self, key: str | None) -> str:
        """A new key: within one task no key is used twice."""
        wish, number = key, 1
        while wish is None or self._asked(wish):
            self._count += key is None
            number += key is not None
            wish = f"input_{self._count}" if key is None else f"{key}_{number}"
        return wish


def _mark(questions: Sequence[Question[Any]]) -> str:
    return digest([msgspec.to_builtins(question.request) for question in questions]).hex()[:32]


class DetachableAsking:
    """Sends input requests as the call does until the handler detaches, and as the task does after that."""

    def __init__(self, before: Asking, after: Asking, *, remembers: bool) -> None:
        self._remembers = remembers
        """Whether the handler ran before it detached: then ``before`` has the results of its steps."""
        self._before = before
        self._after = after
        self._now = before

    def detach(self) -> None:
        self._now = self._after

    @property
    def open(self) -> bool:
        return self._now.open

    @property
    def input_responses(self) -> Mapping[str, Any]:
        return self._before.input_responses if self._now is self._before else self._after.input_responses

    @property
    def handler_state(self) -> Any:
        return self._now.handler_state

    async def ask(self, questions: Sequence[Question[Any]]) -> list[Any]:
        return await self._now.ask(questions)

    def ask_one(self, question: Question[Any]) -> Coroutine[Any, Any, Any]:
        return self._now.ask_one(question)

    async def step(self, key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        # Steps that ran before the handler detached are stored there, and must not run again.
        return await (self._before if self._remembers else self._now).step(key, function, args)

    async def take(self, required: InputRequired) -> InputRequiredResult | None:
        return await self._now.take(required)

    def result(self) -> InputRequiredResult:
        return self._now.result()


class TaskChannel(PlainChannel):
    """The channel of a running task. ``before`` is that of the call, until the handler has detached."""

    def __init__(
        self,
        task_id: str,
        say: Callable[[ProgressNotificationParams], None],
        tell: Callable[[str, Struct], None],
        before: Channel | None = None,
        detach: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.task_id = task_id
        self._say = say
        self._tell = tell
        self._before = before
        self._detach = detach
        self.asking: Asking | None = None

    def notify(self, method: str, params: Struct | None) -> None:
        if self._before is not None:
            self._before.notify(method, params)
            return
        if isinstance(params, ProgressNotificationParams):
            self._say(params)
        if params is not None:
            self._tell(method, params)

    async def request(self, method: str, params: Struct) -> Any:
        raise ServerRequestsNotSupported

    async def drain(self) -> None:
        if self._before is not None:
            await self._before.drain()

    async def continue_as_task(self) -> None:
        """From now on the call is a task: the client gets its id, and the handler continues."""
        if self._before is None or self._detach is None:
            return
        if self.asking is not None and self.asking.open:
            raise Unwind  # the handler caught the Unwind of an unanswered input request
        self._before = None
        await self._detach()
        if isinstance(self.asking, DetachableAsking):
            self.asking.detach()
