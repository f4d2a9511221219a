"""The shared read buffer of all sockets and pipes of one thread.

By default asyncio allocates 256 KiB for every read and returns most of it, which costs 20 µs each time and
fragments the heap. A buffer per protocol would stay allocated for every idle connection. Between `get_buffer`
and `buffer_updated` no other code runs in the thread of an event loop. So one buffer serves all its
connections, if each one copies the data at once.
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
    """Return the buffer of this thread, for `asyncio.BufferedProtocol.get_buffer`."""
    return _buffer.view


def taken(size: int) -> bytes:
    """Copy the first ``size`` bytes of the buffer."""
    return _buffer.view[:size].tobytes()
