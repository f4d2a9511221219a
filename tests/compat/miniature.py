"""Run a miniature on ours, and compare its answers with what was recorded from the original."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
_IMPORT = re.compile(r"^(\s*)(from|import) (fastmcp|mcp)\b", re.MULTILINE)
_SETTLED = re.compile(r"https://errors\.pydantic\.dev/[\d.]+/")


def load(path: Path, name: str | None = None) -> ModuleType:
    """The module in ``path``, with our prefix before its imports."""
    source = _IMPORT.sub(r"\1\2 dovetail.compat.\3", path.read_text())
    module = ModuleType(name or f"miniature_{path.parent.name}_{path.stem}")
    sys.modules[module.__name__] = module
    exec(compile(source, str(path), "exec"), vars(module))
    return module


class Conversation:
    """Messages to a server without a transport, on one revision."""

    def __init__(self, native: Any, revision: str) -> None:
        self._native, self._revision, self._count = native, revision, 0

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self._count += 1
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": self._count,
            "method": method,
            "params": params or {},
        }
        scope = {"revision": self._revision}
        if self._revision >= "2026":
            message["params"]["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": self._revision,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            scope = {}
        reply = json.loads(await self._native.handle(json.dumps(message), scope))
        return reply["result"] if "result" in reply else {"error": reply["error"]}


async def answers(module: ModuleType, revision: str = "2025-11-25") -> dict[str, Any]:
    """What was recorded, as ours say it."""
    talk = Conversation(module.mcp.native, revision)
    out: dict[str, Any] = {
        "tools": await talk.ask("tools/list"),
        "resources": await talk.ask("resources/list"),
        "templates": await talk.ask("resources/templates/list"),
        "prompts": await talk.ask("prompts/list"),
    }
    out["calls"] = [
        [name, given, await talk.ask("tools/call", {"name": name, "arguments": given})]
        for name, given in module.CALLS
    ]
    out["reads"] = [
        [uri, await talk.ask("resources/read", {"uri": uri})] for uri in vars(module).get("READS", ())
    ]
    out["gets"] = [
        [
            name,
            given,
            await talk.ask("prompts/get", {"name": name, **({} if given is None else {"arguments": given})}),
        ]
        for name, given in vars(module).get("PROMPTS", ())
    ]
    return out


def recorded(family: str, name: str) -> dict[str, Any]:
    text = (HERE / "recorded" / family / f"{name}.json").read_text()
    return json.loads(_SETTLED.sub("https://errors.pydantic.dev/", text), object_hook=_as_compiled)


def _as_compiled(entry: dict[str, Any]) -> dict[str, Any]:
    """The recordings were made on Python 3.11; since 3.13 its compiler takes the indentation out of docstrings."""
    said = entry.get("description")
    if sys.version_info < (3, 13) or not isinstance(said, str):
        return entry
    first, *rest = said.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return {**entry, "description": "\n".join([first.lstrip(), *(line[margin:] for line in rest)])}


def settled(value: Any) -> Any:
    """``value`` without what is of no account: the version in the addresses of pydantic's errors, error data."""
    if isinstance(value, str):
        return _SETTLED.sub("https://errors.pydantic.dev/", value)
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, dict):
        return {
            name: settled(item) for name, item in value.items() if not (name == "data" and "code" in value)
        }
    return value


def check(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Both say the same, entry by entry."""
    problems: list[str] = []
    for kind, expected in wanted.items():
        given = settled(found[kind])
        whole = isinstance(expected, dict)
        pairs = (_entries(expected), _entries(given)) if whole else (expected, given)
        for one, other in zip(*pairs, strict=False):
            if one != other:
                problems.append(f"{kind}\n  wanted {json.dumps(one)}\n  found  {json.dumps(other)}")
        if len(pairs[0]) != len(pairs[1]):
            problems.append(f"{kind}: {len(pairs[0])} wanted, {len(pairs[1])} found")
    if problems:
        pytest.fail("\n".join(problems))


def _entries(result: dict[str, Any]) -> list[Any]:
    lists = [value for value in result.values() if isinstance(value, list)]
    return lists[0] if lists else [result]
