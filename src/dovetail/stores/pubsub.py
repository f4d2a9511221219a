"""News between the processes that share one store on one machine: a Unix socket for each of them.

The sockets lie in a folder that only this user may enter, named after the file of the store. Whoever publishes
connects once to every socket it finds there; a socket nobody answers on belongs to a dead process and is removed. A
process that takes nothing is cut off when too much waits for it: news is for those who listen now. Where there are no
Unix sockets (Windows), news stays in its process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .base import GAP, StoreError, StoreUnavailable, Take
from .store_limits import BUS_BACKLOG, BUS_MESSAGE, BUS_QUEUE, BUS_SETTLED
from .topic_listeners import Listeners

log = logging.getLogger("dovetail.stores")

_HEAD: Final = struct.Struct("!HI")
"""Bytes of the topic and of the message, before both."""
_UNIX: Final = hasattr(socket, "AF_UNIX") and os.name == "posix"


class Bus:
    """The news of the store in the file ``path``. Use it on one event loop at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listeners = Listeners()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: Path | None = None
        self._heard: set[asyncio.StreamWriter] = set()
        """Connections of others to us."""
        self._peers: dict[str, asyncio.StreamWriter] = {}
        """Our connections to others, by the names of their sockets."""
        self._missed: set[str] = set()
        """Whom we have cut off: they have to know, once they listen again."""
        self._meeting = asyncio.Lock()
        self._seen = 0
        """When the folder of sockets last changed, as far as we know."""

    def subscribe(self, topic: str, take: Take) -> Callable[[], None]:
        return self._listeners.add(topic, take)

    async def open(self) -> None:
        """Listen, once for this process and loop.

        Raises:
            StoreUnavailable: the folder of sockets is not ours, or cannot be made.
        """
        loop = asyncio.get_running_loop()
        if not _UNIX or (self._loop is loop and self._socket is not None and _mine(self._socket)):
            return
        self._loop, self._peers, self._heard, self._seen = loop, {}, set(), 0
        self._meeting = asyncio.Lock()
        path = _folder(self._path) / f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        listening = socket.socket(socket.AF_UNIX)
        try:
            # Who finds a socket that nobody answers on removes it: it gets its name when it listens.
            listening.bind(os.fspath(path.with_suffix(".new")))
            listening.listen(BUS_QUEUE)
            path.with_suffix(".new").rename(path)
            # In two steps: who is cancelled in the second leaves what `close` finds.
            self._server = await asyncio.start_unix_server(self._listen, sock=listening, start_serving=False)
        except OSError as error:
            listening.close()
            raise StoreUnavailable("the store cannot listen to other processes") from error
        self._socket = path
        await self._server.start_serving()

    async def publish(self, topic: str, message: bytes) -> None:
        """Tell listeners here at once, and hand the message to all other processes.

        Raises:
            StoreError: it is larger than `settings.BUS_MESSAGE`, or as `open`.
        """
        name = topic.encode()
        if len(message) > BUS_MESSAGE:
            raise StoreError(f"news may have {BUS_MESSAGE} bytes")
        await self.open()
        self._listeners.tell(topic, message)
        if not _UNIX:
            return
        async with self._meeting:
            await self._look()
        data = _HEAD.pack(len(name), len(message)) + name + message
        for peer, writer in tuple(self._peers.items()):
            try:
                writer.write(data)
                waiting = writer.transport.get_write_buffer_size()
            except (RuntimeError, OSError):  # how uvloop says that it is closed
                self._drop(peer)
                continue
            if waiting > BUS_BACKLOG:
                log.warning("a process takes no news: it is cut off")
                self._missed.add(peer)
                writer.transport.abort()
            if writer.is_closing():
                self._drop(peer)

    async def close(self) -> None:
        server, self._server = self._server, None
        path, self._socket = self._socket, None
        for peer in tuple(self._peers):
            self._drop(peer)
        if server is not None and self._loop is asyncio.get_running_loop():
            server.close()
            for writer in self._heard:
                writer.close()
        if path is not None and _mine(path):
            path.unlink(missing_ok=True)

    # --- inside -------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Connect to whoever is new."""
        assert self._socket is not None
        folder = self._socket.parent
        changed = folder.stat().st_mtime_ns
        if changed == self._seen:
            return
        for path in folder.glob("*.sock"):
            if path != self._socket and path.name not in self._peers:
                await self._meet(path)
        # File systems count in ticks: what changed just now may change again without a trace.
        if time.time_ns() - changed > BUS_SETTLED:
            self._seen = changed

    async def _meet(self, path: Path) -> None:
        try:
            _, writer = await asyncio.open_unix_connection(path)
        except ConnectionRefusedError:
            self._missed.discard(path.name)
            _remove(path)  # its process is gone
        except OSError:
            pass  # gone in this very moment
        else:
            self._peers[path.name] = writer
            if path.name in self._missed:
                self._missed.discard(path.name)
                writer.write(_HEAD.pack(len(GAP), 0))

    def _drop(self, peer: str) -> None:
        writer = self._peers.pop(peer)
        if self._loop is asyncio.get_running_loop():
            writer.close()
        self._seen = 0  # it may listen again

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._heard.add(writer)
        try:
            while True:
                topic, message = _HEAD.unpack(await reader.readexactly(_HEAD.size))
                if message > BUS_MESSAGE:
                    return
                data = await reader.readexactly(topic + message)
                self._listeners.tell(data[:topic].decode(), data[topic:])
        except (asyncio.IncompleteReadError, OSError, UnicodeDecodeError):
            pass  # that process is gone
        finally:
            self._heard.discard(writer)
            writer.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _mine(path: Path) -> bool:
    """Made by this very process, not by the one it was forked from."""
    return path.name.startswith(f"{os.getpid()}-")


def _folder(store: Path) -> Path:
    """The folder of the sockets of ``store``: short, as the names of sockets have to be, and only ours."""
    name = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:16]
    temporary = tempfile.gettempdir()
    # The kernel takes 107 bytes for the whole name of a socket, of which the rest needs 60.
    mine = Path(temporary if len(temporary) < 45 else "/tmp") / f"dovetail-{os.getuid()}"
    try:
        for folder in (mine, mine / name):
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise StoreUnavailable(f"{folder} is not a folder that only this user may enter")
    except OSError as error:
        raise StoreUnavailable("the store cannot listen to other processes") from error
    return mine / name
