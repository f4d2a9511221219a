"""The official SDK's client: ``FILE stdio|http ERA SECONDS TARGET…`` or ``FILE many ERA COUNT URL``."""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client, StdioServerParameters

way, era, amount, *target = sys.argv[1:]
mode = "legacy" if era == "legacy" else "2026-07-28"


def made():
    server = StdioServerParameters(command=target[0], args=target[1:]) if way == "stdio" else target[0]
    return Client(server, mode=mode)


async def call(client):
    result = await client.call_tool("echo", {"text": "hello"})
    assert result.content[0].text == "hello"


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
    async with made() as client:
        await client.list_tools()
        await sequential(client, 0.2)
        one, calls_1 = await sequential(client, seconds)
        many, calls_64 = await concurrent(client, seconds)
    return {"rate_1": one, "calls_1": calls_1, "rate_64": many, "calls_64": calls_64}


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


async def crowd(count):
    async with AsyncExitStack() as stack:
        await call(await stack.enter_async_context(made()))
        before, begun = resident(), time.perf_counter()
        tasks = len(asyncio.all_tasks())
        # One after the other: its contexts must be entered and left in one task, in order.
        for _ in range(count):
            await call(await stack.enter_async_context(made()))
        return {
            "client_tasks": (len(asyncio.all_tasks()) - tasks) / count,
            "client_memory": (resident() - before) / count,
            "seconds": time.perf_counter() - begun,
        }


print(json.dumps(asyncio.run(crowd(int(amount)) if way == "many" else speed(float(amount)))))
