"""Reading takes no more memory than what arrives: large buffers that come and go leave the heap in pieces."""

import asyncio
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dovetail.transports import websocket
from tests.support.aio import run

from .recorder import Recorder, pair

ASYNCIO = 256 << 10
"""What asyncio allocates for every read, unless the protocol brings its own buffer."""


@contextmanager
def measured() -> Iterator[list[int]]:
    """The peak of what was allocated inside, in bytes."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["tcp", "unix", "pipes"])
def test_a_small_message_is_read_without_a_large_buffer(kind: str) -> None:
    @run
    async def scenario() -> None:
        async with pair(kind, echo=True) as (left, _):
            await echoed(left)
            with measured() as peak:
                await echoed(left)
            assert peak[0] < ASYNCIO

    scenario()


@run
async def test_a_small_message_is_read_without_a_large_buffer_over_a_websocket() -> None:
    server = pytest.importorskip("websockets.sync.server")

    def echo(connection: Any) -> None:
        for message in connection:
            connection.send(message)

    with server.serve(echo, "127.0.0.1", 0, subprotocols=["mcp"]) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            port = listener.socket.getsockname()[1]
            here = Recorder()
            link = await websocket.connect(here, f"ws://127.0.0.1:{port}/mcp")
            await echoed(here)
            with measured() as peak:
                await echoed(here)
            assert peak[0] < ASYNCIO
            link.close()
            await link.wait_closed()
        finally:
            await asyncio.to_thread(listener.shutdown)
            thread.join()


async def echoed(one: Recorder) -> None:
    """Send a small message and wait until it is back."""
    before = len(one.messages)
    one.link.send(b'{"small":1}')
    await one.until(lambda: len(one.messages) > before)
