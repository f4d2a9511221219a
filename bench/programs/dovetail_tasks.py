"""Starting tasks on a server with a SQLite store: processor time of one start. ``FILE COUNT``."""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from dovetail import Server
from dovetail.stores import SqliteStore

COUNT = int(sys.argv[1])
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


async def main(path: Path) -> None:
    server = Server("bench", store=SqliteStore(path))
    gate = asyncio.Event()

    @server.tool(task="required")
    async def wait(number: int) -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async def start(number: int) -> None:
        params = {"name": "wait", "arguments": {"number": number}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        reply = await server.handle(json.dumps(message).encode(), {"principal": f"user {number % 50}"})
        assert reply is not None
        assert json.loads(reply)["result"]["resultType"] == "task", reply

    async with server.running():
        await start(0)
        begun, cpu = time.perf_counter(), time.process_time()
        for first in range(1, COUNT, 10):
            await asyncio.gather(*(start(number) for number in range(first, first + 10)))
        cpu, took = time.process_time() - cpu, time.perf_counter() - begun
        gate.set()
    print(json.dumps({"cpu_us": cpu / COUNT * 1e6, "calls": COUNT, "seconds": took}))


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder) / "state.db"))
