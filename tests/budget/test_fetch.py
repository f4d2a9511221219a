"""What one HTTP exchange of a client costs: a POST on a connection that is there, a small JSON answer, read whole.

Counted in Python function calls of our own modules, in turns of the event loop and in tasks, which do not flutter with
the load of the machine.
"""

import asyncio
import sys
from typing import Any

import pytest

from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.support.aio import run

CALLS = 22
TURNS = 3
"""One in which the server reads the request, one in which the answer is read, one in which its reader continues."""

HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Mcp-Session-Id": "abc",
    "MCP-Protocol-Version": "2025-11-25",
}
ANSWER = (
    b"HTTP/1.1 200 OK\r\ndate: Sun, 15 Nov 2026 12:00:00 GMT\r\nserver: test\r\n"
    b"content-type: application/json\r\ncontent-length: 40\r\n\r\n" + b"x" * 40
)
OURS = ("pool.py", "routes.py", "connection.py", "addresses.py", "inflating.py", "buffers.py")


class Answering(asyncio.Protocol):
    """A server that costs one call."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER)


class Measured:
    """One session, and what its last exchange cost."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.turns = 0
        self.tasks = 0

    async def exchange(self, send: Any, url: str) -> None:
        response = await send("POST", url, HEADERS, b'{"jsonrpc": "2.0"}')
        try:
            assert response.headers.get("Content-Type") == "application/json"
            assert await response.read(1000) == b"x" * 40
        finally:
            response.close()

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        if event != "call":
            return
        module = frame.f_code.co_filename.rpartition("/")[2].removesuffix(">").rpartition(" ")[2]
        name = frame.f_code.co_qualname
        self.turns += name == "BaseEventLoop._run_once"
        self.tasks += name == "BaseEventLoop.create_task"
        if module in OURS:
            self.calls.append(f"{module}:{name}")

    async def count(self, send: Any, url: str) -> None:
        self.calls, self.turns, self.tasks = [], 0, 0
        sys.setprofile(self._profile)
        try:
            await self.exchange(send, url)
        finally:
            sys.setprofile(None)


async def cost(others: int = 0) -> Measured:
    """The cost of an exchange, when ``others`` were under way at once before it."""
    measured = Measured()
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with HttpFetch().session() as send:
        await asyncio.gather(*(measured.exchange(send, url) for _ in range(others)))
        for _ in range(3):  # what is made once is made
            await measured.exchange(send, url)
        await measured.count(send, url)
    server.close()
    await server.wait_closed()
    return measured


@run
async def test_an_exchange_stays_within_its_budget_and_starts_nothing() -> None:
    measured = await cost()
    assert len(measured.calls) <= CALLS, "\n".join(measured.calls)
    assert measured.tasks == 0


@run
async def test_an_exchange_takes_no_turn_of_the_loop_that_it_does_not_need() -> None:
    assert (await cost()).turns <= TURNS


@pytest.mark.parametrize("others", [10, 50])
def test_the_cost_does_not_grow_with_the_number_of_connections(others: int) -> None:
    @run
    async def scenario() -> None:
        assert len((await cost(others)).calls) == len((await cost()).calls)

    scenario()
