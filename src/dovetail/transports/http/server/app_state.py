"""The state of one app: its start, its periodic work, and its shutdown.

Shutdown has an order:

1. New requests are refused with 503, and ``subscriptions/listen`` streams get their result.
2. Requests in flight get `HttpOptions.shutdown_grace_period`. The remaining ones are cancelled and get an error.
3. Event streams and WebSockets are closed, each with its proper end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from ....core.limits import SharedLimit
from ....drivers.heartbeat import Heartbeat
from ....drivers.run import Runner
from ....settings import HttpOptions
from .body_reader import BodyReader, Work
from .disconnects import Disconnects
from .event_streams import EventStreamResponse
from .http_exchange import HTTP_FLUSH, HTTP_TICK, HttpService
from .identity import CallerIdentity
from .session_handler import SessionHandler
from .stateless_handler import StatelessHandler

if TYPE_CHECKING:
    from ....drivers.duplex import Duplex
    from ....telemetry.metrics import Metrics
    from .sse_transport import SseTransport


log = logging.getLogger("dovetail.http")


class AppParts(NamedTuple):
    """What the handlers of one app share."""

    service: HttpService
    options: HttpOptions
    runner: Runner
    streams: set[EventStreamResponse]
    """Every open event stream. `AppState` sends their pings and ends them."""
    disconnects: Disconnects
    buffered: SharedLimit
    """Counts request bodies and unsent responses above 64 KiB: `Limits.max_buffered_bytes`."""
    identity: CallerIdentity


class AppState:
    """The start, the periodic work and the shutdown of one app."""

    def __init__(
        self, service: HttpService, options: HttpOptions, bodies: BodyReader, runner: Runner
    ) -> None:
        self._service = service
        self._options = options
        self._bodies = bodies
        self._runner = runner
        self.started = self.stopped = False
        self.draining = False
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the app. On Python 3.11, `asyncio.get_running_loop` makes a system call."""
        self.streams: set[EventStreamResponse] = set()
        """Every open event stream of all handlers."""
        self.sockets: dict[Duplex, Work] = {}
        """Every open WebSocket, and the task that serves it."""
        self.disconnects = Disconnects(service, service.admission.shared.disconnected_requests)
        self.session_handler: SessionHandler
        self.stateless_handler: StatelessHandler
        self.sse_transport: SseTransport | None = None
        """The connections of HTTP+SSE, once there was one."""
        self._metrics: Metrics | None = None
        self._heartbeat: Heartbeat | None = None
        self._kept_alive = 0.0
        self._drained: asyncio.Future[None] | None = None

    @property
    def running(self) -> set[Work]:
        """The tasks of all requests in flight."""
        return {*self.session_handler.running, *(task for task, _ in self.disconnects.requests.values())}

    def measure(self, metrics: Metrics) -> None:
        """Report the number of open streams to ``metrics``, and refresh what it shares with other processes."""
        self._metrics = metrics
        metrics.watch(lambda: [("dovetail_streams", (), len(self.streams) + len(self.sockets))])

    async def start(self) -> None:
        """Start the service. A second caller waits until the first one has started it."""
        await self._service.start()
        await self.session_handler.shared.start()
        if not self.started:
            self.started = True
            self.loop = asyncio.get_running_loop()
            self._kept_alive = self.loop.time()
            pause = min(HTTP_TICK, self._options.sse_ping_interval, self._options.body_timeout)
            self._heartbeat = Heartbeat(pause, self._on_tick)
            self._on_tick()
            self._heartbeat.start()

    async def stop(self) -> None:
        """Drain, then stop the service."""
        await self.drain(self._options.shutdown_grace_period)
        await self._service.stop()
        self.stopped = True

    def _on_tick(self) -> bool:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._bodies.check(now)
        if self._metrics is not None:
            self._metrics.refresh()
        if now - self._kept_alive >= self._options.sse_ping_interval:
            self._kept_alive = now
            for stream in list(self.streams):
                stream.keep_alive()
            self.session_handler.sessions.reap()
            self.session_handler.validate_streams()
        return True

    async def drain(self, seconds: float) -> None:
        """Shut down; requests in flight get ``seconds``. A second caller waits for the first."""
        if self._drained is not None:
            await asyncio.shield(self._drained)
            return
        self._drained = asyncio.ensure_future(self._drain(seconds))
        await self._drained

    async def _drain(self, seconds: float) -> None:
        self.draining = True
        if self._heartbeat is not None:
            self._heartbeat.stop()
        # Document 004, GracefulShutdown: unsubscribe, drain, close, persist.
        self._service.end_listening()
        self.session_handler.sessions.silence()
        log.debug("draining calls=%d", len(self.running))
        await asyncio.gather(
            self._finish_calls(seconds),
            *(() if self.sse_transport is None else (self.sse_transport.close(seconds),)),
            *(socket.close(drain=seconds) for socket in list(self.sockets)),
        )
        left = [*self.stateless_handler.listening, *self.sockets.values()]
        await _within(2 * HTTP_FLUSH, *(_ended(task) for task in left))
        log.debug("drained, closing connections")
        self.session_handler.sessions.close()
        await _within(HTTP_FLUSH, *(stream.finish() for stream in list(self.streams)))
        await self._bodies.close()
        await self.session_handler.shared.stop()

    async def _finish_calls(self, seconds: float) -> None:
        running = self.running
        if running:
            await asyncio.wait(running, timeout=seconds)
        self._runner.draining = True
        late = self.running
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=HTTP_FLUSH)


async def _ended(task: asyncio.Task[Any]) -> None:
    await asyncio.wait({task})


async def _within(seconds: float, *waits: Awaitable[None]) -> None:
    if waits:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
