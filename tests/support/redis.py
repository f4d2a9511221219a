"""Redis servers of a test's own: real ones, started, stopped, starved and cut off at will."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from .waiting import HANG, wait_until

SERVER = os.environ.get("DOVETAIL_TEST_REDIS") or shutil.which("redis-server")
"""The program that the tests run as Redis. Set the variable to test with Valkey."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RedisServer:
    """One ``redis-server`` on a free port of loopback, with its files in a separate folder."""

    def __init__(self, *options: str, sentinel: bool = False) -> None:
        assert SERVER is not None
        self._program = SERVER
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="dovetail-redis-"))
        self._options = options
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [self._program]
        if self._sentinel:
            config = self.folder / "sentinel.conf"
            config.write_text("\n".join(self._options) + f"\nport {self.port}\ndir {self.folder}\n")
            command += [str(config), "--sentinel"]
        else:
            command += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
            command += ["--save", "", "--appendonly", "yes", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._up)

    def _up(self) -> bool:
        """Whether it answers; another one that took the port is not ours."""
        assert self._process is not None
        assert self._process.poll() is None, f"redis-server could not take port {self.port}"
        return f"process_id:{self._process.pid}" in self.ask_all("INFO", "server")

    def ask(self, *words: str) -> str | None:
        """The first line of what it answers to a command; None when it does not."""
        lines = self.ask_all(*words)
        return lines[0][1:] if lines else None

    def ask_all(self, *words: str) -> list[str]:
        """All lines of what it answers to a command; none when it does not."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=HANG) as connection:
                connection.sendall(" ".join(words).encode() + b"\r\n")
                return connection.recv(65536).decode().rstrip("\r\n").split("\r\n")
        except OSError:
            return []

    def kill(self) -> None:
        """As if its machine had lost power."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
