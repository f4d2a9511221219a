"""Calls behind that wait for answers of a modern client: it was asked, and will come back, or not.

A legacy server asks in the middle of a call, and a modern client hears of it only when its own call ends. So the call
behind stays open under a lease while the question goes out as ``input_required``; ``requestState`` names it. Whoever
does not come back in time has the call behind cancelled. The number of calls held is bounded. A client may come back
to another process that has the same store (`held_elsewhere.py`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from ..core.principal import key_of
from ..core.rounds import Put, Rounds, Wanted
from ..errors import ProtocolError, Refusal
from .bounds import HELD_CALLS, HELD_CALLS_EACH, HELD_SECONDS
from .held_elsewhere import HeldElsewhere

if TYPE_CHECKING:
    from ..stores.base import Store
    from .passing import Passing


class _Question(Struct, eq=False):
    put: Put
    answer: asyncio.Future[Any]


class HeldCall:
    """One call behind that is under way."""

    work: asyncio.Task[Struct | Raw]
    lease: asyncio.TimerHandle | None = None
    withdraw: Callable[[], None] | None = None
    """Ends the offer to be answered from another process."""
    _news: asyncio.Future[None] | None = None

    def __init__(self, passing: Passing) -> None:
        self.id = secrets.token_urlsafe(16)
        self.owner = key_of(passing.call.principal)
        self.passing = passing
        """The call in front that waits for it now, or waited last."""
        self.questions: dict[str, _Question] = {}
        self._count = 0

    async def ask(self, put: Put) -> Any:
        """Wait for the answer to a question of the server behind."""
        self._count += 1
        question = _Question(put, asyncio.get_running_loop().create_future())
        key = f"input_{self._count}"
        self.questions[key] = question
        self.tell()
        try:
            return await question.answer
        finally:
            self.questions.pop(key, None)

    def tell(self) -> None:
        """There is a question, or the end."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def give(self, rounds: Rounds) -> None:
        """Give the server behind the answers that have come."""
        for key, question in list(self.questions.items()):
            answer = rounds.ask(question.put, key)
            if type(answer) is not Wanted and not question.answer.done():
                question.answer.set_result(answer)
                self.questions.pop(key, None)

    def let_go(self) -> None:
        """It waits for nobody any more."""
        if self.lease is not None:
            self.lease.cancel()
        if self.withdraw is not None:
            self.withdraw = self.withdraw()

    async def news(self) -> None:
        """Wait for a question, or for the end."""
        while not (self.questions or self.work.done()):
            self._news = asyncio.get_running_loop().create_future()
            await self._news


class HeldCalls:
    """All calls that are held, of all clients: those whose client was asked and has not come back."""

    def __init__(self) -> None:
        self._calls: dict[str, HeldCall] = {}
        self._elsewhere: HeldElsewhere | None = None

    def share(self, store: Store) -> None:
        """Have calls answered by clients that come back to another process with this store."""
        self._elsewhere = HeldElsewhere(store, self.resume)

    async def run(self, passing: Passing, params: Struct) -> Struct | Raw:
        """Begin a call behind, and wait for its result or its first questions."""
        held = passing.held = HeldCall(passing)
        work = passing.open_to_questions(passing.send(params))
        held.work = asyncio.get_running_loop().create_task(work)
        held.work.add_done_callback(partial(self._ended, held))
        return await self._wait(held)

    def _ended(self, held: HeldCall, work: asyncio.Task[Any]) -> None:
        if self._calls.pop(held.id, None) is not None and not work.cancelled():
            work.exception()  # nobody waits for it: whoever comes back is told that the call is over
        held.let_go()
        held.tell()

    async def resume(self, id: str, passing: Passing, rounds: Rounds) -> Struct | Raw:
        """Give a call behind the answers it waits for, and wait on.

        Raises:
            ProtocolError: it is over, or somebody else answers it at this moment.
        """
        held = self._calls.pop(id, None)
        if held is None and self._elsewhere is not None:
            return await self._elsewhere.pass_on(id, passing)
        if held is None:
            reason = "the call that asked is over, being answered, or held by another process: begin again"
            raise ProtocolError("invalid_request_state", reason)
        held.let_go()
        held.passing.take_over(passing)
        return await self._wait(held, rounds)

    async def _wait(self, held: HeldCall, rounds: Rounds | None = None) -> Struct | Raw:
        try:
            if rounds is not None:
                held.give(rounds)
            await held.news()
            return held.work.result() if held.work.done() else self._question(held)
        except BaseException:
            # The client in front is gone, or cannot be asked: nobody will come back.
            held.work.cancel()
            await asyncio.wait([held.work])
            raise

    def _question(self, held: HeldCall) -> Struct:
        mine = sum(1 for each in self._calls.values() if each.owner == held.owner)
        if len(self._calls) >= HELD_CALLS or (mine >= HELD_CALLS_EACH and held.owner is not None):
            raise Refusal(1004, message="too many calls wait for an answer of their client")
        rounds = held.passing.rounds()
        rounds.state = {"held": held.id}
        for key, question in held.questions.items():
            rounds.want(question.put, key)
        result = rounds.result()
        held.lease = asyncio.get_running_loop().call_later(HELD_SECONDS, held.work.cancel)
        held.withdraw = None if self._elsewhere is None else self._elsewhere.offer(held)
        self._calls[held.id] = held
        return result

    async def close(self) -> None:
        """End them all."""
        work = [held.work for held in self._calls.values()]
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        if self._elsewhere is not None:
            await self._elsewhere.close()
