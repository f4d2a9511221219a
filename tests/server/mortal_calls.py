"""Workers that call, run tasks and write one after the other, say what became of each, and are killed at any moment.

``python -m tests.server.mortal_calls PLACE EFFECTS`` is the host: for each line ``ahead first wait`` it forks a worker
whose clock is ``ahead``, lets it go on from number ``first``, kills it ``wait`` seconds after its first word, and
answers with one line of what it said. Forking spares the half second that a Python takes to begin.
"""

import asyncio
import json
import os
import select
import signal
import sys
import time
from importlib import import_module

from dovetail import Client, DovetailError, Server
from dovetail.settings import TaskOptions
from tests.support.shared import opened

KINDS = ("call", "task", "again", "write")
"""What is done under a number: its remainder says which."""


def make(place: str, effects: str, ahead: float) -> Server:
    def clock() -> float:
        return time.time() + ahead

    tasks = TaskOptions(ttl=86_400, poll_interval=0.02)
    server = Server("till", store=opened(place, ahead), clock=clock, tasks=tasks)

    def effect(number: int) -> int:
        with open(effects, "a") as file:
            file.write(f"{number}\n")
        return number

    @server.tool
    def call(number: int) -> int:
        return effect(number)

    @server.tool(task="required")
    async def task(number: int) -> int:
        return effect(number)

    @server.tool(task="required", annotations={"idempotentHint": True})
    async def again(number: int) -> int:
        return effect(number)

    return server


async def do(server: Server, client: Client, number: int) -> str:
    """Do what the number stands for, or go on with it, and say how it ended."""
    kind, key = KINDS[number % len(KINDS)], f"key-{number}"
    try:
        if kind == "write":
            assert server.lifecycle.store is not None
            await server.lifecycle.store.put(f"mine/{number}", str(number).encode())
        elif kind == "call":
            assert (await client.call_tool("call", {"number": number}, idempotency_key=key)).data == number
        else:
            handle = await client.create_task(kind, {"number": number}, idempotency_key=key)
            assert (await handle.result()).data == number
    except DovetailError as error:
        return error.kind
    return "done"


async def live(place: str, effects: str, ahead: float, first: int) -> None:
    server = make(place, effects, ahead)
    async with server.running(), Client(server) as client:
        for number in range(first, sys.maxsize):
            os.write(1, f"{number} {await do(server, client, number)}\n".encode())


def host(place: str, effects: str) -> None:
    if place.startswith("redis"):
        import_module("redis.asyncio.cluster")  # or each worker would take longer for it than it lives
    for line in sys.stdin:
        ahead, first, wait = line.split()
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.dup2(writing, 1)
            asyncio.run(live(place, effects, float(ahead), int(first)))
        os.close(writing)
        said = b""
        select.select([reading], [], [], 20)
        end = time.monotonic() + float(wait)
        while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
            if not (data := os.read(reading, 65536)):
                break
            said += data
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while data := os.read(reading, 65536):
            said += data
        os.close(reading)
        # A kill may cut the last line short.
        print(
            json.dumps([one.split() for one in said.decode().splitlines(True) if one.endswith("\n")]),
            flush=True,
        )


if __name__ == "__main__":
    host(sys.argv[1], sys.argv[2])
