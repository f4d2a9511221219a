"""CPU per call of a server of FastMCP or the SDK: on its own, on Dovetail (`dovetail run`), and migrated.

    python -m bench.compat_cost [--calls 2000]

The three run one after the other, several times, as child processes over stdio; what counts is the processor time of
the child alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from dovetail import Client
from dovetail.cli.main import main as dovetail

from . import peers

PROGRAM = '''
from {module} import {name}

mcp = {name}("adder")


@mcp.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    mcp.run()
'''
ORIGINALS = {
    "mcp1": ("mcp.server.fastmcp", "FastMCP"),
    "mcp2": ("mcp.server", "MCPServer"),
    "fastmcp2": ("fastmcp", "FastMCP"),
    "fastmcp3": ("fastmcp", "FastMCP"),
    "fastmcp4": ("fastmcp", "FastMCP"),
}
ROUNDS = 3
TICK = 1_000_000 / os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Microseconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def child_of(command: list[str]) -> int:
    """The process of this command that we have started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid() and words == [os.fsencode(word) for word in command]:
            return int(folder.name)
    raise LookupError(command)


async def cost(command: list[str], calls: int, env: dict[str, str]) -> float:
    options = {"env": env, "validate": "off", "on_stderr": lambda data: None}
    async with Client(command, revision="2025-11-25", **options) as client:
        for number in range(100):
            assert (await client.call_tool("add", {"a": number, "b": 1})).data == number + 1
        pid = child_of(command)
        before = used(pid)
        for number in range(calls):
            await client.call_tool("add", {"a": number, "b": 1})
        return (used(pid) - before) / calls


async def measure(original: str, calls: int) -> dict[str, float]:
    module, name = ORIGINALS[original]
    python = peers.interpreter(f"compat-{original}")
    env = {**os.environ, "PYTHONPATH": str(peers.ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder, "theirs.py"), Path(folder, "ours.py")
        for path in (theirs, ours):
            path.write_text(PROGRAM.format(module=module, name=name))
        lines = {
            "on its own": [python, str(theirs)],
            "on Dovetail": [python, "-m", "dovetail.cli.main", "run", str(theirs), "--log-level", "warning"],
        }
        if original in ("mcp1", "fastmcp2", "fastmcp3"):  # what `dovetail migrate` knows
            dovetail(["migrate", str(ours), "--write"])
            lines["migrated"] = [
                python,
                "-m",
                "dovetail.cli.main",
                "run",
                str(ours),
                "--log-level",
                "warning",
            ]
        found: dict[str, list[float]] = {title: [] for title in lines}
        for _ in range(ROUNDS):
            for title, line in lines.items():
                found[title].append(await cost(line, calls, env))
        return {title: statistics.median(values) for title, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("originals", nargs="*", default=list(ORIGINALS))
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    for original in options.originals:
        found = asyncio.run(measure(original, options.calls))
        print(
            original,
            {title: round(value) for title, value in found.items()},
            "microseconds a call",
            flush=True,
        )


if __name__ == "__main__":
    main()
