"""Servers that start at once: a process that has everything imported, and forks one for each edit.

Starting Python and importing the library takes longer than an edit may take to be seen. The nursery has done both; a
fork of it imports the author's file, waits for its client on a Unix socket and then serves it as standard input and
output, as inetd would. It ends with its client.

Run as a program it reads orders, one a line of JSON: what `Order` has, and ``path``; it writes ``{"path"}`` when the
server of that path has ended. Should it die, the next order starts another one; servers that run stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import count
from types import FrameType
from typing import Any

from msgspec import Struct, to_builtins

from ..client.conversation import Conversation
from ..core.channel import Link
from ..errors import DovetailError, TransportError
from ..settings import Limits
from ..transports.http.host.places import say
from .bounds import LINE_SIZE, START_LOOK, START_SECONDS


class NurseryError(TransportError):
    """The process itself has ended; the next order starts another one."""


class Order(Struct, frozen=True, kw_only=True):
    """One server: its file, its arguments, all of its environment, what it logs."""

    target: str
    arguments: Sequence[str] = ()
    env: Mapping[str, str]
    log_level: str = "info"


class Nursery:
    """The process, seen from the front. ``heard`` gets what its servers write to their standard error."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._folder = tempfile.TemporaryDirectory(prefix="dovetail-dev-")
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.gone: set[str] = set()
        """The paths of servers that have ended."""

    def order(self, order: Order) -> str:
        """Have a server begin; the path of its socket."""
        path = os.path.join(self._folder.name, f"{next(self._numbers)}")
        line = json.dumps({**to_builtins(order), "path": path}).encode() + b"\n"
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        try:
            self._tell(line)
        except BrokenPipeError:  # it has just died
            self._process = self._start()
            self._tell(line)
        return path

    def _tell(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-m", __name__], stdin=pipe, stdout=pipe, stderr=pipe)
        loop = asyncio.get_running_loop()
        for stream, use in ((process.stdout, self._told), (process.stderr, self._heard)):
            threading.Thread(target=_read, args=(stream, loop, use), daemon=True).start()
        return process

    def is_ready(self, path: str) -> bool:
        """Whether the server of this path waits for its client.

        Raises:
            TransportError: it has ended.
            NurseryError: the nursery has, and nobody starts it any more.
        """
        if path in self.gone:
            raise TransportError("the server ended before it was ready", cause="eof")
        if os.path.exists(path):
            return True
        status = None if self._process is None else self._process.poll()
        if status is not None:
            raise NurseryError(
                f"the process that starts servers has ended with status {status}: was it killed, or out of memory?",
                cause="eof",
            )
        return False

    def _told(self, line: bytes) -> None:
        self.gone.add(json.loads(line)["path"])

    def close(self) -> None:
        """End it; its servers end with their clients."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait()
        self._folder.cleanup()


def _read(stream: Any, loop: asyncio.AbstractEventLoop, use: Callable[[bytes], None]) -> None:
    async def heard(line: bytes) -> None:
        use(line)

    while line := stream.readline(LINE_SIZE):
        try:  # one by one: who says more than we can show has to wait, and nobody else
            asyncio.run_coroutine_threadsafe(heard(line), loop).result()
        except (RuntimeError, CancelledError):
            return  # the loop is closed: nobody listens any more


class Bred:
    """A target for clients: a server of the nursery, a new one for each connection."""

    http = False

    def __init__(self, nursery: Nursery, order: Order) -> None:
        self._nursery = nursery
        self._order = order

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ..transports import tcp

        try:
            path = await self._ready()
        except NurseryError as error:
            say(f"dovetail: {error.message} Starting another one.")
            path = await self._ready()
        await tcp.connect(conversation, path=path, limits=Limits())

    async def _ready(self) -> str:
        path = self._nursery.order(self._order)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not self._nursery.is_ready(path):  # noqa: ASYNC110  a fork has no other way to say so
                    await asyncio.sleep(START_LOOK)
        except TimeoutError:
            raise TransportError(
                f"the file was not imported within {START_SECONDS} s", cause="timeout"
            ) from None
        return path

    async def release(self, link: Link) -> None:
        await asyncio.sleep(0)


# --- the process itself -------------------------------------------------------------------------------------------


def main() -> None:
    """Fork a server for each order, until the front is gone."""
    from ..cli import target as target  # what every server needs is imported before the first fork
    from ..server.server import Server as Server
    from ..transports import stdio as stdio

    sys.dont_write_bytecode = True  # Python takes one of the same second and size for that of the next edit
    children: dict[int, str] = {}

    def ended(number: int, frame: FrameType | None) -> None:
        while children:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            os.write(1, json.dumps({"path": children.pop(pid, "")}).encode() + b"\n")

    signal.signal(signal.SIGCHLD, ended)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front's: it says when to end
    for line in sys.stdin.buffer:
        order = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            _serve(order)
        children[pid] = order["path"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _serve(order: Mapping[str, Any]) -> None:
    """Be one server, from the import of its file to the end of its client."""
    from ..cli.target import load, split
    from ..telemetry.terminal import log_to_stderr
    from ..transports import stdio

    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.environ.clear()
        os.environ.update(order["env"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)  # what the file prints is a log
        log_to_stderr(order["log_level"])
        sys.argv = [split(order["target"])[0], *order["arguments"]]
        server = load(order["target"])
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(order["path"] + ".new")
            listener.listen(1)
            os.rename(order["path"] + ".new", order["path"])
            listener.settimeout(START_SECONDS)
            client, _ = listener.accept()
        client.setblocking(True)
        os.dup2(client.fileno(), 0)
        os.dup2(client.fileno(), 1)
        client.close()
        status = stdio.run(server)
    except DovetailError as error:
        sys.stderr.write(f"{error.message}\n")
    except TimeoutError:
        pass  # nobody came
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
