"""The buffer that sockets and pipes are read into: one for all connections of a thread.

asyncio's usual way allocates 256 KiB for every read and gives most of it back; that costs 20 µs a time and fragments
the heap. A protocol with a buffer of its own would hold it for every idle connection. But between filling the buffer
and the call of `buffer_updated` nothing else runs in the thread of an event loop: one buffer serves all its
connections, as long as each takes the bytes out at once.
"""

from __future__ import annotations

import threading
from typing import Final

STREAM_CHUNK: Final = 64 << 10
"""Bytes read at once, and the high-water mark of a write buffer unless the link has another: the size of a
pipe."""


class _Buffer(threading.local):
    def __init__(self) -> None:
        self.view = memoryview(bytearray(STREAM_CHUNK))


_buffer = _Buffer()


def shared_buffer() -> memoryview:
    """The buffer of this thread, for `asyncio.BufferedProtocol.get_buffer`."""
    return _buffer.view


def taken(size: int) -> bytes:
    """The first ``size`` bytes of it."""
    return _buffer.view[:size].tobytes()
