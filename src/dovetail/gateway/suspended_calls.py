"""Suspended upstream calls: a legacy upstream waits for input that a modern client sends with its next
request.

A legacy upstream sends requests during a call, but a modern client receives them only when its own call ends.
The upstream call therefore stays open under a lease while the requests are sent as ``input_required``;
``requestState`` names it. It is cancelled if the client does not continue in time. The number of suspended
calls is limited.

The client may continue in another process with the same store (`RemoteSuspendedCalls`). Its responses are
published to the process with the call, and the result is published back under the id of the call. That
process sends heartbeats until the upstream call ends or requests more input. Without them the client gets an
error.
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
    from .forwarding import ForwardedCall

HELD_CALLS: Final = 1_000
"""Suspended calls of all clients."""
HELD_CALLS_EACH: Final = 100
"""Suspended calls of one principal."""
HELD_SECONDS: Final = 600.0
"""Seconds that a modern client may take to continue."""
HELD_SIGN: Final = 5.0
"""Seconds between heartbeats to a process that waits for a call of another process."""


class _Question(Struct, eq=False):
    put: PreparedInput
    answer: asyncio.Future[Any]


class SuspendedCall:
    """One upstream call in progress."""

    work: asyncio.Task[Struct | Raw]
    lease: asyncio.TimerHandle | None = None
    withdraw: Callable[[], None] | None = None
    """Ends the availability in other processes."""
    _news: asyncio.Future[None] | None = None

    def __init__(self, passing: ForwardedCall) -> None:
        self.id = secrets.token_urlsafe(16)
        self.owner = key_of(passing.call.principal)
        self.passing = passing
        """The downstream call that waits for it now, or did last."""
        self.questions: dict[str, _Question] = {}
        self._count = 0

    async def ask(self, put: PreparedInput) -> Any:
        """Wait for the response to a server-to-client request of the upstream."""
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
        """Wake the waiting call: there is a request, or the call has ended."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def give(self, rounds: InputRounds) -> None:
        """Deliver the received responses to the upstream."""
        for key, question in list(self.questions.items()):
            answer = rounds.request_input(question.put, key)
            if type(answer) is not MissingInput and not question.answer.done():
                question.answer.set_result(answer)
                self.questions.pop(key, None)

    def let_go(self) -> None:
        """End the lease and the availability in other processes."""
        if self.lease is not None:
            self.lease.cancel()
        if self.withdraw is not None:
            self.withdraw = self.withdraw()

    async def news(self) -> None:
        """Wait for a request of the upstream, or for the end of the call."""
        while not (self.questions or self.work.done()):
            self._news = asyncio.get_running_loop().create_future()
            await self._news


class SuspendedCalls:
    """The suspended calls of a process."""

    def __init__(self) -> None:
        self._calls: dict[str, SuspendedCall] = {}
        self._elsewhere: RemoteSuspendedCalls | None = None

    def share(self, store: Store) -> None:
        """Make calls available to other processes with this store."""
        self._elsewhere = RemoteSuspendedCalls(store, self.resume)

    async def run(self, passing: ForwardedCall, params: Struct) -> Struct | Raw:
        """Start an upstream call. Wait for its result or its first requests."""
        held = passing.held = SuspendedCall(passing)
        work = passing.open_to_questions(passing.send(params))
        held.work = asyncio.get_running_loop().create_task(work)
        held.work.add_done_callback(partial(self._ended, held))
        return await self._wait(held)

    def _ended(self, held: SuspendedCall, work: asyncio.Task[Any]) -> None:
        if self._calls.pop(held.id, None) is not None and not work.cancelled():
            work.exception()  # mark as retrieved: no call waits for it
        held.let_go()
        held.tell()

    async def resume(self, id: str, passing: ForwardedCall, rounds: InputRounds) -> Struct | Raw:
        """Deliver responses to an upstream call and wait for its next requests or result.

        Raises:
            ProtocolError: the call has ended, or another request continues it now.
        """
        held = self._calls.pop(id, None)
        if held is None and self._elsewhere is not None:
            return await self._elsewhere.pass_on(id, passing)
        if held is None:
            reason = "the suspended call has ended or is in use by another request; start the call again"
            raise ProtocolError("invalid_request_state", reason)
        held.let_go()
        held.passing.take_over(passing)
        return await self._wait(held, rounds)

    async def _wait(self, held: SuspendedCall, rounds: InputRounds | None = None) -> Struct | Raw:
        try:
            if rounds is not None:
                held.give(rounds)
            await held.news()
            return held.work.result() if held.work.done() else self._question(held)
        except BaseException:
            # The downstream client has disconnected or cannot be asked: it will not continue.
            held.work.cancel()
            await asyncio.wait([held.work])
            raise

    def _question(self, held: SuspendedCall) -> Struct:
        mine = sum(1 for each in self._calls.values() if each.owner == held.owner)
        if len(self._calls) >= HELD_CALLS or (mine >= HELD_CALLS_EACH and held.owner is not None):
            raise Refusal(1004, message="too many suspended calls wait for client input; retry later")
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
        """Cancel all calls."""
        work = [held.work for held in self._calls.values()]
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        if self._elsewhere is not None:
            await self._elsewhere.close()


# --- clients that continue in another process
# ----------------------------------------------------------------


class _Round(Struct, array_like=True):
    """A request that continues a call, with the topic for the replies."""

    reply: str
    owner: str | None
    params: Raw
    meta: dict[str, Any]


class _Said(Struct):
    """A reply: a heartbeat (empty), a notification, a result or an error."""

    method: str = ""
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_ALIVE: Final = _Said()
_write = msgspec.json.Encoder().encode
_read_round = msgspec.json.Decoder(_Round).decode
_read_said = msgspec.json.Decoder(_Said).decode
_GONE: Final = "the suspended call or its process has ended; start the call again"


class _Far(PlainChannel):
    """The channel of a call whose client is connected to another process."""

    def __init__(self, say: Callable[[_Said], None]) -> None:
        self._say = say

    def notify(self, method: str, params: Struct | None) -> None:
        self._say(_Said(method, Raw(_write(encode_with_original(params)))))

    async def request(self, method: str, params: Struct) -> Any:
        raise ServerRequestsNotSupported("the client receives requests with the result only")

    async def drain(self) -> None: ...


class RemoteSuspendedCalls:
    """Connects suspended calls of processes with a common store. ``resume`` is `SuspendedCalls.resume`."""

    def __init__(self, store: Store, resume: Callable[..., Any]) -> None:
        self._store, self._resume = store, resume
        self._outbox = SendQueue(store, MAX_QUEUED_MESSAGES)
        self._serving: set[asyncio.Task[None]] = set()

    def offer(self, held: SuspendedCall) -> Callable[[], None]:
        """Make a call available to other processes until the returned function is called."""
        return self._store.subscribe(f"held/{held.id}", partial(self._take, held))

    def _take(self, held: SuspendedCall, message: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(held, _read_round(message)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, held: SuspendedCall, round: _Round) -> None:
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

    async def pass_on(self, id: str, passing: ForwardedCall) -> Raw:
        """Send a continued call to its process and wait for the result.

        Raises:
            ProtocolError: no process has the call, or the error of the upstream.
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
