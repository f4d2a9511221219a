"""The two ends of a pipe on the event loop: read when readable, write at once and buffer only the rest.

asyncio's pipe transports do the same with more steps: they allocate 256 KiB for each read, and those of a
child process pass every chunk through another loop iteration. For a single call that was half of the time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from .read_buffer import STREAM_CHUNK, shared_buffer, taken
from .stream import LineLink, lost_because

Over = Callable[[OSError | None], None]


class PipeSource:
    """The reading end. Starts paused.

    ``over`` is called once, at the end of input (None) or with the error; by default it notifies the link.
    """

    def __init__(self, descriptor: int, link: LineLink, over: Over | None = None) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self.received: Callable[[bytes], object] = link.data_received
        """The receiver of the data."""
        self._link = link
        self._over = over or self._tell
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._closed = False

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        if not self._reading and not self._closed:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        if not self._closed:
            self.pause_reading()
            self._closed = True
            os.close(self._descriptor)

    def drop(self) -> None:
        """Close without the event loop, if that was closed first."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def _read(self) -> None:
        try:
            size = os.readv(self._descriptor, (shared_buffer(),))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close()
            self._over(error)
            return
        if size:
            self.received(taken(size))
        else:
            self.close()
            self._over(None)

    def _tell(self, error: OSError | None) -> None:
        if error is None:
            self._link.eof_received()
        else:
            self._link.finish(lost_because(error))


class PipeSink:
    """The writing end. ``over`` is called once, after `close` (None) or with the error; it ends the link.

    It also detects a reader that closes its end before the next write.
    """

    def __init__(self, descriptor: int, link: LineLink, over: Over | None = None) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._link = link
        self._over = over or self._tell
        self._loop = asyncio.get_running_loop()
        self._unwritten = bytearray()
        self._high = self._low = STREAM_CHUNK
        self._full = False
        self._closing = False
        self._closed = False
        if not os.isatty(descriptor):
            # Nothing is ever written to this end from the other side: "readable" means that it was closed.
            self._loop.add_reader(descriptor, self._reader_closed)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = STREAM_CHUNK if high is None else high
        self._low = self._high // 4 if low is None else low

    def write(self, data: bytes) -> None:
        if self._closing:
            return
        if self._unwritten:
            self._unwritten += data
        else:
            try:
                written = os.write(self._descriptor, data)
            except (BlockingIOError, InterruptedError):
                written = 0
            except OSError as error:
                # The caller is in the middle of a write, so the end is reported in the next loop iteration.
                self._closing = True
                self._loop.call_soon(self._end, error)
                return
            if written == len(data):
                return
            self._unwritten += memoryview(data)[written:]
            self._loop.add_writer(self._descriptor, self._write)
        if len(self._unwritten) > self._high and not self._full:
            self._full = True
            self._link.pause_writing()

    def close(self) -> None:
        """Flush the buffer, then close."""
        if not self._closing:
            self._closing = True
            if not self._unwritten:
                self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        """Close at once; buffered data is lost."""
        self._closing = True
        self._loop.call_soon(self._end, None)

    def drop(self) -> None:
        """Close without the event loop, if that was closed first."""
        if not self._closed:
            self._closing = self._closed = True
            os.close(self._descriptor)

    def _write(self) -> None:
        unwritten = self._unwritten
        try:
            written = os.write(self._descriptor, unwritten)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        del unwritten[:written]
        if not unwritten:
            self._loop.remove_writer(self._descriptor)
            if self._closing:
                self._end(None)
                return
        if self._full and len(unwritten) <= self._low:
            self._full = False
            self._link.resume_writing()

    def _reader_closed(self) -> None:
        self._end(BrokenPipeError("the reader closed its end of the pipe") if self._unwritten else None)

    def _end(self, error: OSError | None) -> None:
        if self._closed:
            return
        self._closing = self._closed = True
        self._unwritten.clear()
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        os.close(self._descriptor)
        self._over(error)

    def _tell(self, error: OSError | None) -> None:
        self._link.finish(None if error is None else lost_because(error))
