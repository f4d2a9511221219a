"""Two links that are each other's peer, in one process.

Messages are handed over as they are, without a copy, in the next turn of the event loop. A side that stops
reading fills the other side's budget exactly as a socket would, so back-pressure can be tested without one.
"""

from __future__ import annotations

import asyncio

from ..core.channel import Link, Receiver
from ..errors import TransportError
from ..settings import Limits
from .stream import Waiters


class MemoryLink(Link):
    """One end of the pair; what it sends arrives at its ``peer``."""

    def __init__(self, receiver: Receiver, limits: Limits) -> None:
        self.peer: MemoryLink
        self._receiver = receiver
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._inbox: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._scheduled = False
        self._closed = False  # nothing can be sent any more
        self._ended: TransportError | bool = False  # what to tell the receiver once the inbox is empty
        self._told = False
        self._waiters = Waiters()

    def send(self, message: bytes) -> None:
        if not self._closed:
            self.peer._take(message, self)

    async def drain(self) -> None:
        if self.blocked:
            await self._waiters.wait()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    def close(self) -> None:
        self._end(self.peer, True)

    def abort(self) -> None:
        self._end(self.peer, TransportError("the peer aborted the connection", cause="reset"))

    def _end(self, peer: MemoryLink, reason: TransportError | bool) -> None:
        if self._closed:
            return
        self._closed = peer._closed = True
        peer._ended, self._ended = reason, True
        if reason is not True:
            peer._inbox.clear()
        self._inbox.clear()
        for end in (self, peer):
            end._unblock()
            end._schedule()

    def _take(self, message: bytes, sender: MemoryLink) -> None:
        self._inbox.append(message)
        self._unread += len(message)
        if self._unread > self._limits.max_write_buffer_bytes:
            sender.blocked = True
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """Deliver received messages, unless this side has paused reading or its write buffer is full."""
        self._scheduled = False
        inbox, self._inbox = self._inbox, []
        limit = self._limits.max_message_bytes
        for position, message in enumerate(inbox):
            if (self._paused or self.blocked) and not self._ended:
                self._inbox = inbox[position:] + self._inbox
                return
            self._unread -= len(message)
            if len(message) > limit:
                self._receiver.oversized(limit)
            else:
                self._receiver.received(message)
        if not self._inbox:
            self._unread = 0
            self.peer._unblock()
            self._finish()

    def _unblock(self) -> None:
        if self.blocked:
            self.blocked = False
            self._schedule()
        self._waiters.release()

    def _finish(self) -> None:
        if self._ended and not self._told:
            self._told = True
            self._receiver.lost(None if self._ended is True else self._ended)


def connect(
    left: Receiver, right: Receiver, *, limits: Limits | None = None
) -> tuple[MemoryLink, MemoryLink]:
    """Connect two receivers and notify both. Closing either link closes both."""
    limits = limits or Limits()
    one, other = MemoryLink(left, limits), MemoryLink(right, limits)
    one.peer, other.peer = other, one
    left.connected(one)
    right.connected(other)
    return one, other
