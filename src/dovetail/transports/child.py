"""A server as a child process of the client, connected over its stdin and stdout.

The child has its own session and process group, so Ctrl-C in the client's terminal does not reach it. Closing
follows the specification: close its stdin, wait, SIGTERM to its process group, wait, SIGKILL to its process
group. A process that the server started in another session, such as a browser, is not in the group and
survives. Windows has no such process groups: there only the child is terminated.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ..core.channel import MAX_STDERR_SHOWN, Process, Receiver
from ..errors import DovetailError, TransportError
from ..settings import Limits
from .pipes import Over, PipeSink, PipeSource
from .stream import ByteSink, ByteSource, LineLink

CHILD_GRACE_PERIOD: Final = 2.0
"""Seconds that a child has to exit after its stdin was closed, and again after SIGTERM."""
MAX_STDERR_BYTES: Final = 8 << 10
"""Bytes of a child's stderr kept to explain a failure."""
STATUS_SECONDS: Final = 0.3
"""Seconds to wait for the exit status of a child after its stdout has ended, so that the error can contain
it."""

_POSIX = "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
_WINDOWS = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE SYSTEMROOT TEMP TMP"
    " USERNAME USERPROFILE"
)
INHERITED = [*(_WINDOWS if os.name == "nt" else _POSIX).split(), "DOVETAIL_GATEWAYS"]
"""Environment variables that a child inherits by default: enough to start, without secrets."""

_GROUP = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}
"""A separate process group, so that the child's own children can be terminated with it."""
_KILL = signal.SIGKILL if os.name == "posix" else signal.SIGTERM


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: the variables of `INHERITED`, and ``extra``."""
    own = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # The shell of the child would execute a value that is a shell function.
    kept = {name: value for name, value in own.items() if not value.startswith("()")}
    return {**kept, **(extra or {})}


class _Pipes:
    """Two pipes for stdin and stdout. Not used on Windows, where asyncio creates them."""

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
        """The child's ends, as arguments of `subprocess_exec`."""
        return {"stdin": self._stdin, "stdout": self._stdout}

    def started(self) -> None:
        """Close the child's ends in this process, so that end of file is detected."""
        os.close(self._stdin)
        os.close(self._stdout)

    def attach(self, link: ChildLink, stdout_over: Over, stdin_over: Over) -> None:
        if self._closed:
            return  # the caller of spawn was cancelled meanwhile
        self._source = PipeSource(self._reader, link, stdout_over)
        self._sink = PipeSink(self._writer, link, stdin_over)
        link.attach(self._source, self._sink)
        self._source.resume_reading()

    def ignore(self) -> None:
        """Keep reading so that the child can finish writing, but discard the data."""
        if self._source is not None:
            self._source.received = len

    def close(self, *, loop: bool = True) -> None:
        """Close the ends of this process; ``loop=False``: the event loop is closed already."""
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


_QUOTED: Final = "; end of its stderr: "


def without_stderr(error: DovetailError) -> str:
    """Return the message of ``error`` without the child's stderr, for programs that have shown it already."""
    stderr = error.stderr if isinstance(error, TransportError) else ""
    return error.message.replace(f"{_QUOTED}{stderr}", "") if stderr else error.message


class ChildLink(LineLink, asyncio.SubprocessProtocol):
    """The link to a child process. `close` starts a graceful shutdown; `wait_closed` waits for its end."""

    def __init__(
        self,
        receiver: Receiver,
        limits: Limits,
        *,
        name: str,
        on_stderr: Callable[[bytes], None],
        pipes: _Pipes | None = None,
        grace: float = CHILD_GRACE_PERIOD,
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
        self._heard = asyncio.Event()  # set when all output was received
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
        """The end of the child's stderr."""
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
        """Kill the child at once, without an event loop: for a loop that was closed before the link."""
        self._closing = True
        self._kill(_KILL)
        if sys.version_info >= (3, 12):
            # asyncio reports a child's exit through its loop, and this one is closed.
            threading.Thread(target=_reap, args=(self.pid,), daemon=True).start()
        if self._pipes is not None:
            self._pipes.close(loop=False)

    async def wait_closed(self) -> None:
        """Return when the child, its process group and its pipes are closed."""
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
            self._kill(_KILL)  # also the rest of its group, and also if this task is cancelled
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

    # --- asyncio callbacks ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)
        if self._pipes is None:
            source: Any = self._process.get_pipe_transport(1)
            sink: Any = self._process.get_pipe_transport(0)
            self.attach(cast("ByteSource", source), cast("ByteSink", sink))
        else:
            self._pipes.attach(self, self._stdout_over, self._stdin_over)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            if not self._closing:
                self.data_received(data)
            return
        self._tail += data
        del self._tail[:-MAX_STDERR_BYTES]
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
        """Do nothing: unread output may remain. The task that ends the process reports the end."""

    def _report(self) -> None:
        """Report the end of the child to the receiver, once its output and exit are complete."""
        if self._reported:
            return
        self._reported = True
        if self._closing:
            self.finish(None)
            return
        status = self.returncode
        how = "closed its stdout" if status is None else f"ended with {_status(status)}"
        last = self.stderr_tail.strip()
        stderr = last[-MAX_STDERR_SHOWN:]
        error = TransportError(f"{self._name} {how}{_QUOTED if stderr else ''}{stderr}", cause="eof")
        error.stderr = stderr
        error.exit_status = "" if status is None else _exit_status(status)
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
        pass  # another reaper was faster


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _exit_status(code: int) -> str:
    return f"exited with status {code}" if code >= 0 else f"ended by {_status(code)}"


def _copy_to_stderr(data: bytes) -> None:
    """Copy the child's stderr to the stderr of this process."""
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
    on_stderr: Callable[[bytes], None] = _copy_to_stderr,
    grace: float = CHILD_GRACE_PERIOD,
) -> ChildLink:
    """Start ``command`` and connect ``receiver`` to it, which is notified before this returns.

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
