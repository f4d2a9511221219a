"""What a compat server loads before its first answer, in modules and models: whoever starts it waits for them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import atexit, gc, json, sys
looks, freeze = [], gc.freeze
def frozen():
    looks.append(sum(one["collections"] for one in gc.get_stats()) - before)
    freeze()
gc.freeze = frozen
before = sum(one["collections"] for one in gc.get_stats())
def told():
    from pydantic import BaseModel
    def below(kind):
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))
    made = below(BaseModel)
    built = sum(kind.__pydantic_complete__ for kind in made)
    sys.stderr.write("PROBE " + json.dumps([sorted(sys.modules), len(made), built, looks]) + "\\n")
atexit.register(told)
from dovetail.cli.main import main
sys.exit(main(["run", "--compat", sys.argv[1]]))
"""
SDK = """
from mcp.server.fastmcp import FastMCP
mcp = FastMCP("x")
@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b
mcp.run()
"""
LOW = """
import asyncio
import mcp.types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
server = Server("x")
@server.list_tools()
async def list_tools():
    return [types.Tool(name="add", inputSchema={"type": "object"})]
async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
asyncio.run(main())
"""
FASTMCP = """
from fastmcp import FastMCP
mcp = FastMCP("x")
@mcp.tool
def add(a: int, b: int) -> int:
    return a + b
mcp.run()
"""
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}) + "\n"
HEAVY = {
    "starlette",
    "anyio",
    "jsonschema",
    "httpx",
    "httpx2",
    "uvicorn",
    "granian",
    "cryptography",
    "libcst",
}
LATE = {
    "sampling",
    "elicitation",
    "opening",
    "notices",
    "wishes",
    "results",
    "resources",
    "envelopes",
    "tasks",
    "unions",
}
"""Parts of the types that no server needs before it is called."""


@pytest.mark.parametrize(
    ("program", "modules", "models", "validators"),
    [(SDK, 440, 4, 0), (LOW, 420, 19, 0), (FASTMCP, 516, 35, 1)],
    ids=["sdk", "lowlevel", "fastmcp"],
)  # fmt: skip
def test_a_server_loads_little_before_its_first_answer(
    program: str, modules: int, models: int, validators: int, tmp_path: Path
) -> None:
    file = tmp_path / "server.py"
    file.write_text(program)
    command = [sys.executable, "-c", PROBE, str(file)]
    done = subprocess.run(command, input=INITIALIZE, capture_output=True, text=True, timeout=120, check=False)
    assert '"serverInfo"' in done.stdout, done.stderr
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("PROBE ")]
    loaded, made, built, looks = json.loads(line.removeprefix("PROBE "))
    assert {name for name in loaded if name.partition(".")[0] in HEAVY} == set()
    assert {name for name in loaded if name.startswith("dovetail.compat.mcp.types.")} & {
        f"dovetail.compat.mcp.types.{part}" for part in LATE
    } == set()
    newer = (
        5 if sys.version_info >= (3, 12) else 0
    )  # modules of Python's own that its older releases do without
    assert len(loaded) <= modules + newer, len(loaded)
    assert made <= models, made
    assert built <= validators, built
    # What is imported stays, and to look for circles in it was a tenth of a start: it is done while Python begins only.
    assert len(looks) == 1
    assert looks[0] <= 5
