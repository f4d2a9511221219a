"""How long real servers take from their start to their first answer over stdio, on their original library and on ours.

    python scripts/compat_start.py [NAME …] [--home FOLDER] [--starts N] [--write FILE]

The servers are those of `compat_proof`, installed as there. Original and ours are started in turn, so that both meet
the same machine; a figure is the median of N starts. The promise: ours take at most half of the original's time. Beside
them stands what both pay: Python itself, and the import of all modules that are loaded on both sides.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compat_proof import ROOT, SERVERS, filled, installed, original, ours

PROMISE = 0.5
NAMES = (
    "mcp-server-time", "mcp-server-git", "mcp-server-sqlite", "mcp-server-calculator", "mcp-sequential-thinking",
    "mcp-nixos", "wikipedia-mcp",
)  # fmt: skip
"""Low-level servers, those of SDK 1's FastMCP, those of FastMCP: what is measured when nothing is named."""
CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "start", "version": "1"},
}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}).encode()


BOTH = """
import gc, importlib, sys
gc.disable()  # the least that it can cost
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
print("serverInfo", flush=True)
"""
FAMILIES = ("mcp", "fastmcp", "dovetail")


def imported(line: list[str], environment: dict[str, str]) -> list[str]:
    """The modules that a server imports until it has answered ``initialize``, each after those that it needs."""
    shown = {**environment, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(
        line, input=INITIALIZE + b"\n", capture_output=True, env=shown, timeout=120, check=False
    )
    told = [
        one.rpartition("|")[2].strip() for one in done.stderr.decode().splitlines() if "import time:" in one
    ]
    return [name for name in told if name.partition(".")[0] not in FAMILIES and name != "imported package"]


def paid_by_both(
    lines: dict[str, list[str]], entry: dict[str, Any], environment: dict[str, str]
) -> list[str]:
    """A command that loads what is loaded on both sides, but for the server's own modules, which need a library."""
    one, other = (imported(line, environment) for line in lines.values())
    own = str(entry.get("module") or entry.get("script", "")).replace("-", "_").partition(".")[0]
    names = [name for name in other if name in set(one) and name.partition(".")[0] != own]
    return [lines["ours"][0], "-c", BOTH, *names]


def started(line: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds from the start of a server to its answer to ``initialize``, and those of processor time."""
    begun = time.perf_counter()
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(INITIALIZE + b"\n")
            child.stdin.flush()
        answer = child.stdout.readline()
        took = time.perf_counter() - begun
        child.kill()
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0  # it was waited for here, to know what it used
    if b"serverInfo" not in answer:
        raise SystemExit(f"{' '.join(line)} answered {answer[:200]!r}")
    return took * 1000, (used.ru_utime + used.ru_stime) * 1000


def compared(name: str, entry: dict[str, Any], home: Path, starts: int) -> dict[str, float]:
    """The medians for one server, the least processor time, and what is left of the original's."""
    python = installed(home, name, entry)
    with tempfile.TemporaryDirectory() as folder:
        entry = filled(entry, folder=folder)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environment = {**kept, **entry.get("environment", {}), "PYTHONPATH": str(ROOT / "src")}
        lines = {"original": original(python, entry), "ours": ours(python, entry)}
        for line in lines.values():
            started(line, environment)  # whatever is compiled or read for the first time
        lines["both"] = paid_by_both(lines, entry, environment)
        took: dict[str, list[tuple[float, float]]] = {who: [] for who in lines}
        for _ in range(starts):
            for who, line in lines.items():
                took[who].append(started(line, environment))
    found = {who: statistics.median(wall for wall, _ in times) for who, times in took.items()}
    used = {f"{who}_cpu": min(cpu for _, cpu in times) for who, times in took.items()}
    ratio, cpu = found["ours"] / found["original"], used["ours_cpu"] / used["original_cpu"]
    return {**found, **used, "ratio": ratio, "ratio_cpu": cpu}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"only these servers (default: {', '.join(NAMES)})")
    parser.add_argument("--home", type=Path, default=ROOT / ".peers" / "compat")
    parser.add_argument("--starts", type=int, default=7, help="how often each is started")
    parser.add_argument("--write", type=Path, help="where the figures are written")
    options = parser.parse_args()
    # What is installed comes compiled; a checkout may be told to keep no bytecode, and would compile at each start.
    compileall.compile_dir(ROOT / "src", quiet=1)
    servers: dict[str, Any] = json.loads(SERVERS.read_text())
    found: dict[str, dict[str, float]] = {}
    for name in options.names or NAMES:
        one = found[name] = compared(name, servers[name], options.home, options.starts)
        kept = "kept" if one["ratio"] <= PROMISE else "NOT KEPT"
        figures = "".join(f"{one[who]:7.0f} ms" for who in ("original", "ours", "both"))
        used = "".join(f"{one[who]:7.0f} ms" for who in ("original_cpu", "ours_cpu", "both_cpu"))
        print(
            f"{name:28}{figures}{one['ratio']:6.2f}  {kept:8}  cpu{used}{one['ratio_cpu']:6.2f}", flush=True
        )
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if all(one["ratio"] <= PROMISE for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
