"""What one `tools/call` of a client costs over HTTP, from `call_tool` to its result, on a connection that is there.

Counted in calls of our own Python functions, going on after a wait included, and in tasks. The server answers with
four headers, as uvicorn does; each one more is a call more.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import dovetail
from dovetail import Client
from dovetail.client.connecting.server_cache import ServerCache
from tests.client.fake_http import DISCOVERED, INITIALIZED
from tests.support.aio import run

CALLS = 59
OURS = str(Path(dovetail.__file__).parent)
HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Sun, 15 Nov 2026 12:00:00 GMT\r\nserver: test\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
CALLED = {
    "content": [{"type": "text", "text": "5"}],
    "structuredContent": {"result": 5},
    "resultType": "complete",
}
RESULTS = {"server/discover": DISCOVERED, "initialize": INITIALIZED, "tools/call": CALLED}


class Answering(asyncio.Protocol):
    """A server that costs none of our calls."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        message = json.loads(data.partition(b"\r\n\r\n")[2] or b"{}")
        if "id" not in message:
            self.transport.write(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n")
            return
        result = {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}
        body = json.dumps(result, separators=(",", ":")).encode()
        self.transport.write(HEAD % len(body) + body)


@pytest.mark.parametrize("revision", ["modern", "legacy"])
@run
async def test_a_call_over_http_stays_within_its_budget(revision: str) -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and (code.co_filename.startswith(OURS) or code.co_name == "create_task"):
            calls.append(f"{code.co_filename.removeprefix(OURS)}:{code.co_qualname}")

    async with Client(url, revision=revision, server_cache=ServerCache()) as client:
        for _ in range(5):  # what is made once is made
            await client.call_tool("add", {"a": 2, "b": 3})
        sys.setprofile(profile)
        try:
            await client.call_tool("add", {"a": 2, "b": 3})
        finally:
            sys.setprofile(None)
    server.close()
    await server.wait_closed()
    assert len(calls) <= CALLS, "\n".join(calls)
    assert not [call for call in calls if call.endswith("create_task")]
