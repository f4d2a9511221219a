"""`MessageBus`: messages between the worker processes of one server, to one process or to all.

Each process has a random id and a key in the store, which it renews with each heartbeat. The key of a killed
process expires after `LEASE_LIFETIME`; processes on the same machine notice its end at once. Messages from
one process to another arrive in order, or not at all.
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
from .process_registry import LEASE_LIFETIME, has_ended, process_identity

MAX_QUEUED_MESSAGES: Final = 100_000
"""Messages that wait to be sent to other workers."""
WORKER_RESPONSE_TIMEOUT: Final = 15.0
"""How long another worker may take to respond to a message."""
WORKER_PROBE_DELAY: Final = 1.0
"""Wait time after which a process checks whether the other worker is still alive."""


log = logging.getLogger("dovetail.http")


class Message(Struct, array_like=True, tag=True, frozen=True):
    """Base of all messages. ``session`` is the storage name of a session, never its id."""


class ResponseReceived(Message, frozen=True):
    """The client has answered a server-to-client request of the receiving process."""

    session: str
    message: bytes


class CallCancelled(Message, frozen=True):
    """The client has cancelled a call, which may run in any process."""

    session: str
    message: bytes


class SessionChanged(Message, frozen=True):
    """The stored record of a session has changed."""

    session: str
    record: bytes


class SessionEnded(Message, frozen=True):
    session: str


class StreamMessage(Message, frozen=True):
    """A message for the general stream of a session, sent to the process that has the stream."""

    session: str
    message: bytes


class StreamTakeover(Message, frozen=True):
    """The sender takes over the general stream."""

    session: str


class StreamVacated(Message, frozen=True):
    """The client has closed the general stream of the sender; a process with another open response continues
    it.
    """

    session: str


class FollowStream(Message, frozen=True):
    """Request the events of a stream after the event ``last``, and all later ones."""

    session: str
    last: str
    follower: int


class StreamSnapshot(Message, frozen=True):
    """The events after ``last``, whether the stream has ended, and the request it belongs to."""

    events: bytes
    over: bool
    request: RequestId | None


class UnfollowStream(Message, frozen=True):
    follower: int


class StreamEvents(Message, frozen=True):
    """Further events for a follower, and whether the stream has ended."""

    follower: int
    events: bytes
    over: bool = False


class SseMessage(Message, frozen=True):
    """A message that was posted to an HTTP+SSE connection of the receiving process."""

    connection: str
    principal: str | None
    message: bytes
    headers: list[tuple[bytes, bytes]] = []


class GeneralStreamState(Message, frozen=True):
    """The state of the general stream: the number of its newest event, and the numbered events.

    ``delivered`` are the newest changes, by process, that the session was notified of; ``sent`` those before its
    last response ended, which a client that does not resume has missed. ``version`` is the record of the session
    that determined its subscriptions.
    """

    written: int
    events: list[tuple[int, bytes]]
    delivered: dict[str, int]
    sent: dict[str, int]
    version: int


class Acknowledgement(Message, frozen=True):
    """Whether the request succeeded."""

    well: bool


BusMessage = (
    ResponseReceived
    | CallCancelled
    | SessionChanged
    | SessionEnded
    | StreamMessage
    | StreamTakeover
    | StreamVacated
    | FollowStream
    | StreamSnapshot
    | UnfollowStream
    | StreamEvents
    | SseMessage
    | GeneralStreamState
    | Acknowledgement
)


class _BusEnvelope(Struct, array_like=True):
    sender: str
    number: int
    """The number of a request, or of the request that this replies to; 0 for neither."""
    reply: bool
    bus_message: BusMessage


_WORKER: Final = re.compile("[0-9a-f]{8}")
_write = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(_BusEnvelope).decode

Handler = Callable[[Any, str], BusMessage | None]
"""Handles a message from the given worker. The return value is the reply to a request."""


class MessageBus:
    """The message bus of one process. Set ``handlers`` before `start`."""

    def __init__(self, store: Store, server: str) -> None:
        self.worker_id = ""
        self.handlers: dict[type[Message], Handler] = {}
        self.on_worker_lost: Callable[[str], None] = lambda worker: None
        """Called with the id of a `watched` process that has died."""
        self.watched: set[str] = set()
        """Processes whose death is reported."""
        self._store = store
        self._server_key = hashlib.sha256(server.encode()).hexdigest()[:16]
        self._send_queue = SendQueue(store, MAX_QUEUED_MESSAGES)
        self._numbers = itertools.count(1)
        self._requests: dict[int, asyncio.Future[BusMessage]] = {}
        self._stops: list[Callable[[], None]] = []
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._liveness_unknown_until = 0.0
        """Loop time until which a missing heartbeat does not mean that a process is dead."""

    def next_id(self) -> str:
        """Return a request id that contains the id of this process."""
        return f"{self.worker_id}-{next(self._numbers)}"

    async def start(self) -> None:
        if self._heartbeat_task is not None:
            return
        self.worker_id = secrets.token_hex(4)
        for topic in (self._topic(), self._topic(self.worker_id)):
            self._stops.append(self._store.subscribe(topic, self._receive))
        await self._write_heartbeat()
        self._heartbeat_task = asyncio.create_task(
            repeat(LEASE_LIFETIME / 3, self._heartbeat), name="dovetail-message-bus"
        )

    async def stop(self) -> None:
        beat, self._heartbeat_task = self._heartbeat_task, None
        if beat is None:
            return
        beat.cancel()
        await asyncio.wait([beat])
        for stop in self._stops:
            stop()
        self._stops.clear()
        await self._send_queue.close()
        try:
            await self._store.delete(self._key(self.worker_id))
        except StoreError as error:
            log.warning("worker not deregistered; its entry expires: %s", error.message)

    def send(self, worker: str | None, bus_message: BusMessage) -> None:
        """Send a message to one process, or to all others."""
        self._send(worker, _BusEnvelope(self.worker_id, 0, False, bus_message))

    async def request(self, worker: str, bus_message: BusMessage) -> BusMessage | None:
        """Send a message and wait for the reply. Return None if the process is dead or does not respond in
        time.

        Raises:
            StoreError: the store is unavailable, so it is unknown whether the process is alive.
        """
        if _WORKER.fullmatch(worker) is None:
            return None  # the id was sent by a client: check it
        number = next(self._numbers)
        reply = self._requests[number] = asyncio.get_running_loop().create_future()
        self._send(worker, _BusEnvelope(self.worker_id, number, False, bus_message))
        away: StoreError | None = None
        try:
            async with asyncio.timeout(WORKER_RESPONSE_TIMEOUT):
                while not (await asyncio.wait({reply}, timeout=WORKER_PROBE_DELAY))[0]:
                    try:
                        if not await self.is_alive(worker):
                            return None
                        away = None
                    except StoreError as error:
                        away = error  # the store may recover in time
                return reply.result()
        except TimeoutError:
            if away is not None:
                raise away from None
            return None
        finally:
            del self._requests[number]

    async def is_alive(self, worker: str) -> bool:
        """Return whether a process is alive. After an outage of the store, assume so for a grace period."""
        if worker == self.worker_id:
            return True
        sign = await self._store.get(self._key(worker))
        if sign is not None:
            return not has_ended(sign)
        return asyncio.get_running_loop().time() < self._liveness_unknown_until

    # --- internal -------------------------------------------------------------------------------------------

    def _topic(self, worker: str = "") -> str:
        return f"mail/{self._server_key}/{worker}"

    def _key(self, worker: str) -> str:
        return f"workers/{self._server_key}/{worker}"

    def _send(self, worker: str | None, envelope: _BusEnvelope) -> None:
        self._send_queue.put(self._topic(worker or ""), _write(envelope))

    def _receive(self, message: bytes) -> None:
        try:
            envelope = _read(message)
        except msgspec.DecodeError:
            log.warning("bus message rejected: unknown format, sent by another version of Dovetail")
            return
        if envelope.sender == self.worker_id:
            return
        if envelope.reply:
            question = self._requests.get(envelope.number)
            if question is not None and not question.done():
                question.set_result(envelope.bus_message)
            return
        answer = self.handlers[type(envelope.bus_message)](envelope.bus_message, envelope.sender)
        if envelope.number:
            self._send(
                envelope.sender,
                _BusEnvelope(self.worker_id, envelope.number, True, answer or Acknowledgement(False)),
            )

    async def _write_heartbeat(self) -> None:
        await self._store.put(self._key(self.worker_id), process_identity(), ttl=LEASE_LIFETIME)

    async def _heartbeat(self) -> None:
        """Renew the entry of this process and report watched processes whose entries have expired."""
        time = asyncio.get_running_loop().time
        begun = time()
        try:
            await self._write_heartbeat()
            if time() - begun > WORKER_PROBE_DELAY:
                self._liveness_unknown_until = time() + LEASE_LIFETIME / 2
            for worker in tuple(self.watched):
                if not await self.is_alive(worker):
                    self.watched.discard(worker)
                    self.on_worker_lost(worker)
        except StoreError as error:
            self._liveness_unknown_until = time() + LEASE_LIFETIME
            log.warning("worker heartbeat failed: %s", error.message)
