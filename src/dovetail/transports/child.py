"""A server as a child process of the client, connected over its stdin and stdout.

The child leads a session and a process group of its own, so a Ctrl-C in the client's terminal does not reach it.
Closing follows the specification: close its stdin, wait, SIGTERM to its process group, wait, SIGKILL to its process
group. A process that the server started in a session of its own, a browser for example, is not in the group and
stays alive. Windows has no process groups of this kind: there only the child itself is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ..core.channel import LAST_WORDS, Process, Receiver
from ..errors import DovetailError, TransportError
from ..settings import Limits
from .pipes import Over, PipeSink, PipeSource
from .stream import LineLink, Sink, Source

CHILD_GRACE: Final = 2.0
"""For a child to end after its stdin was closed, and again after SIGTERM."""
STDERR_KEPT: Final = 8 << 10
"""Bytes of a child's stderr kept to explain a failure."""
STATUS_SECONDS: Final = 0.3
"""To wait for the exit status of a child once its stdout has ended, so that the error can name it."""

_POSIX = "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
_WINDOWS = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE SYSTEMROOT TEMP TMP"
    " USERNAME USERPROFILE"
)
INHERITED = [*(_WINDOWS if os.name == "nt" else _POSIX).split(), "DOVETAIL_GATEWAYS"]
"""What a child gets of our environment unless told otherwise: enough to start, none of our secrets."""

_GROUP = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}
"""A process group of its own, so that what it starts can be ended with it."""
_KILL = signal.SIGKILL if os.name == "posix" else signal.SIGTERM


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: the variables in `INHERITED` that are set, and ``extra``."""
    own = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # A value that is a shell function would be run by the child's shell.
    kept = {name: value for name, value in own.items() if not value.startswith("()")}
    return {**kept, **(extra or {})}


class _Pipes:
    """Two pipes: the child's ends, and ours. Windows has none of these: there asyncio makes its own."""

    def __init__(self) -> None:
        self._reader, self._stdout = os.pipe()
        try:
            self._stdin, self._writer = os.pipe()
        except OSError:
            os.close(self._reader)
            os.close(self._stdout)
            raise
        self._source: PipeSource | None = None
        self._sink: PipeSink | None = None
        self._closed = False

    @property
    def ends(self) -> dict[str, Any]:
        """Those of the child, as `subprocess_exec` wants them."""
        return {"stdin": self._stdin, "stdout": self._stdout}

    def started(self) -> None:
        """The child has its ends, or never will: let go of ours of them, so that its end is the end."""
        os.close(self._stdin)
        os.close(self._stdout)

    def attach(self, link: ChildLink, stdout_over: Over, stdin_over: Over) -> None:
        if self._closed:
            return  # whoever started the child has given up meanwhile
        self._source = PipeSource(self._reader, link, stdout_over)
        self._sink = PipeSink(self._writer, link, stdin_over)
        link.attach(self._source, self._sink)
        self._source.resume_reading()

    def ignore(self) -> None:
        """Go on reading, so that the child can finish what it writes, but hear nothing of it any more."""
        if self._source is not None:
            self._source.received = len

    def close(self, *, loop: bool = True) -> None:
        """Close our ends; ``loop=False``: the event loop is closed already."""
        if self._source is None or self._sink is None:
            if not self._closed:
                os.close(self._reader)
                os.close(self._writer)
        elif loop:
            self._source.close()
            self._sink.abort()
        else:
            self._source.drop()
            self._sink.drop()
        self._closed = True


def _open_pipes() -> _Pipes | None:
    return _Pipes() if os.name == "posix" else None


_QUOTED: Final = "; its last words: "


def without_stderr(error: DovetailError) -> str:
    """The message of ``error`` without the stderr of a child process, for programs that have shown that already."""
    stderr = error.stderr if isinstance(error, TransportError) else ""
    return error.message.replace(f"{_QUOTED}{stderr}", "") if stderr else error.message


class ChildLink(LineLink, asyncio.SubprocessProtocol):
    """The link to a child. `close` begins the orderly end; `wait_closed` waits for it."""

    def __init__(
        self,
        receiver: Receiver,
        limits: Limits,
        *,
        name: str,
        on_stderr: Callable[[bytes], None],
        pipes: _Pipes | None = None,
        grace: float = CHILD_GRACE,
    ) -> None:
        super().__init__(receiver, limits, recover=True)
        self._pipes = pipes
        self._name = name
        self._on_stderr = on_stderr
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._process: asyncio.SubprocessTransport
        self._tail = bytearray()
        self._exited = asyncio.Event()
        self._heard = asyncio.Event()  # all that it has said
        self._gone = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._reported = False

    @property
    def pid(self) -> int:
        return self._process.get_pid()

    @property
    def process(self) -> Process:
        return self

    @property
    def returncode(self) -> int | None:
        return self._process.get_returncode()

    @property
    def stderr_tail(self) -> str:
        """The last words of the child."""
        return self._tail.decode(errors="replace")

    # --- Link -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._pipes is not None:
                self._pipes.ignore()
            if self._sink is not None:
                self._sink.close()
            self._end(self._grace)

    def abort(self) -> None:
        self._closing = True
        if self._pipes is not None:
            self._pipes.ignore()
        self._kill(_KILL)
        self._end(0.0)

    def kill(self) -> None:
        """End the child at once, without an event loop: when the loop was closed before the link was."""
        self._closing = True
        self._kill(_KILL)
        if sys.version_info >= (3, 12):
            # From then on asyncio takes note of a child's end in its loop, and this one is closed.
            threading.Thread(target=_reap, args=(self.pid,), daemon=True).start()
        if self._pipes is not None:
            self._pipes.close(loop=False)

    async def wait_closed(self) -> None:
        """Return when the child, its group and its pipes are gone."""
        await self._gone.wait()

    def _end(self, grace: float) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._finish_process(grace))

    async def _finish_process(self, grace: float) -> None:
        try:
            if grace and not await _within(grace, self._exited):
                self._kill(signal.SIGTERM)
                await _within(grace, self._exited)
        finally:
            self._kill(_KILL)  # also what is left of its group, and also when this task is cancelled
        await self._exited.wait()
        if not self._closing:
            await _within(STATUS_SECONDS, self._heard)
        self._process.close()
        if self._pipes is not None:
            self._pipes.close()
        self._report()
        self._gone.set()

    def _kill(self, number: int) -> None:
        try:
            if os.name == "posix":
                os.killpg(self.pid, number)
            else:
                self._process.send_signal(number)
        except (ProcessLookupError, PermissionError):
            pass

    # --- what asyncio calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)
        if self._pipes is None:
            source: Any = self._process.get_pipe_transport(1)
            sink: Any = self._process.get_pipe_transport(0)
            self.attach(cast("Source", source), cast("Sink", sink))
        else:
            self._pipes.attach(self, self._stdout_over, self._stdin_over)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            if not self._closing:
                self.data_received(data)
            return
        self._tail += data
        del self._tail[:-STDERR_KEPT]
        self._on_stderr(data)

    def pipe_connection_lost(self, fd: int, exc: BaseException | None) -> None:
        if fd == 1:
            self._stdout_over(exc)
        elif fd == 0:
            self._stdin_over(exc)

    def _stdout_over(self, _: BaseException | None) -> None:
        if not self._closing:
            self.eof_received()
        self._heard.set()
        self._loop.call_later(STATUS_SECONDS, self._report)
        self._end(self._grace)

    def _stdin_over(self, _: BaseException | None) -> None:
        if not self._closing:
            self._sink = None

    def process_exited(self) -> None:
        self._exited.set()
        self._end(self._grace)

    def connection_lost(self, exc: BaseException | None) -> None:
        """It may have said more than was read yet: whoever finishes the process tells of its end."""

    def _report(self) -> None:
        """Tell the receiver what became of the child, once its end is certain."""
        if self._reported:
            return
        self._reported = True
        if self._closing:
            self.finish(None)
            return
        status = self.returncode
        how = "closed its stdout" if status is None else f"ended with {_status(status)}"
        last = self.stderr_tail.strip()
        stderr = last[-LAST_WORDS:]
        error = TransportError(f"{self._name} {how}{_QUOTED if stderr else ''}{stderr}", cause="eof")
        error.stderr = stderr
        self.finish(error)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except OSError:
        pass  # somebody else took note of it


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _pass_on(data: bytes) -> None:
    """The child's stderr goes where ours goes."""
    try:
        sys.stderr.write(data.decode(errors="replace"))
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


async def spawn(
    receiver: Receiver,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    on_stderr: Callable[[bytes], None] = _pass_on,
    grace: float = CHILD_GRACE,
) -> ChildLink:
    """Start ``command`` and connect ``receiver`` to it; it has been told so when this returns.

    Raises:
        TransportError: the command cannot be started.
    """
    options: dict[str, Any] = {"env": environment(env), "cwd": cwd, **_GROUP}
    pipes: _Pipes | None = None
    try:
        pipes = _open_pipes()
        options.update({} if pipes is None else pipes.ends)
        more: dict[str, Any] = {"on_stderr": on_stderr, "pipes": pipes, "grace": grace}
        link = ChildLink(receiver, limits or Limits(), name=command[0], **more)
        await asyncio.get_running_loop().subprocess_exec(lambda: link, *command, **options)
    except BaseException as error:
        if pipes is not None:
            pipes.close()
        if isinstance(error, OSError | ValueError):
            raise TransportError(f"cannot start {command[0]}: {error}", cause="refused") from None
        raise
    finally:
        if pipes is not None:
            pipes.started()
    return link
