"""What one ``tools/call`` costs through the bare ASGI app, from the scope to the last `send`.

Counted in Python function calls, tasks and queues, which do not flutter with the load of the machine. The
test's own `receive` and `send` are left out.
"""

import asyncio
import json
import sys
from typing import Any

import pytest

from dovetail import Server
from tests.support.aio import run
from tests.support.rawclient import MODERN
from tests.support.schemas import validate
from tests.support.web import legacy_headers, modern, modern_headers, request

MODERN_CALLS = 32
SESSION_CALLS = {"2025-03-26": 50, "2025-06-18": 48, "2025-11-25": 40}
"""The oldest has more members to leave out."""


def serving(tools: int) -> Server:
    server = Server("budget")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    for number in range(tools - 1):
        server.add_tool(add, name=f"add_{number}")
    return server


class Measured:
    """One app, and what its answers cost."""

    def __init__(self, server: Server) -> None:
        self.app = server.asgi()
        self.calls: list[str] = []
        self.tasks = 0

    async def post(
        self, message: dict[str, Any], headers: dict[str, str]
    ) -> tuple[dict[bytes, bytes], bytes]:
        sent: list[Any] = []
        body = json.dumps(message, separators=(",", ":")).encode()

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8000"), (b"content-length", b"%d" % len(body)), *raw],
            "server": ("127.0.0.1", 8000),
        }
        await self._count(self.app(scope, receive, send))
        return dict(sent[0]["headers"]), sent[1]["body"]

    async def _count(self, work: Any) -> None:
        self.calls, self.tasks = [], 0

        def profile(frame: Any, event: str, argument: Any) -> None:
            if event == "call" and frame.f_code.co_filename != __file__:
                self.calls.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_qualname}")

        def factory(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            self.tasks += 1
            return asyncio.Task(coroutine, loop=loop, **options)

        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        sys.setprofile(profile)
        try:
            await work
        finally:
            sys.setprofile(None)
            loop.set_task_factory(None)


async def modern_cost(tools: int) -> Measured:
    measured = Measured(serving(tools))
    for _ in range(3):  # what is made once is made
        message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        _, body = await measured.post(message, modern_headers(message))
    validate(body, MODERN, method="tools/call")
    assert json.loads(body)["result"]["content"][0]["text"] == "3"
    await measured.app.drain(0)
    return measured


async def session_cost(revision: str, tools: int = 1) -> Measured:
    measured = Measured(serving(tools))
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    headers, _ = await measured.post(request("initialize", params), legacy_headers(None))
    session = legacy_headers(revision, headers[b"mcp-session-id"].decode())
    for _ in range(3):
        message = request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        _, body = await measured.post(message, session)
    validate(body, revision, method="tools/call")
    await measured.app.drain(0)
    return measured


@run
async def test_a_modern_call_stays_within_its_budget_and_starts_nothing() -> None:
    cost = await modern_cost(1)
    assert len(cost.calls) <= MODERN_CALLS, "\n".join(cost.calls)
    assert cost.tasks == 0
    assert not [name for name in cost.calls if name.startswith(("queues.py", "locks.py"))]


@pytest.mark.parametrize("revision", SESSION_CALLS)
def test_a_call_in_a_session_stays_within_its_budget_and_starts_nothing(revision: str) -> None:
    @run
    async def scenario() -> None:
        cost = await session_cost(revision)
        assert len(cost.calls) <= SESSION_CALLS[revision], "\n".join(cost.calls)
        assert cost.tasks == 0

    scenario()


@run
async def test_the_cost_does_not_grow_with_the_number_of_tools_or_sessions() -> None:
    few, many = await modern_cost(1), await modern_cost(200)
    assert len(few.calls) == len(many.calls)
    few, many = await session_cost("2025-11-25"), await session_cost("2025-11-25", 200)
    assert len(few.calls) == len(many.calls)


@run
async def test_a_call_is_watched_only_when_it_takes_a_while() -> None:
    measured = Measured(serving(1))
    message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    for _ in range(50):
        await measured.post(message, modern_headers(message))
    watching = measured.app.app.modern.watching
    assert not watching.calls
    assert not watching.watches
    await measured.app.drain(0)
