"""Reading takes no more memory than what arrives: large buffers that come and go leave the heap in pieces."""

import asyncio
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from dovetail.transports import child, websocket
from dovetail.transports.stream import LINES_PER_ITERATION
from tests.support.aio import run

from .recorder import Recorder, pair

ASYNCIO = 256 << 10
"""What asyncio allocates for every read, unless the protocol brings its own buffer."""
LINES = 40 * LINES_PER_ITERATION
"""Some tens of kilobytes: what is read at once."""


@contextmanager
def measured() -> Iterator[list[int]]:
    """The peak of memory allocated inside, in bytes."""
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


@pytest.mark.parametrize("kind", ["tcp", "unix", "pipes"])
def test_lines_that_come_together_leave_room_for_others(kind: str) -> None:
    @run
    async def scenario() -> None:
        async with pair(kind) as (left, right):
            seen: list[int] = []  # by another task, in each loop iteration

            async def look() -> None:
                while len(right.messages) < LINES:
                    seen.append(len(right.messages))
                    await asyncio.sleep(0)

            looking = asyncio.create_task(look())
            left.link.send_many([b"[%d]" % number for number in range(LINES)])
            await right.until(lambda: len(right.messages) == LINES)
            await looking
            assert right.messages == [b"[%d]" % number for number in range(LINES)]
            assert max(after - before for before, after in pairwise([*seen, LINES])) <= LINES_PER_ITERATION
            left.link.send(b"[]")
            await right.until(lambda: len(right.messages) == LINES + 1)

    scenario()


@run
async def test_lines_that_wait_for_their_turn_come_before_the_end() -> None:
    receiver = Recorder()
    said = f"import sys; sys.stdout.write(''.join('[%d]\\n' % n for n in range({LINES})))"
    await child.spawn(receiver, [sys.executable, "-c", said])
    await receiver.until(lambda: receiver.losses)
    assert len(receiver.messages) == LINES
