"""What clients keep us waiting for: bodies that do not come, and clients that have hung up.

Neither costs a quick request a timer or a task. Requests that wait for their body, and calls that end when their
client leaves, stand in tables; a clock looks through them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ....core.budget import Account, Budget
from ....core.channel import Call
from ....drivers.heartbeat import Heartbeat
from ....errors import TransportError
from ....settings import HANGUP_LOOK, HTTP_FLUSH
from .connections import PeerConnections
from .exchange import Exchange, HttpService
from .kernel import Seen, key_of

Work = asyncio.Task[Any]


class Bodies:
    """The bodies being read by one app. Call `sweep` every now and then."""

    def __init__(self, limit: int, seconds: float, account: Account) -> None:
        self.limit = limit
        self.account = account
        self._seconds = seconds
        self.now = 0.0
        """The time of the event loop at the last sweep."""
        self.reading: dict[Work, float] = {}
        """The tasks that wait for a body, and since when."""
        self._late: set[Work] = set()

    def given_up(self, task: Work) -> TransportError | None:
        """Why a task that was reading is cancelled: the body took too long, or (None) somebody else did it."""
        if task not in self._late:
            return None
        self._late.discard(task)
        task.uncancel()
        return TransportError("the body took too long", cause="idle")

    def sweep(self, now: float) -> None:
        """Give up the bodies that have taken too long; ``now`` is the time of the event loop."""
        self.now = now
        for task, begun in list(self.reading.items()):
            if now - begun > self._seconds:
                self._give_up(task)

    async def close(self) -> None:
        """Give up all that are left, and let their clients be told."""
        tasks = list(self.reading)
        for task in tasks:
            self._give_up(task)
        if tasks:
            await asyncio.wait(tasks, timeout=HTTP_FLUSH)

    def _give_up(self, task: Work) -> None:
        if not task.done():
            self._late.add(task)
            task.cancel()


class Watching:
    """The requests of one app whose clients may hang up while we work on them.

    Hosts tell of a disconnect only to whoever waits for it, and a task that waits costs more than a quick call. So
    only a request that has been seen at two looks gets one.
    """

    def __init__(self, service: HttpService, budget: Budget, connections: PeerConnections) -> None:
        self.connections = connections
        self._service = service
        self._budget = budget
        self.posts: dict[Exchange, tuple[Work, Sequence[Call]]] = {}
        """The task and the calls of each request that is being served."""
        self._looks = Heartbeat(HANGUP_LOOK, self._look)
        self._idle = True
        self.direct = False
        """Every client is at the other end of a connection of ours; behind a foreign host it may be a proxy's word."""
        self._seen: set[Exchange] = set()
        self.all: set[HangupWatch] = set()
        """Every watch of the app, whoever made it; `AppLife` compares them with what the kernel knows."""
        self.watches: dict[Exchange, HangupWatch] = {}
        """The requests that have taken so long that somebody waits for their client to hang up."""
        self.left: dict[Exchange, tuple[Account, int]] = {}
        """The requests whose clients have hung up, and where how many calls of theirs are counted."""

    def begin(self, exchange: Exchange, task: Work, calls: Sequence[Call]) -> None:
        """``task`` serves ``calls`` from now until `end`; a disconnect in between may cancel them."""
        if self._idle:
            self._idle = False
            self._looks.start()
        self.posts[exchange] = (task, calls)

    def end(self, exchange: Exchange) -> None:
        """The calls of a request have ended."""
        self.posts.pop(exchange, None)
        if self.watches or self.left:
            self.leave(exchange)

    def leave(self, exchange: Exchange) -> None:
        """The request is over, and all its calls are."""
        if exchange in self.left:
            account, count = self.left.pop(exchange)
            account.give(count)
        self.overlook(exchange)

    def overlook(self, exchange: Exchange) -> None:
        """Nobody needs to wait for its client any more, but its calls go on."""
        watch = self.watches.pop(exchange, None)
        if watch is not None:
            watch.stop()

    def _look(self) -> bool:
        posts = set(self.posts)
        for exchange in (posts & self._seen) - self.watches.keys():
            self.watches[exchange] = HangupWatch(self, exchange, partial(self.gone, exchange))
        self._seen = posts
        self._idle = not posts
        return not self._idle

    def gone(self, exchange: Exchange) -> None:
        """The client of a request has hung up.

        Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request. Up to 2025-11-25, Sending
        Messages: "Disconnection SHOULD NOT be interpreted as the client cancelling its request"; but only so many run
        on for nobody. Those that are cancelled are under way until they have ended.
        """
        task, calls = self.posts.get(exchange, (None, ()))
        running = [call for call in calls if not call.cancelled]
        if exchange in self.left or not running or task is None:
            return
        for call in running:
            self._service.hung_up(call)
        if not running[0].revision.modern and self._budget.abandoned.take(len(running)):
            self.left[exchange] = (self._budget.abandoned, len(running))
        else:
            self.stop(exchange, task, running)

    def stop(self, exchange: Exchange, task: Work, calls: Sequence[Call]) -> None:
        """Cancel what its client has left; it counts until you `leave`."""
        self._budget.ending.taken += len(calls)
        self.left[exchange] = (self._budget.ending, len(calls))
        for call in calls:
            call.cancelled = True
        task.cancel()


class HangupWatch:
    """Waits for the disconnect of one client, then calls ``gone``, once."""

    __slots__ = ("_gone", "_known", "_missed", "_task", "_watching", "disconnected", "exchange")

    def __init__(self, watching: Watching, exchange: Exchange, gone: Callable[[], object]) -> None:
        self._watching = watching
        self.exchange = exchange
        self._gone = gone
        self.disconnected = False
        self._known = watching.direct
        self._missed = False
        self._task: Work | None = asyncio.get_running_loop().create_task(self._wait())
        watching.all.add(self)

    async def _wait(self) -> None:
        await self.exchange.disconnected()
        self.found()

    def found(self) -> None:
        """The client has hung up."""
        if not self.disconnected:
            self.disconnected = True
            self._gone()

    def compare(self, seen: Mapping[bytes, Seen]) -> None:
        """Take what the kernel knows: a client that was there is there no more at two looks, or has said its last."""
        peer = self.exchange.peer
        one = None if peer is None else seen.get(key_of(peer))
        if peer is not None and one is None and self._known:
            # Once is not enough: a table that changes while it is read may leave somebody out.
            if self._missed:
                self.found()
            self._missed = True
        elif one is not None:
            self._known, self._missed = True, False
            if one.hung_up:
                self.found()

    def stop(self) -> None:
        self._watching.all.discard(self)
        task, self._task = self._task, None  # how it ended leads back to us: a circle for the collector
        if task is not None:
            task.cancel()
