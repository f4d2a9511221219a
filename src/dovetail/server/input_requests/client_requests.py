"""Send input requests to the client and wait for the answers, on legacy and modern revisions.

On a legacy revision an input request is a JSON-RPC request on the stream of the call, and the handler waits. On
2026-07-28 the call ends with ``input_required``, and the handler runs again from the start when the client repeats the
call. A request that has its answer then returns at once; one without is recorded and unwinds the handler. `asking_for`
chooses between the two once per call. Handlers see no difference.
"""

from __future__ import annotations

import asyncio
import typing
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import UNSET

from ...core.channel import Call, Channel
from ...core.input_rounds import MISSING, InputRounds, MissingInput, prepare_input
from ...errors import CapabilityError, ProtocolError, Refusal, RemoteProtocolError
from ...model import InputRequest, InputRequiredResult
from ...wire.methods import METHODS
from ..execution import HandlerRunner, stop_clock
from ..signatures.plain_types import plain
from .input_required import InputNotSupported, InputRejected, InputRequired
from .request_kinds import Question

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher

ELICIT: Final = "elicitation/create"


class Unwind(BaseException):
    """Leaves a handler whose input request has no answer yet.

    It is a BaseException, so that ``except Exception`` in a handler does not catch it. Code that catches it anyway
    changes nothing: a call with unanswered input requests always ends with ``input_required``.
    """


class PlainQuestion(Question[Any]):
    """An input request of an `InputRequired`: its answer stays plain JSON."""

    def __init__(self, request: InputRequest, key: str | None) -> None:
        super().__init__(request, key)
        self.method = self.put.method

    def read(self, result: Any) -> Any:
        return plain(result)


class Asking(Protocol):
    """The input requests of one run of a handler, and the answers known so far."""

    @property
    def open(self) -> bool:
        """An input request of this run has no answer: the result of the handler does not count."""
        ...

    @property
    def input_responses(self) -> Mapping[str, Any]: ...

    @property
    def handler_state(self) -> Any: ...

    async def ask(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """Send all requests, then return the answers in order."""
        ...

    def ask_one(self, question: Question[Any]) -> Coroutine[Any, Any, Any]:
        """Send one request and return its answer: the common case."""
        ...

    async def step(self, key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any: ...

    async def take(self, required: InputRequired) -> InputRequiredResult | None:
        """The result for a handler that returned ``required``; None to run the handler again at once."""
        ...

    def result(self) -> InputRequiredResult:
        """The result of a run with unanswered input requests."""
        ...


def asking_for(dispatcher: Dispatcher, call: Call, channel: Channel) -> Asking:
    """Choose how the handler of ``call`` sends input requests.

    Raises:
        ProtocolError: of kind ``invalid_request_state``, for every fault of the request state.
    """
    own: Asking | None = channel.asking
    if own is not None:
        return own  # the channel of a task has another implementation
    if call.revision.modern:
        return ModernAsking(dispatcher, call)
    return LegacyAsking(dispatcher, call, channel)


class LegacyAsking:
    """Input requests are JSON-RPC requests of the server, on the stream of the call."""

    asker = "call"

    def __init__(self, dispatcher: Dispatcher, call: Call, channel: Channel) -> None:
        self._runner: HandlerRunner = dispatcher.runner
        self._rounds = dispatcher.limits.max_input_rounds
        self._call = call
        self._channel = channel
        self._memo: dict[str, Any] = {}
        self.open = False
        self.input_responses: Mapping[str, Any] = {}
        self.handler_state: Any = None

    async def ask(self, questions: Sequence[Question[Any]]) -> list[Any]:
        if len(questions) != 1:
            return await self._ask_together(questions)
        return [await self.ask_one(questions[0])]

    async def ask_one(self, question: Question[Any]) -> Any:
        params = self._checked(question)
        if question.method == ELICIT and params.mode == "url" and params.elicitation_id is UNSET:
            params = msgspec.structs.replace(params, elicitation_id=uuid.uuid4().hex)
        stopped = stop_clock()
        try:
            result = await self._channel.request(question.method, params)
        except ProtocolError as error:
            raise InputRejected(error.kind, error.message, data=error.data, code=error.code) from error
        finally:
            if stopped is not None:
                stopped.resume()
        return question.read(result)

    async def step(self, key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        memo = self._memo.get(key, MISSING)
        if memo is MISSING:
            memo = self._memo[key] = plain(await self._runner.call(function, *args))
        return revive(memo, function)

    async def take(self, required: InputRequired) -> InputRequiredResult | None:
        self._count_round()
        await self._take(required)
        return None

    async def _take(self, required: InputRequired) -> None:
        requests = required.requests
        answers = await self.ask([PlainQuestion(request, key) for key, request in requests.items()])
        self.input_responses = dict(zip(requests, answers, strict=True))
        self.handler_state = required.state

    def _count_round(self) -> None:
        if not self._rounds:
            raise Refusal(1004, message=f"this {self.asker} has sent too many input requests to its client")
        self._rounds -= 1

    def result(self) -> InputRequiredResult:
        raise AssertionError("a legacy call never ends with unanswered input requests")

    async def _ask_together(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """Send all requests, or none if the client does not support one; return the answers in order."""
        for question in questions:
            self._checked(question)
        asked = [asyncio.ensure_future(self.ask_one(question)) for question in questions]
        try:
            return await asyncio.gather(*asked)
        except BaseException:
            for question in asked:
                question.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            raise

    def _checked(self, question: Question[Any]) -> Any:
        """The params of a request that the client supports."""
        asked, call = question.put, self._call
        need = asked.need
        if METHODS[asked.method].since > call.revision.index or not call.capabilities.has(need):
            raise InputNotSupported(need, f"the client did not declare the capability {need!r}")
        return asked.params


class ModernAsking:
    """Input requests end the call; the client repeats the call with the answers."""

    def __init__(self, dispatcher: Dispatcher, call: Call) -> None:
        self._runner: HandlerRunner = dispatcher.runner
        self._call = call
        self.open = False
        self._steps = None
        state = getattr(call.params, "request_state", UNSET)  # completions have no request state
        if dispatcher.lifecycle.store is not None and state is not UNSET:
            from ...cluster.stored_steps import steps_of  # a client may repeat the call to another worker

            self._steps = steps_of(dispatcher, dispatcher.lifecycle.store, call)
        self._rounds = InputRounds(
            call,
            dispatcher.seal,
            now=dispatcher.clock(),
            limits=dispatcher.limits,
            lifetime=dispatcher.settings.state_lifetime,
            row=dispatcher.admission.methods.custom.get(call.method),
        )

    @property
    def input_responses(self) -> Mapping[str, Any]:
        responses = getattr(self._call.params, "input_responses", UNSET)
        return {} if responses is UNSET else {key: msgspec.json.decode(raw) for key, raw in responses.items()}

    @property
    def handler_state(self) -> Any:
        state = self._rounds.state
        return None if state is UNSET else state

    async def ask(self, questions: Sequence[Question[Any]]) -> list[Any]:
        answers: list[Any] = []
        for question in questions:
            with suppress(Unwind):
                answers.append(await self.ask_one(question))
        if len(answers) < len(questions):
            raise Unwind
        return answers

    async def ask_one(self, question: Question[Any]) -> Any:
        try:
            answer = self._rounds.request_input(question.put, question.key)
            if type(answer) is not MissingInput:
                return question.read(answer)
        except CapabilityError as error:
            raise InputNotSupported(error.capability, error.message) from None
        except RemoteProtocolError as error:
            raise self._rounds.refuse(error) from None
        self.open = True
        raise Unwind

    async def step(self, key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        memo = self._rounds.step(key)
        if memo is MISSING:

            async def work() -> Any:
                return plain(await self._runner.call(function, *args))

            memo = await (work() if self._steps is None else self._steps.run(key, work))
            self._rounds.remember(key, memo)
        return revive(memo, function)

    async def take(self, required: InputRequired) -> InputRequiredResult | None:
        self._rounds.state = UNSET if required.state is None else required.state
        for key, request in required.requests.items():
            try:
                self._rounds.record(prepare_input(request), key)
            except CapabilityError as error:
                raise InputNotSupported(error.capability, error.message) from None
        return self._rounds.result()

    def result(self) -> InputRequiredResult:
        return self._rounds.result()


def revive(memo: Any, function: Callable[..., Any]) -> Any:
    """Decode the stored result of a step as the return annotation of its function; without one, as plain JSON.

    The first run decodes it too, so that a handler does not behave differently when it is run again.
    """
    try:
        kind = typing.get_type_hints(function).get("return", Any)
    except (TypeError, NameError):
        kind = Any  # a builtin, a lambda, an annotation of another scope
    if kind is Any:
        return memo
    validate = getattr(kind, "model_validate", None)
    return validate(memo) if callable(validate) else msgspec.convert(memo, kind)
