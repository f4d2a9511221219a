"""Reader and writer threads for descriptors that the event loop cannot poll.

These are plain files, the null device, and everything on Windows. The reader thread passes on one chunk at a
time and waits until it was processed, so at most one chunk is buffered (backpressure).
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from .read_buffer import STREAM_CHUNK
from .stream import LineLink, lost_because


class FileSource:
    """The reading side with its thread. Starts paused."""

    def __init__(self, descriptor: int, link: LineLink) -> None:
        self._descriptor = descriptor
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Event()
        self._closed = False
        self._paused = True
        threading.Thread(target=self._read, name="dovetail-stdin", daemon=True).start()

    def pause_reading(self) -> None:
        self._paused = True
        self._wanted.clear()

    def resume_reading(self) -> None:
        self._paused = False
        self._wanted.set()

    def close(self) -> None:
        self._closed = True
        self._wanted.set()  # a thread inside `read` stays there until the read returns; it is a daemon

    def _read(self) -> None:
        try:
            while True:
                self._wanted.wait()
                if self._closed:
                    break
                data = os.read(self._descriptor, STREAM_CHUNK)
                self._wanted.clear()
                self._call(self._take, data)
                if not data:
                    break
        except OSError as error:
            self._call(self._link.finish, lost_because(error))
        finally:
            os.close(self._descriptor)

    def _take(self, data: bytes) -> None:
        if self._closed:
            return
        if not data:
            self._link.eof_received()
            return
        self._link.data_received(data)
        if not self._paused:
            self._wanted.set()

    def _call(self, function: Callable[[Any], Any], argument: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            pass  # the loop was closed before the file ended


class FileSink:
    """The writing side with its thread."""

    def __init__(self, descriptor: int, link: LineLink) -> None:
        self._descriptor = descriptor
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._high = STREAM_CHUNK
        self._unwritten = 0
        self._full = False
        self._closed = False
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="dovetail-stdout", daemon=True).start()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = STREAM_CHUNK if high is None else high

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        self._unwritten += len(data)
        self._chunks.put(data)
        if self._unwritten > self._high and not self._full:
            self._full = True
            self._link.pause_writing()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._chunks.put(None)

    def abort(self) -> None:
        self.close()
        self._link.finish(None)

    def _write(self) -> None:
        error: OSError | None = None
        while (chunk := self._chunks.get()) is not None:
            view = memoryview(chunk)
            try:
                while view and error is None:
                    view = view[os.write(self._descriptor, view) :]
            except OSError as reason:
                error = reason
                self._call(self._finished, error)
            self._call(self._written, len(chunk))
        os.close(self._descriptor)
        self._call(self._finished, None)

    def _written(self, size: int) -> None:
        self._unwritten -= size
        if self._full and self._unwritten <= self._high // 4:
            self._full = False
            self._link.resume_writing()

    def _finished(self, error: OSError | None) -> None:
        self._closed = True
        self._link.finish(None if error is None else lost_because(error))

    def _call(self, function: Callable[[Any], None], argument: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            pass
