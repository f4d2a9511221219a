"""The life of an app: started once by whoever comes first, a clock while it runs, an orderly end.

The end has an order. Nothing new is taken; listen streams get their result; calls under way get their time
and are then told that the server shuts down; what is still open is closed with a proper last chunk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from ....core.limits import SharedLimit
from ....drivers.heartbeat import Heartbeat
from ....drivers.run import Runner
from ....settings import HTTP_FLUSH, HTTP_TICK, HttpOptions
from .body_reader import BodyReader, Work
from .disconnects import Disconnects
from .event_streams import EventStream
from .http_exchange import HttpService
from .identity import Identity
from .session_handler import SessionHandler
from .stateless_handler import StatelessHandler

if TYPE_CHECKING:
    from ....drivers.duplex import Duplex
    from ....telemetry.metrics import Metrics
    from .sse_transport import SseTransport


log = logging.getLogger("dovetail.http")


class AppParts(NamedTuple):
    """What both eras and the HTTP+SSE pair of one app have in common."""

    service: HttpService
    options: HttpOptions
    runner: Runner
    streams: set[EventStream]
    """Every open event stream; `AppState` keeps them alive and ends them."""
    disconnects: Disconnects
    buffered: SharedLimit
    """Counts request bodies and unsent responses above 64 KiB: `Limits.max_buffered_bytes`."""
    identity: Identity


class AppState:
    """Starts, keeps alive and ends what the parts of one app have open."""

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
        """Where we run. Asking which loop runs is a system call on Python 3.11."""
        self.streams: set[EventStream] = set()
        """Every open event stream, whatever it belongs to."""
        self.sockets: dict[Duplex, Work] = {}
        """Every open WebSocket, and who serves it."""
        self.disconnects = Disconnects(service, service.admission.shared.disconnected_requests)
        self.legacy: SessionHandler
        self.modern: StatelessHandler
        self.sse_transport: SseTransport | None = None
        """The connections of HTTP+SSE, once there was one."""
        self._metrics: Metrics | None = None
        self._heartbeat: Heartbeat | None = None
        self._kept_alive = 0.0
        self._drained: asyncio.Future[None] | None = None

    @property
    def running(self) -> set[Work]:
        """Every task that works on a call."""
        return {*self.legacy.running, *(task for task, _ in self.disconnects.requests.values())}

    def measure(self, metrics: Metrics) -> None:
        """Let ``metrics`` know what is open, and let other processes know what it knows."""
        self._metrics = metrics
        metrics.watch(lambda: [("dovetail_streams", (), len(self.streams) + len(self.sockets))])

    async def start(self) -> None:
        """Start the service; whoever comes second waits for the first."""
        await self._service.start()
        if self.legacy.shared is not None:
            await self.legacy.shared.start()
        if not self.started:
            self.started = True
            self.loop = asyncio.get_running_loop()
            self._kept_alive = self.loop.time()
            pause = min(HTTP_TICK, self._options.sse_ping_interval, self._options.body_timeout)
            self._heartbeat = Heartbeat(pause, self._on_tick)
            self._on_tick()
            self._heartbeat.start()

    async def stop(self) -> None:
        """End everything in order, the service at last."""
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
            self.legacy.sessions.reap()
            self.legacy.streams.validate()
        return True

    async def drain(self, seconds: float) -> None:
        """Take nothing new, end every stream in order, let calls finish in ``seconds``, cancel the rest."""
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
        self.legacy.sessions.silence()
        log.debug("draining calls=%d", len(self.running))
        await asyncio.gather(
            self._finish_calls(seconds),
            *(() if self.sse_transport is None else (self.sse_transport.close(seconds),)),
            *(socket.close(drain=seconds) for socket in list(self.sockets)),
        )
        left = [*self.modern.listening, *self.sockets.values()]
        await _within(2 * HTTP_FLUSH, *(_ended(task) for task in left))
        log.debug("drained, closing connections")
        self.legacy.sessions.close()
        await _within(HTTP_FLUSH, *(stream.finish() for stream in list(self.streams)))
        await self._bodies.close()
        if self.legacy.shared is not None:
            await self.legacy.shared.stop()
            log.debug("sessions stored")

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
