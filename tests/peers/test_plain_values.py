"""Scalars and lists as clients of FastMCP see them: ``data`` is the plain value."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import peers

from .environment import need

pytestmark = pytest.mark.peer

SERVER = """
from dovetail import Server

server = Server("values")

@server.tool
def number() -> float:
    return 3.0

@server.tool
def numbers() -> list[int]:
    return [1, 2]

@server.tool
def mapping() -> dict[str, int]:
    return {"result": 1}
"""
CLIENT = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

async def main():
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:])) as client:
        print(json.dumps([(await client.call_tool(name, {})).data for name in ("number", "numbers", "mapping")]))

asyncio.run(main())
"""


@pytest.mark.parametrize("environment", ["compat-fastmcp2", "compat-fastmcp3", "fastmcp"])
def test_fastmcp_clients_get_plain_values(environment: str, tmp_path: Path) -> None:
    need(environment)
    server, client = tmp_path / "server.py", tmp_path / "client.py"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    command = [str(Path(sys.executable).with_name("dovetail")), "run", str(server)]
    done = subprocess.run(
        [peers.interpreter(environment), str(client), *command],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [3.0, [1, 2], {"result": 1}]
