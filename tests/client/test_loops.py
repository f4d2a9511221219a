"""One client and several event loops: each may end in its own way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from dovetail import Client, Server
from dovetail.errors import StateError
from tests.support.waiting import HANG


def make_client() -> Client:
    server = Server("loops")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return Client(server)


async def use(client: Client) -> None:
    async with client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3


def test_a_client_may_be_used_on_one_loop_after_another() -> None:
    client = make_client()
    for _ in range(2):
        asyncio.run(use(client))


def test_blocks_that_share_a_client_share_its_connection() -> None:
    async def share() -> None:
        client = make_client()
        async with client:
            await use(client)
            assert client.state == "ready", "the inner block does not close it for the outer one"
            await asyncio.gather(use(client), use(client))
            assert client.state == "ready"
        assert client.state == "closed"
        await asyncio.gather(use(client), use(client))
        assert client.state == "closed"
        async with client:
            await client.close()
            assert client.state == "closed", "close is close"

    asyncio.run(share())


def test_a_loop_that_ends_under_an_open_client_closes_it() -> None:
    client = make_client()

    async def forget() -> None:
        await client.open()

    asyncio.run(forget())
    assert client.state == "closed"
    asyncio.run(use(client))


ABANDONED = """
import asyncio, os, sys, time
from dovetail import Client
server = '''
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "x", "version": str(os.getpid())}
        found = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}), flush=True)
'''
client = Client([sys.executable, "-c", server], revision="2025-06-18")
loop = asyncio.new_event_loop()
loop.run_until_complete(client.open())
pid = int(client.server_info.version)
loop.close()
asyncio.run(asyncio.wait_for(client.close(), 60))
print(client.state)
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        os.kill(pid, 0)  # asyncio's own watcher takes note of the end in a thread
    except ProcessLookupError:
        print("gone")
        break
    time.sleep(0.01)
async def again():
    async with client:
        print(client.revision)
asyncio.run(asyncio.wait_for(again(), 60))
"""


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_a_loop_that_was_closed_under_an_open_client_takes_its_child_with_it() -> None:
    # In a separate process: asyncio rightly complains about resources on the closed loop.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ABANDONED], capture_output=True, text=True, timeout=HANG
    )
    assert done.stdout.split() == ["closed", "gone", "2025-06-18"], done.stderr


def test_closing_on_another_loop_while_the_first_runs_is_refused_and_does_not_hang() -> None:
    client = make_client()
    opened, finish = threading.Event(), threading.Event()

    async def live() -> None:
        await client.open()
        opened.set()
        await asyncio.to_thread(finish.wait)
        await client.close()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    assert opened.wait(HANG)
    with pytest.raises(StateError, match="another event loop"):
        asyncio.run(client.close())
    finish.set()
    thread.join(HANG)
    assert client.state == "closed"
