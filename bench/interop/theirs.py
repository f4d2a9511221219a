"""Other people's clients against our server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import peers
from .features import OK
from .hosts import HERE, environ

LIMIT = 120.0


class Guest(NamedTuple):
    """A client of another implementation."""

    name: str
    environment: str
    file: Path
    package: str
    absent: Mapping[str, str] = {}
    eras: tuple[str, ...] = ("legacy", "modern")
    names_revision: bool = True
    """Whether it says which revision it speaks."""


INSPECTOR = peers.PEERS / "node" / "node_modules" / "@modelcontextprotocol" / "inspector"
GUESTS = (
    Guest(
        "TypeScript SDK", "node", HERE / "clients" / "typescript_client.mjs", "@modelcontextprotocol/client"
    ),
    Guest("official SDK", "sdk", HERE / "clients" / "sdk_client.py", "mcp"),
    Guest("FastMCP", "fastmcp", HERE / "clients" / "fastmcp_client.py", "fastmcp"),
)
CLIENTS = HERE / "clients"
NOT_TRIED = dict.fromkeys(
    ("complete", "subscribe", "sample", "elicit"),
    "agents use tools, resources and prompts; the rest is not tried",
)
FRAMEWORKS = (
    Guest(
        "TypeScript SDK 1.x",
        "node",
        CLIENTS / "typescript1_client.mjs",
        "@modelcontextprotocol/sdk",
        eras=("legacy",),
    ),
    Guest(
        "Vercel AI SDK",
        "node",
        CLIENTS / "vercel_client.mjs",
        "@ai-sdk/mcp",
        NOT_TRIED,
        eras=("modern",),
        names_revision=False,
    ),
    Guest(
        "Mastra",
        "node",
        CLIENTS / "mastra_client.mjs",
        "@mastra/mcp",
        NOT_TRIED,
        eras=("modern",),
        names_revision=False,
    ),
    Guest(
        "LangChain.js",
        "node",
        CLIENTS / "langchain_client.mjs",
        "@langchain/mcp-adapters",
        {**NOT_TRIED, "prompt": "it has no prompts"},
        eras=("legacy",),
        names_revision=False,
    ),
)
"""Clients that choose the era themselves."""
INSPECTING = Guest(
    "Inspector",
    "node",
    INSPECTOR,
    "@modelcontextprotocol/inspector",
    {
        "complete": "its command line has no such request",
        "subscribe": "its command line makes one request per run",
        "sample": "its command line answers no questions",
        "elicit": "its command line answers no questions",
    },
)


def visit(guest: Guest, transport: str, era: str, target: list[str]) -> tuple[str, dict[str, str]]:
    """Run the client: the revision it spoke, and what came of each feature."""
    command = [peers.interpreter(guest.environment), str(guest.file), transport, era, *target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environ())
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            outcome: dict[str, str] = json.loads(line)
            return outcome.pop("revision"), outcome
    raise RuntimeError(f"{guest.name}: {(done.stderr or done.stdout)[-600:]}")


# --- the Inspector's command line: one process per request ------------------------------------------------------


def inspect(transport: str, era: str, target: list[str]) -> tuple[str, dict[str, str]]:
    """The same through the Inspector's command line."""
    outcome: dict[str, str] = {}
    for feature, (arguments, right) in INSPECTIONS.items():
        try:
            found = _inspected(target, era, arguments)
            outcome[feature] = OK if right(found) else f"unexpected: {found}"[:300]
        except Exception as error:
            outcome[feature] = f"{type(error).__name__}: {error}"[:300]
    return "", outcome


def _text(found: Any) -> str:
    return str(found["content"][0]["text"])


INSPECTIONS: dict[str, tuple[list[str], Any]] = {
    "list": (["--method", "tools/list", "--strict"], lambda found: len(found["tools"]) == 4),
    "call": (
        ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3"],
        lambda found: _text(found) == "5",
    ),
    "read": (
        ["--method", "resources/read", "--uri", "interop://note"],
        lambda found: found["contents"][0]["text"] == "a note",
    ),
    "prompt": (
        ["--method", "prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Ada"],
        lambda found: found["messages"][0]["content"]["text"] == "Say hello to Ada.",
    ),
}


def _inspected(target: list[str], era: str, arguments: list[str]) -> Any:
    manifest = json.loads((INSPECTOR / "package.json").read_text())
    program = INSPECTOR / manifest["bin"]["mcp-inspector"]
    command = [peers.interpreter("node"), str(program), "--cli", *target, "--protocol-era", era, *arguments]
    done = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, timeout=LIMIT, env=environ()
    )
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
    found = json.loads(done.stdout)
    return found.get("result", found)
