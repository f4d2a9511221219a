"""Our client: ``FILE stdio|http ERA SECONDS TARGET…`` or ``FILE many ERA COUNT URL``."""

import asyncio
import json
import sys
import time
from pathlib import Path

from dovetail import Client

way, era, amount, *target = sys.argv[1:]


async def call(client):
    result = await client.call_tool("echo", {"text": "hello"})
    assert result.text == "hello"


async def sequential(client, seconds):
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        await call(client)
        calls += 1
    return calls / (time.perf_counter() - begun), calls


async def concurrent(client, seconds, workers=64):
    begun = time.perf_counter()

    async def work():
        calls = 0
        while time.perf_counter() - begun < seconds:
            await call(client)
            calls += 1
        return calls

    calls = sum(await asyncio.gather(*(work() for _ in range(workers))))
    return calls / (time.perf_counter() - begun), calls


async def speed(seconds):
    async with Client(target if way == "stdio" else target[0], revision=era) as client:
        await client.list_tools()
        await sequential(client, 0.2)
        one, calls_1 = await sequential(client, seconds)
        many, calls_64 = await concurrent(client, seconds)
    return {"rate_1": one, "calls_1": calls_1, "rate_64": many, "calls_64": calls_64}


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


async def crowd(count):
    first = await Client(target[0], revision=era).open()
    await call(first)
    before, begun = resident(), time.perf_counter()
    tasks = len(asyncio.all_tasks())
    clients = [Client(target[0], revision=era) for _ in range(count)]
    for start in range(0, count, 50):
        await asyncio.gather(*(client.open() for client in clients[start : start + 50]))
    for start in range(0, count, 50):
        await asyncio.gather(*(call(client) for client in clients[start : start + 50]))
    took = time.perf_counter() - begun
    found = {
        "client_tasks": (len(asyncio.all_tasks()) - tasks) / count,
        "client_memory": (resident() - before) / count,
        "seconds": took,
    }
    for client in (first, *clients):
        await client.close()
    return found


print(json.dumps(asyncio.run(crowd(int(amount)) if way == "many" else speed(float(amount)))))
