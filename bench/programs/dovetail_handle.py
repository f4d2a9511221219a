"""``server.handle`` on one message after the other: processor time per call. ``FILE SECONDS``."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass

from dovetail import Server

server = Server("bench", version="1.0.0")


@dataclass
class Sum:
    sum: int


@server.tool
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(a + b)


def message(number: int) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    params = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


async def main(seconds: float) -> None:
    one = message(1)
    reply = await server.handle(one)
    assert reply is not None
    assert json.loads(reply)["result"]["structuredContent"] == {"sum": 5}, reply
    begun, cpu, calls = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begun < seconds:
        for _ in range(100):
            await server.handle(one)
        calls += 100
    cpu, took = time.process_time() - cpu, time.perf_counter() - begun
    print(json.dumps({"cpu_us": cpu / calls * 1e6, "calls": calls, "seconds": took}))


asyncio.run(main(float(sys.argv[1])))
