"""Calls behind that wait for answers of a modern client: it was asked, and will come back, or not.

A legacy server asks in the middle of a call, and a modern client hears of it only when its own call ends. So the call
behind stays open under a lease while the question goes out as ``input_required``; ``requestState`` names it. Whoever
does not come back in time has the call behind cancelled. The number of calls held is bounded.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from ..core.principal import key_of
from ..core.rounds import Rounds, Wanted
from ..errors import ProtocolError, Refusal
from .bounds import HELD_CALLS, HELD_CALLS_EACH, HELD_SECONDS

if TYPE_CHECKING:
    from .passing import Passing


class _Question(Struct, eq=False):
    method: str
    params: Any
    answer: asyncio.Future[Any]


class HeldCall:
    """One call behind that is under way."""

    def __init__(self, passing: Passing) -> None:
        self.id = secrets.token_urlsafe(16)
        self.owner = key_of(passing.call.principal)
        self.passing = passing
        """The call in front that waits for it now, or waited last."""
        self.work: asyncio.Task[Struct | Raw]
        self.questions: dict[str, _Question] = {}
        self.asked = asyncio.Event()
        self.waiting = False
        """A call in front waits for it at this moment."""
        self.lease: asyncio.TimerHandle | None = None
        self.count = 0

    async def ask(self, method: str, params: Any) -> Any:
        """Wait for the answer to a question of the server behind."""
        self.count += 1
        question = _Question(method, params, asyncio.get_running_loop().create_future())
        key = f"input_{self.count}"
        self.questions[key] = question
        self.asked.set()
        try:
            return await question.answer
        finally:
            self.questions.pop(key, None)


class HeldCalls:
    """All calls that are held, of all clients."""

    def __init__(self) -> None:
        self._calls: dict[str, HeldCall] = {}

    async def run(self, passing: Passing, params: Struct) -> Struct | Raw:
        """Begin a call behind, and wait for its result or its first questions."""
        held = passing.held = HeldCall(passing)
        mine = sum(1 for each in self._calls.values() if each.owner == held.owner)
        if len(self._calls) >= HELD_CALLS or (mine >= HELD_CALLS_EACH and held.owner is not None):
            raise Refusal(1004, message="too many calls wait for an answer of their client")
        self._calls[held.id] = held
        context = contextvars.copy_context()
        held.work = asyncio.get_running_loop().create_task(self._work(held, params), context=context)
        return await self._wait(held)

    async def _work(self, held: HeldCall, params: Struct) -> Struct | Raw:
        try:
            with held.passing.upstream.asked_by(held.passing):
                return await held.passing.send(params)
        finally:
            if not held.waiting:
                self._forget(held)

    async def resume(self, id: str, passing: Passing, rounds: Rounds) -> Struct | Raw:
        """Give a call behind the answers it waits for, and wait on.

        Raises:
            ProtocolError: it is over, or somebody else answers it at this moment.
        """
        held = self._calls.get(id)
        if held is None or held.waiting:
            raise ProtocolError(
                "invalid_request_state", "the call that asked is over, or being answered: begin again"
            )
        if held.lease is not None:
            held.lease.cancel()
        held.passing.take_over(passing)
        for key, question in list(held.questions.items()):
            answer = rounds.ask(question.method, question.params, key)
            if type(answer) is not Wanted and not question.answer.done():
                question.answer.set_result(answer)
                held.questions.pop(key, None)
        if not held.questions:
            held.asked.clear()
        return await self._wait(held)

    async def _wait(self, held: HeldCall) -> Struct | Raw:
        held.waiting = True
        asked = asyncio.ensure_future(held.asked.wait())
        try:
            await asyncio.wait((held.work, asked), return_when=asyncio.FIRST_COMPLETED)
            if not held.work.done():
                return self._question(held)
            self._forget(held)
            return held.work.result()
        except BaseException:
            # The client in front is gone, or cannot be asked: nobody will come back.
            self._forget(held)
            held.work.cancel()
            await asyncio.wait([held.work])
            raise
        finally:
            held.waiting = False
            asked.cancel()

    def _question(self, held: HeldCall) -> Struct:
        rounds = held.passing.rounds()
        rounds.state = {"held": held.id}
        for key, question in held.questions.items():
            rounds.want(question.method, question.params, key)
        result = rounds.result()
        held.lease = asyncio.get_running_loop().call_later(HELD_SECONDS, held.work.cancel)
        return result

    def _forget(self, held: HeldCall) -> None:
        self._calls.pop(held.id, None)
        if held.lease is not None:
            held.lease.cancel()

    async def close(self) -> None:
        """End them all."""
        work = [held.work for held in self._calls.values()]
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        self._calls.clear()
