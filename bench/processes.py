"""A server as a child process: start it, look at what it uses, end it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from . import peers
from .peers import Peer

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PIPE = 1 << 20
F_SETPIPE_SZ = 1031


class Child:
    """One running server. ``stdio`` children are spoken to through `stdin` and `stdout`, the others through `port`."""

    def __init__(self, peer: Peer, transport: str, **environment: str) -> None:
        self.peer = peer
        self.transport = transport
        self.port = 0 if transport == "stdio" else free_port()
        arguments = [transport] if transport == "stdio" else [transport, str(self.port)]
        pipe = subprocess.PIPE if transport == "stdio" else subprocess.DEVNULL
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            peers.command(peer, *arguments),
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL if not os.environ.get("BENCH_STDERR") else None,
            env=peers.environ(**environment),
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self.process.pid
        if transport == "stdio":
            self._widen()

    def _widen(self) -> None:
        """Make the pipes large, so that neither side ever waits for the other to read."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        import fcntl

        for stream in (self.process.stdin, self.process.stdout):
            try:
                fcntl.fcntl(stream.fileno(), F_SETPIPE_SZ, PIPE)
            except OSError:
                pass  # a smaller pipe only costs speed

    @property
    def stdin(self) -> int:
        assert self.process.stdin is not None
        return self.process.stdin.fileno()

    @property
    def stdout(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def wait_for_port(self, seconds: float = 30.0) -> None:
        """Return when the child accepts connections."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.peer.name} ended with {self.process.returncode} while starting")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.005)
        raise TimeoutError(f"{self.peer.name} did not listen within {seconds:.0f} s")

    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        return sum(_resident(pid) for pid in family(self.pid))

    def cpu(self) -> float:
        """Seconds of processor time the process has used."""
        return processor_seconds(self.pid)

    def stop(self) -> None:
        """End it: politely, then not."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors."""
    exact = _scheduled(pid)
    if exact is not None:
        return exact
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _scheduled(pid: int) -> float | None:
    """The same in nanoseconds, where the kernel keeps count; threads that ended are not in it."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def family(pid: int) -> list[int]:
    """The process and all its descendants that are still there."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += family(int(child))
    return found


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
