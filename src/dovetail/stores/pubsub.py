"""Publish/subscribe between the processes that share one SQLite store: one Unix socket per process.

The sockets are in a folder that only this user can access, named after the store file. A publisher connects
once to every socket in the folder. A socket that refuses connections belongs to a dead process and is
removed. A process that does not read is disconnected when its backlog exceeds `MAX_PUBSUB_BACKLOG_BYTES`.
Without Unix sockets (Windows), messages stay in their process.
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

from .base import GAP, MAX_PUBSUB_MESSAGE_BYTES, MessageCallback, StoreError, StoreUnavailable
from .topic_listeners import TopicListeners

MAX_PUBSUB_BACKLOG_BYTES: Final = 64 << 20
"""Unsent bytes for one process before it is disconnected."""
PUBSUB_LISTEN_BACKLOG: Final = 128
"""Processes that may connect to a socket before the first is accepted."""
PUBSUB_FOLDER_SETTLE_NS: Final = 100_000_000
"""Age in nanoseconds after which the modification time of the socket folder is reliable."""


log = logging.getLogger("dovetail.stores")

_HEAD: Final = struct.Struct("!HI")
"""Header of a message: the lengths of topic and message."""
_UNIX: Final = hasattr(socket, "AF_UNIX") and os.name == "posix"


class PubSub:
    """Publish/subscribe for the store file ``path``. Use it on one event loop at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listeners = TopicListeners()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: Path | None = None
        self._received: set[asyncio.StreamWriter] = set()
        """Incoming connections from other processes."""
        self._peers: dict[str, asyncio.StreamWriter] = {}
        """Outgoing connections, by socket name."""
        self._dropped: set[str] = set()
        """Sockets of peers that were disconnected. They receive a gap notification after reconnecting."""
        self._connecting = asyncio.Lock()
        self._folder_changed = 0
        """The modification time of the socket folder at the last scan, in nanoseconds."""

    def subscribe(self, topic: str, take: MessageCallback) -> Callable[[], None]:
        return self._listeners.add(topic, take)

    async def open(self) -> None:
        """Listen for other processes, once per process and event loop.

        Raises:
            StoreUnavailable: the socket folder belongs to another user, or cannot be created.
        """
        loop = asyncio.get_running_loop()
        if not _UNIX or (self._loop is loop and self._socket is not None and _created_here(self._socket)):
            return
        self._loop, self._peers, self._received, self._folder_changed = loop, {}, set(), 0
        self._connecting = asyncio.Lock()
        path = _socket_folder(self._path) / f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        listening = socket.socket(socket.AF_UNIX)
        try:
            # Peers remove sockets that refuse connections: rename only after listening.
            listening.bind(os.fspath(path.with_suffix(".new")))
            listening.listen(PUBSUB_LISTEN_BACKLOG)
            path.with_suffix(".new").rename(path)
            # In two steps, so that `close` finds the socket if the second step is cancelled.
            self._server = await asyncio.start_unix_server(self._listen, sock=listening, start_serving=False)
        except OSError as error:
            listening.close()
            raise StoreUnavailable(
                "the SQLite store cannot open its Unix socket; check the temporary folder"
            ) from error
        self._socket = path
        await self._server.start_serving()

    async def publish(self, topic: str, message: bytes) -> None:
        """Notify local subscribers and send the message to all other processes.

        Raises:
            StoreError: the message exceeds `MAX_PUBSUB_MESSAGE_BYTES`.
            StoreUnavailable: as `open`.
        """
        name = topic.encode()
        if len(message) > MAX_PUBSUB_MESSAGE_BYTES:
            raise StoreError(f"published message exceeds {MAX_PUBSUB_MESSAGE_BYTES} bytes")
        await self.open()
        self._listeners.notify(topic, message)
        if not _UNIX:
            return
        async with self._connecting:
            await self._find_peers()
        data = _HEAD.pack(len(name), len(message)) + name + message
        for peer, writer in tuple(self._peers.items()):
            try:
                writer.write(data)
                waiting = writer.transport.get_write_buffer_size()
            except (RuntimeError, OSError):  # uvloop reports a closed transport this way
                self._drop(peer)
                continue
            if waiting > MAX_PUBSUB_BACKLOG_BYTES:
                log.warning("pubsub peer disconnected: it does not read its messages")
                self._dropped.add(peer)
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
            for writer in self._received:
                writer.close()
        if path is not None and _created_here(path):
            path.unlink(missing_ok=True)

    # --- internal -------------------------------------------------------------------------------------------

    async def _find_peers(self) -> None:
        """Connect to processes that started since the last scan."""
        assert self._socket is not None
        folder = self._socket.parent
        changed = folder.stat().st_mtime_ns
        if changed == self._folder_changed:
            return
        for path in folder.glob("*.sock"):
            if path != self._socket and path.name not in self._peers:
                await self._connect_to(path)
        # File systems have coarse timestamps: a recent change may be followed by an invisible one.
        if time.time_ns() - changed > PUBSUB_FOLDER_SETTLE_NS:
            self._folder_changed = changed

    async def _connect_to(self, path: Path) -> None:
        try:
            _, writer = await asyncio.open_unix_connection(path)
        except ConnectionRefusedError:
            self._dropped.discard(path.name)
            _remove(path)  # its process has ended
        except OSError:
            pass  # removed between the scan and the connection attempt
        else:
            self._peers[path.name] = writer
            if path.name in self._dropped:
                self._dropped.discard(path.name)
                writer.write(_HEAD.pack(len(GAP), 0))

    def _drop(self, peer: str) -> None:
        writer = self._peers.pop(peer)
        if self._loop is asyncio.get_running_loop():
            writer.close()
        self._folder_changed = 0  # scan again: the process may listen again

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._received.add(writer)
        try:
            while True:
                topic, message = _HEAD.unpack(await reader.readexactly(_HEAD.size))
                if message > MAX_PUBSUB_MESSAGE_BYTES:
                    return
                data = await reader.readexactly(topic + message)
                self._listeners.notify(data[:topic].decode(), data[topic:])
        except (asyncio.IncompleteReadError, OSError, UnicodeDecodeError):
            pass  # that process has ended
        finally:
            self._received.discard(writer)
            writer.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _created_here(path: Path) -> bool:
    """Return whether this process created the socket, and not the process it was forked from."""
    return path.name.startswith(f"{os.getpid()}-")


def _socket_folder(store: Path) -> Path:
    """Return the private socket folder of ``store``. Its path is short because socket paths are limited."""
    name = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:16]
    temporary = tempfile.gettempdir()
    # The kernel limits a socket path to 107 bytes, of which the file name needs 60.
    mine = Path(temporary if len(temporary) < 45 else "/tmp") / f"dovetail-{os.getuid()}"
    try:
        for folder in (mine, mine / name):
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise StoreUnavailable(
                    f"{folder} is not a private folder of this user (mode 0700); remove it"
                )
    except OSError as error:
        raise StoreUnavailable(
            "the SQLite store cannot create its socket folder; check the temporary folder"
        ) from error
    return mine / name
