"""Letters between the processes that serve the sessions of one server: to one of them, or to all.

A process has an id that is new with each start, and is there as long as its key is in the store; it renews that key, so
one that was killed is gone `LEASE_LIFETIME` later, for others of its machine at once. Letters of one process to another
arrive in order, or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import re
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..drivers.heartbeat import repeat
from ..stores.base import Store, StoreError
from ..stores.send_queue import SendQueue
from ..wire.frames import RequestId
from .process_registry import LEASE_LIFETIME, ended, passport

MAX_QUEUED_MESSAGES: Final = 100_000
"""Messages that wait to be sent to other workers."""
WORKER_RESPONSE_TIMEOUT: Final = 15.0
"""How long another worker may take to respond to a message."""
WORKER_PROBE_DELAY: Final = 1.0
"""Wait time after which a process checks whether the other worker is still alive."""


log = logging.getLogger("dovetail.http")


class Letter(Struct, array_like=True, tag=True, frozen=True):
    """What one process tells another. ``session`` is the name under which the store has a session, never its id."""


class Answered(Letter, frozen=True):
    """The client of a session has answered a question that was asked there."""

    session: str
    message: bytes


class Withdrawn(Letter, frozen=True):
    """It has cancelled a call, which may run anywhere."""

    session: str
    message: bytes


class Changed(Letter, frozen=True):
    """What is kept of a session is this now."""

    session: str
    record: bytes


class Ended(Letter, frozen=True):
    session: str


class Told(Letter, frozen=True):
    """A message for the general stream of a session, from a process that does not have that."""

    session: str
    message: bytes


class Yield(Letter, frozen=True):
    """Who sends this has the general stream from now on."""

    session: str


class Vacant(Letter, frozen=True):
    """The client has left the general stream here; whoever has another response of it open may go on with that."""

    session: str


class Follow(Letter, frozen=True):
    """Send what is written to a stream after the event ``last``, now and later."""

    session: str
    last: str
    follower: int


class Followed(Letter, frozen=True):
    """What came after that event, whether that is all, and whose stream it is."""

    events: bytes
    over: bool
    request: RequestId | None


class Unfollow(Letter, frozen=True):
    follower: int


class More(Letter, frozen=True):
    """Events for a follower, and whether that was all."""

    follower: int
    events: bytes
    over: bool = False


class Posted(Letter, frozen=True):
    """A message that was posted to an HTTP+SSE connection there."""

    connection: str
    principal: str | None
    message: bytes
    headers: list[tuple[bytes, bytes]] = []


class Kept(Letter, frozen=True):
    """The general stream up to now: the number of its newest event, and events with theirs."""

    written: int
    events: list[tuple[int, bytes]]


class Done(Letter, frozen=True):
    """Whether it was as wished."""

    well: bool


Known = (
    Answered
    | Withdrawn
    | Changed
    | Ended
    | Told
    | Yield
    | Vacant
    | Follow
    | Followed
    | Unfollow
    | More
    | Posted
    | Kept
    | Done
)


class _Envelope(Struct, array_like=True):
    sender: str
    number: int
    """Of a question, or of the one this replies to; 0 for neither."""
    reply: bool
    letter: Known


_WORKER: Final = re.compile("[0-9a-f]{8}")
_write = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(_Envelope).decode

Handler = Callable[[Any, str], Known | None]
"""Takes a letter and the id of its sender; what it returns is the reply, if one is wanted."""


class MessageBus:
    """The letters of one process. Set ``handlers`` before `start`."""

    def __init__(self, store: Store, server: str) -> None:
        self.me = ""
        self.handlers: dict[type[Letter], Handler] = {}
        self.lost: Callable[[str], None] = lambda worker: None
        """Called with the id of a process that we `watch` and that is gone."""
        self.watched: set[str] = set()
        """Processes to watch: a handful, so they stay until they are gone."""
        self._store = store
        self._place = hashlib.sha256(server.encode()).hexdigest()[:16]
        self._outbox = SendQueue(store, MAX_QUEUED_MESSAGES)
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[Known]] = {}
        self._stops: list[Callable[[], None]] = []
        self._beat: asyncio.Task[None] | None = None
        self._doubtful = 0.0
        """Until then a missing sign of life means nothing."""

    def next_id(self) -> str:
        """An id for a request of ours that says which process asks."""
        return f"{self.me}-{next(self._numbers)}"

    async def start(self) -> None:
        if self._beat is not None:
            return
        self.me = secrets.token_hex(4)
        for topic in (self._topic(), self._topic(self.me)):
            self._stops.append(self._store.subscribe(topic, self._take))
        await self._live()
        self._beat = asyncio.create_task(repeat(LEASE_LIFETIME / 3, self._renew), name="dovetail-mail")

    async def stop(self) -> None:
        beat, self._beat = self._beat, None
        if beat is None:
            return
        beat.cancel()
        await asyncio.wait([beat])
        for stop in self._stops:
            stop()
        self._stops.clear()
        await self._outbox.close()
        try:
            await self._store.delete(self._key(self.me))
        except StoreError as error:
            log.warning("other processes find out by themselves that this one has ended: %s", error.message)

    def tell(self, worker: str | None, letter: Known) -> None:
        """Send to one process, or to all others."""
        self._send(worker, _Envelope(self.me, 0, False, letter))

    async def ask(self, worker: str, letter: Known) -> Known | None:
        """Send, and wait for the reply; None: that process is gone, or too slow.

        Raises:
            StoreError: nobody can tell whether it is.
        """
        if _WORKER.fullmatch(worker) is None:
            return None  # clients send us these ids back
        number = next(self._numbers)
        reply = self._questions[number] = asyncio.get_running_loop().create_future()
        self._send(worker, _Envelope(self.me, number, False, letter))
        away: StoreError | None = None
        try:
            async with asyncio.timeout(WORKER_RESPONSE_TIMEOUT):
                while not (await asyncio.wait({reply}, timeout=WORKER_PROBE_DELAY))[0]:
                    try:
                        if not await self.alive(worker):
                            return None
                        away = None
                    except StoreError as error:
                        away = error  # it may be back in time
                return reply.result()
        except TimeoutError:
            if away is not None:
                raise away from None
            return None
        finally:
            del self._questions[number]

    async def alive(self, worker: str) -> bool:
        """Whether a process is there. While the store was away nobody could say so: then all get some time."""
        if worker == self.me:
            return True
        sign = await self._store.get(self._key(worker))
        if sign is not None:
            return not ended(sign)
        return asyncio.get_running_loop().time() < self._doubtful

    # --- inside ---------------------------------------------------------------------------------------------

    def _topic(self, worker: str = "") -> str:
        return f"mail/{self._place}/{worker}"

    def _key(self, worker: str) -> str:
        return f"workers/{self._place}/{worker}"

    def _send(self, worker: str | None, envelope: _Envelope) -> None:
        self._outbox.put(self._topic(worker or ""), _write(envelope))

    def _take(self, message: bytes) -> None:
        try:
            envelope = _read(message)
        except msgspec.DecodeError:
            log.warning("a letter of another version was not understood")
            return
        if envelope.sender == self.me:
            return
        if envelope.reply:
            question = self._questions.get(envelope.number)
            if question is not None and not question.done():
                question.set_result(envelope.letter)
            return
        answer = self.handlers[type(envelope.letter)](envelope.letter, envelope.sender)
        if envelope.number:
            self._send(envelope.sender, _Envelope(self.me, envelope.number, True, answer or Done(False)))

    async def _live(self) -> None:
        await self._store.put(self._key(self.me), passport(), ttl=LEASE_LIFETIME)

    async def _renew(self) -> None:
        """Renew the entry of this process, and find the processes whose entries have expired."""
        time = asyncio.get_running_loop().time
        begun = time()
        try:
            await self._live()
            if time() - begun > WORKER_PROBE_DELAY:
                self._doubtful = time() + LEASE_LIFETIME / 2
            for worker in tuple(self.watched):
                if not await self.alive(worker):
                    self.watched.discard(worker)
                    self.lost(worker)
        except StoreError as error:
            self._doubtful = time() + LEASE_LIFETIME
            log.warning("the entry of this process was not renewed: %s", error.message)
