"""``python -m tests.server.forked STORE EFFECTS``: two processes forked from one server; one works, the other looks."""

import asyncio
import os
import sys
from pathlib import Path

from dovetail import Server
from dovetail.extensions.tasks.task_store import WORK
from dovetail.stores import SqliteStore
from tests.support.peer import Peer
from tests.support.waiting import found, until

store, effects = SqliteStore(Path(sys.argv[1])), Path(sys.argv[2])
server = Server("works", store=store)


def note() -> None:
    with effects.open("a") as file:
        file.write(f"{os.getpid()}\n")


@server.tool(task="required", annotations={"idempotentHint": True})
async def wait() -> str:
    note()
    return await asyncio.get_running_loop().create_future()


async def work(begun: int, looked: int) -> None:
    peer = Peer(server, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}})
    async with server.running():
        await peer.result("tools/call", name="wait", arguments={})
        await until(lambda: effects.exists() and effects.read_text())
        # Without a task: a scan of unfinished work removes it, and it is the last one.
        await store.put(f"{WORK}/~", b"task/-/none")
        os.write(begun, b"1")
        await asyncio.to_thread(os.read, looked, 1)


async def look() -> None:
    async def gone() -> bool | None:
        return (await store.get(f"{WORK}/~") is None) or None

    async with server.running():
        await found(gone)


def main() -> None:
    (heard, begun), (done, looked) = os.pipe(), os.pipe()
    if os.fork():
        asyncio.run(work(begun, done))
        os.wait()
        print(len(effects.read_text().split()))
        return
    os.read(heard, 1)
    asyncio.run(look())
    os.write(looked, b"1")


if __name__ == "__main__":
    main()
