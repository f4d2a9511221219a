"""What sockets are read into: one buffer for all that one thread reads.

asyncio's usual way allocates 256 KiB for every read and gives most of it back; that costs 20 µs a time and leaves the
heap in pieces. A protocol with a buffer of its own would hold it for every idle connection. But between filling the
buffer and being told so, nothing else runs in the thread of an event loop: one buffer serves all its connections, as
long as everybody takes what is in it at once.
"""

from __future__ import annotations

import threading

SIZE = 64 << 10


class _Buffer(threading.local):
    def __init__(self) -> None:
        self.view = memoryview(bytearray(SIZE))


_buffer = _Buffer()


def shared_buffer() -> memoryview:
    """The buffer of this thread, for `asyncio.BufferedProtocol.get_buffer`."""
    return _buffer.view


def taken(size: int) -> bytes:
    """The first ``size`` bytes of it."""
    return _buffer.view[:size].tobytes()
