"""Being a process that serves HTTP: signals, the drain, and an end that always comes.

The drain needs the event loop, and a handler may be blocking it; so the signal also arms a watchdog thread, which ends
the process when its time is over. A second signal does not wind it up again.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Final, Protocol

from msgspec import Struct

from ....drivers.pool import DaemonExecutor, Threads
from ....errors import DovetailError
from ....settings import (
    HTTP_FLUSH,
    HTTP_INTERRUPTED,
    HTTP_MARGIN,
    HTTP_STARTING,
    PARENT_LOOK,
    HttpOptions,
)
from ....stores.memory import MemoryStore
from ....telemetry.crash import reported
from ...running import EXIT_INTERRUPTED, EXIT_TERMINATED, Watchdog, exit_now
from ..server.app import HttpApp
from ..server.ended_sessions import EndedSessions
from ..server.exchange import HttpService
from .places import Place

STATE: Final = "state.db"
"""Their store, if the server has none."""
ENDING: Final = (signal.SIGINT, signal.SIGTERM)
METRICS: Final = "metrics"
"""The folder in which they count together."""
READY: Final = "ready"
"""The file that the first worker makes that has started."""


class Host(Protocol):
    """An HTTP server inside this process."""

    async def serve(self) -> None:
        """Serve until `stop`; returns when all connections have ended."""
        ...

    async def started(self) -> None:
        """Return when connections are taken."""
        ...

    def stop(self) -> None: ...


class Signals:
    """SIGINT and SIGTERM for as long as an app is served.

    ``drain`` is called on the loop with the seconds that calls get. Hosts have handlers of their own: install ours
    after theirs; with ``host_too`` they hear of it as well.
    """

    def __init__(
        self,
        options: HttpOptions,
        watchdog: Watchdog | None,
        drain: Callable[[float], object],
        *,
        host_too: bool = False,
    ) -> None:
        self.status = 0
        """What the process should exit with."""
        self._options = options
        self._watchdog = watchdog
        self._drain = drain
        self._host_too = host_too
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._seen = False
        self.starting: Callable[[], bool] | None = None
        """Whether the host is not ready to be told to end: who is told so then just ends. (granian would wait for
        ever.)"""

    def started(self) -> None:
        self.starting = None

    def install(self) -> None:
        if threading.current_thread() is threading.main_thread():
            # Not `loop.add_signal_handler`: that waits for the loop, and a handler may be blocking it.
            for number in ENDING:
                self._before[number] = signal.signal(number, self._received)

    def remove(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.starting is not None and self.starting():
            exit_now(128 + number)
        if not self._seen:
            self._seen = True
            seconds = self._options.shutdown_grace_period
            if number == signal.SIGINT:
                self.status = EXIT_INTERRUPTED
                seconds = min(seconds, HTTP_INTERRUPTED)
            if self._watchdog is not None:
                self._watchdog.arm(seconds + HTTP_MARGIN, self.status or EXIT_TERMINATED)
            self._loop.call_soon_threadsafe(self._drain, seconds)
        if self._host_too and callable(self._before[number]):
            self._before[number](number, frame)


class HostedApp:
    """An app on a host in this process: `run` it. Where the process is ours, there is a ``watchdog``."""

    def __init__(self, app: HttpApp, host: Host, watchdog: Watchdog | None = None) -> None:
        self._app = app
        self._host = host
        self._watchdog = watchdog
        self._asked: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def end(self, seconds: float) -> None:
        """Begin to shut down; calls under way get ``seconds``."""
        if not self._asked.done():
            self._asked.set_result(seconds)

    async def run(self, ready: Callable[[], object] | None = None) -> int:
        """Serve until a signal comes, `end` is called, or the host gives up. Returns the exit status.

        ``ready`` is called when connections are taken.
        """
        asked, signals = self._asked, Signals(self._app.options, self._watchdog, self.end)
        serving = asyncio.ensure_future(self._host.serve())
        starting = asyncio.ensure_future(self._host.started())
        try:
            await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                signals.install()
                if ready is not None:
                    ready()
                await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
            await self._app.life.drain(asked.result() if asked.done() else 0.0)
        finally:
            starting.cancel()
            if self._watchdog is not None:
                self._watchdog.arm(HTTP_MARGIN, signals.status)
            self._host.stop()
            # Clients that read nothing would keep the host for ever.
            await asyncio.wait({serving}, timeout=HTTP_FLUSH)
            serving.cancel()
            signals.remove()
            await self._app.service.stop()
        if serving.done() and not serving.cancelled():
            serving.result()  # why it has ended, if that is not because we wanted it
        return signals.status


class Work(Struct, frozen=True, kw_only=True):
    """What several processes are to serve."""

    service: HttpService
    options: HttpOptions
    place: Place
    count: int
    folder: str
    """Where they meet."""
    quiet: bool
    face: str
    again: tuple[str, str] | None
    """How a process that starts from nothing gets hold of the server: the name of a function that makes the
    application of a worker, and what that is to import."""


def give_store(service: HttpService, folder: str) -> None:
    """Several processes need a place where they meet; one for as long as they run, unless the server has its own.

    Raises:
        DovetailError: it has one that no other process sees.
    """
    if isinstance(service.store, MemoryStore):
        raise DovetailError("several workers need a store that all of them see: a file, or Redis")
    if service.store is None:
        from ....stores.sqlite import SqliteStore  # one process alone needs none

        service.use_store(SqliteStore(os.path.join(folder, STATE)))


class WorkerApp:
    """The app of one of several processes; a face calls `start` and `stop`.

    ``folder`` is where the processes of one address meet. The first of them calls ``announce``.
    """

    def __init__(
        self,
        service: HttpService,
        options: HttpOptions,
        folder: str,
        announce: Callable[[], Coroutine[Any, Any, None]] | None,
    ) -> None:
        self.app = HttpApp(service, options, EndedSessions(folder))
        if self.app.scraping is not None:
            self.app.scraping.metrics.join(os.path.join(folder, METRICS))
        self._folder = folder
        self._announce = announce
        self._tasks: list[asyncio.Task[None]] = []
        self._watchdog = Watchdog()
        # From here to `start` it is the host that runs, and its loop does not: what comes now would be lost.
        hold_signals(on=True)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(DaemonExecutor(Threads(self.app.service.limits.max_threads)))
        # Where the host hears of signals through its loop, it goes on to do so.
        signals = Signals(self.app.options, self._watchdog, self._drain, host_too=True)
        # A host that has brought us a call does serve, however young it is.
        signals.starting = lambda: not self.app.life.running
        signals.install()
        hold_signals(on=False)
        with reported():
            await self.app.life.start()
        loop.call_later(HTTP_STARTING, signals.started)
        loop.call_later(HTTP_STARTING, self.app.life.reached)
        self._look_up(loop)
        if self._first() and self._announce is not None:
            self._tasks.append(loop.create_task(self._announce()))

    def _look_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """End when the supervisor is gone, however that came about: nobody could tell us to any more."""
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid != os.getppid() and sys.platform != "win32":
            signal.raise_signal(signal.SIGTERM)
        elif parent is not None:
            loop.call_later(PARENT_LOOK, self._look_up, loop)

    def _drain(self, seconds: float) -> None:
        """The host has stopped to listen, and waits for its connections: let them end."""
        # If the loop did not run when the signal came, the host has not heard of it. Ours have: they take it once.
        signal.raise_signal(signal.SIGTERM)
        self._tasks.append(asyncio.ensure_future(self.app.life.drain(seconds)))

    def _first(self) -> bool:
        try:
            os.close(os.open(os.path.join(self._folder, READY), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False  # another one was
        return True

    async def stop(self) -> None:
        self._watchdog.arm(HTTP_MARGIN, 0)
        await self.app.life.stop()
        self._watchdog.call_off()


def hold_signals(*, on: bool) -> None:
    """Let the signals that end a process wait, or come."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK if on else signal.SIG_UNBLOCK, ENDING)


def forget_signals_in_forks() -> None:
    """A worker that is told to end before it has handlers of its own just ends, instead of missing it.

    A fork begins with the handlers of its parent, and Python forgets what they have heard before it is set up: signals
    wait until then.
    """

    def begin() -> None:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        hold_signals(on=False)

    os.register_at_fork(
        before=lambda: hold_signals(on=True),
        after_in_parent=lambda: hold_signals(on=False),
        after_in_child=begin,
    )


def supervised(serve: Callable[[], object]) -> int:
    """Run the supervisor of a host in this process; the exit status: its own, or 130 when SIGINT has ended it."""
    # Supervisors install handlers of their own and do not tell; but whatever the handler, its number is written here.
    heard, written = socket.socketpair()
    written.setblocking(False)
    heard.setblocking(False)
    before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.getsignal(number) for number in ENDING}
    try:
        serve()
    except SystemExit as end:  # the workers do not start, or do not stay
        return end.code if isinstance(end.code, int) else 1
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        written.close()
        numbers = heard.recv(4096) if select.select([heard], [], [], 0)[0] else b""
        heard.close()
    return EXIT_INTERRUPTED if signal.SIGINT in numbers else 0
