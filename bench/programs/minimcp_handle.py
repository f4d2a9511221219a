"""MiniMCP's ``handle`` on one message after the other: processor time per call. ``FILE SECONDS``."""

import asyncio
import json
import sys
import time

from minimcp import MiniMCP
from pydantic import BaseModel

server = MiniMCP("bench", version="1.0.0")


class Sum(BaseModel):
    sum: int


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


async def main(seconds):
    params = {"name": "add", "arguments": {"a": 2, "b": 3}}
    one = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    reply = await server.handle(one)
    assert json.loads(reply)["result"]["structuredContent"] == {"sum": 5}, reply
    begun, cpu, calls = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begun < seconds:
        for _ in range(100):
            await server.handle(one)
        calls += 100
    cpu, took = time.process_time() - cpu, time.perf_counter() - begun
    print(json.dumps({"cpu_us": cpu / calls * 1e6, "calls": calls, "seconds": took}))


asyncio.run(main(float(sys.argv[1])))
