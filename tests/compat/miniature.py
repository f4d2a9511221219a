"""Call a migrated miniature, and read the recorded responses of the original."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
_SETTLED = re.compile(r"https://errors\.pydantic\.dev/[\d.]+/")


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
    """What a native server says to what the original was asked."""
    talk = Conversation(module.mcp, revision)
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
