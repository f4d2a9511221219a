"""Who takes part, how each one is started, and what it can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".peers"
SERVERS = ROOT / "bench" / "servers"
NODE = PEERS / "node" / "node_modules" / "node" / "bin" / "node"

LEGACY, MODERN = "2025-11-25", "2026-07-28"


class Peer(NamedTuple):
    """One server under test."""

    name: str
    title: str
    environment: str
    """The directory below ``.peers``; empty for our own environment."""
    file: str
    package: str
    asks: bool = True
    """Whether its tools can ask the client a question."""
    modern: bool = True


LIMIT = Peer("limit", "the limit (bare msgspec)", "", "limit.py", "msgspec")
DOVETAIL = Peer("dovetail", "Dovetail", "", "dovetail_server.py", "dovetail-mcp")
SDK = Peer("sdk", "official SDK", "sdk", "sdk_high.py", "mcp")
SDK_LOW = Peer("sdk-low", "official SDK, low level", "sdk", "sdk_low.py", "mcp")
FASTMCP = Peer("fastmcp", "FastMCP", "fastmcp", "fastmcp_server.py", "fastmcp")
MINIMCP = Peer("minimcp", "MiniMCP", "minimcp", "minimcp_server.py", "minimcp", asks=False, modern=False)
TYPESCRIPT = Peer(
    "typescript", "TypeScript SDK", "node", "typescript_server.mjs", "@modelcontextprotocol/server"
)
ALL = (LIMIT, DOVETAIL, SDK, SDK_LOW, FASTMCP, MINIMCP, TYPESCRIPT)
TCP = (LIMIT, DOVETAIL)
"""Who speaks lines over TCP: no other library does."""
BY_NAME = {peer.name: peer for peer in ALL}


def interpreter(environment: str) -> str:
    """The program that runs files of this environment."""
    if environment == "node":
        return str(NODE) if NODE.exists() else "node"
    return str(PEERS / environment / "bin" / "python") if environment else sys.executable


def installed(environment: str) -> bool:
    return not environment or (PEERS / environment / ".ready").exists()


def missing(environment: str) -> str:
    """What to say when it is not there."""
    return f".peers/{environment} is missing: run scripts/peers.sh {environment}"


def command(peer: Peer, *arguments: str) -> list[str]:
    return [interpreter(peer.environment), str(SERVERS / peer.file), *arguments]


def environ(**more: str) -> dict[str, str]:
    """The environment every child gets: ours without what changes how Python runs, and where the packages are."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "BENCH_"))}
    return {
        **kept,
        "BENCH_MODULES": str(PEERS / "node"),
        "FASTMCP_CHECK_FOR_UPDATES": "off",
        "FASTMCP_LOG_LEVEL": "ERROR",
        **more,
    }


@cache
def version(peer: Peer) -> str:
    """Return the version of the package in its environment."""
    if peer.environment == "node":
        manifest = PEERS / "node" / "node_modules" / peer.package / "package.json"
        return str(json.loads(manifest.read_text())["version"])
    code = f"from importlib.metadata import version; print(version({peer.package!r}))"
    done = subprocess.run([interpreter(peer.environment), "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or "?"
