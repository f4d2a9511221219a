"""Calls upstream that wait for the answers of a modern client: it was asked, and will come back, or not.

A legacy server asks in the middle of a call, and a modern client hears of it only when its own call ends. So the call
upstream stays open under a lease while the question goes out as ``input_required``; ``requestState`` names it. A client
that does not come back in time has the call upstream cancelled. The number of suspended calls is bounded.

A client may come back to another process with the same store (`HeldElsewhere`): its answers go to the process that has
the call, and the result comes back, both over the store's messages under the id of the call. That process repeats that
it is alive until the call upstream ends or asks again; without that the client is told to start over.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from ..cluster.message_bus import MAX_QUEUED_MESSAGES, WORKER_RESPONSE_TIMEOUT
from ..core.channel import PlainChannel, ServerRequestsNotSupported
from ..core.input_rounds import InputRounds, MissingInput, PreparedInput
from ..core.principal import key_of
from ..errors import DovetailError, ProtocolError, Refusal
from ..model import ClientCapabilities, Error
from ..model.meta import CLIENT_CAPABILITIES
from ..stores.base import Store
from ..stores.send_queue import SendQueue
from ..wire.dialects.dialect import wire_error
from ..wire.methods import METHODS, CustomParams
from ..wire.unknown_fields import encode_with_original

if TYPE_CHECKING:
    from .forwarding import Passing

HELD_CALLS: Final = 1_000
"""Calls behind that wait for an answer of a modern client, of all clients together."""
HELD_CALLS_EACH: Final = 100
"""Suspended calls of one principal."""
HELD_SECONDS: Final = 600.0
"""How long a modern client may take to come back with its answers."""
HELD_SIGN: Final = 5.0
"""Seconds between two signs of life while a call is held in one process and its client waits in another."""


class _Question(Struct, eq=False):
    put: PreparedInput
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

    async def ask(self, put: PreparedInput) -> Any:
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

    def give(self, rounds: InputRounds) -> None:
        """Give the server behind the answers that have come."""
        for key, question in list(self.questions.items()):
            answer = rounds.request_input(question.put, key)
            if type(answer) is not MissingInput and not question.answer.done():
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

    async def resume(self, id: str, passing: Passing, rounds: InputRounds) -> Struct | Raw:
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

    async def _wait(self, held: HeldCall, rounds: InputRounds | None = None) -> Struct | Raw:
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
            rounds.record(question.put, key)
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


# --- clients that come back to another process -----------------------------------------------------------------


class _Round(Struct, array_like=True):
    """A client has come back: what it says, and the topic where it is to be answered."""

    reply: str
    owner: str | None
    params: Raw
    meta: dict[str, Any]


class _Said(Struct):
    """One of: a sign of life (nothing at all), a notification, the result, or why there is none."""

    method: str = ""
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_ALIVE: Final = _Said()
_write = msgspec.json.Encoder().encode
_read_round = msgspec.json.Decoder(_Round).decode
_read_said = msgspec.json.Decoder(_Said).decode
_GONE: Final = "the call that asked is over, or the process that held it is gone: begin again"


class _Far(PlainChannel):
    """The channel of a call whose client is connected to another process."""

    def __init__(self, say: Callable[[_Said], None]) -> None:
        self._say = say

    def notify(self, method: str, params: Struct | None) -> None:
        self._say(_Said(method, Raw(_write(encode_with_original(params)))))

    async def request(self, method: str, params: Struct) -> Any:
        raise ServerRequestsNotSupported("its client has to be asked with the result")

    async def drain(self) -> None: ...


class HeldElsewhere:
    """The way between the processes that have ``store`` in common; ``resume`` is `HeldCalls.resume`."""

    def __init__(self, store: Store, resume: Callable[..., Any]) -> None:
        self._store, self._resume = store, resume
        self._outbox = SendQueue(store, MAX_QUEUED_MESSAGES)
        self._serving: set[asyncio.Task[None]] = set()

    def offer(self, held: HeldCall) -> Callable[[], None]:
        """Have it answered from elsewhere too, until what is returned is called."""
        return self._store.subscribe(f"held/{held.id}", partial(self._take, held))

    def _take(self, held: HeldCall, message: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(held, _read_round(message)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, held: HeldCall, round: _Round) -> None:
        before, say = held.passing.call, partial(self._say, round.reply)
        if round.owner != key_of(before.principal):
            return
        call = replace(
            before,
            params=before.codec.decode_params(held.passing.own_row or METHODS[before.method], round.params),
            meta=round.meta,
            capabilities=ClientCapabilities(round.meta[CLIENT_CAPABILITIES]),
        )
        passing = held.passing.beside(call, _Far(say))
        work = asyncio.ensure_future(self._resume(held.id, passing, passing.rounds()))
        stop = self._store.subscribe(f"{round.reply}/end", lambda _: work.cancel() and None)
        say(_ALIVE)
        try:
            while not (await asyncio.wait({work}, timeout=HELD_SIGN))[0]:
                say(_ALIVE)
            if not work.cancelled():
                result = work.result()
                say(_Said(result=result if isinstance(result, Raw) else call.codec.prepare(result)))
        except DovetailError as error:
            code, text, data = wire_error(error, call.revision, call.codec.dialect)
            say(_Said(error=Raw(_write(Error(code, text, data=data)))))
        finally:
            stop()
            work.cancel()

    async def pass_on(self, id: str, passing: Passing) -> Raw:
        """Hand over what the client in front came back with, and wait for what comes of it.

        Raises:
            ProtocolError: nobody has the call, or nobody any more; or what the server behind answered.
        """
        call, reply = passing.call, f"held/{secrets.token_hex(8)}"
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        stop = self._store.subscribe(reply, heard.put_nowait)
        params = call.params.merged() if isinstance(call.params, CustomParams) else call.params
        round = _Round(reply, key_of(call.principal), Raw(_write(params)), dict(call.meta))
        self._outbox.put(f"held/{id}", _write(round))
        try:
            while True:
                async with asyncio.timeout(WORKER_RESPONSE_TIMEOUT):
                    said = _read_said(await heard.get())
                if said.params is not UNSET:
                    passing.tell(said.method, call.codec.decode_params(METHODS[said.method], said.params))
                elif said.result is not UNSET:
                    return said.result
                elif said.error is not UNSET:
                    raise call.codec.decode_error(said.error)
        except TimeoutError:
            raise ProtocolError("invalid_request_state", _GONE) from None
        except asyncio.CancelledError:
            self._outbox.put(f"{reply}/end", b"")
            raise
        finally:
            stop()

    def _say(self, reply: str, said: _Said) -> None:
        self._outbox.put(reply, _write(said))

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await self._outbox.close()
