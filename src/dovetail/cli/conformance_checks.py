"""Conformance in short: facts that the official suite looks at too, and that need no tool of the suite's own.

Each check asks a live server of one revision, over whichever transport; it returns what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..client import Client
from ..errors import DovetailError, ProtocolError
from ..wire.revisions import BY_NAME

UNKNOWN: Final = "dovetail-doctor/unknown"
_LISTS: Final = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}

Check = Callable[[Client], Awaitable[str | None]]


async def _unknown_method(client: Client) -> str | None:
    return _code(await _refused(client, UNKNOWN, {}), -32601, "an unknown method")


async def _unknown_tool(client: Client) -> str | None:
    if not client.server_capabilities.has("tools"):
        return None
    refused = await _refused(client, "tools/call", {"name": UNKNOWN, "arguments": {}})
    if isinstance(refused, ProtocolError):
        return _code(refused, -32602, "an unknown tool")
    failed = msgspec.to_builtins(refused).get("isError") is True
    return None if failed else "a call of an unknown tool succeeds"


async def _unknown_resource(client: Client) -> str | None:
    if not client.server_capabilities.has("resources"):
        return None
    wanted = -32602 if BY_NAME[client.revision or ""].modern else -32002
    return _code(
        await _refused(client, "resources/read", {"uri": "dovetail-doctor:unknown"}),
        wanted,
        "an unknown resource",
    )


async def _entries(client: Client) -> str | None:
    """Names that are no names, and schemas that are no objects."""
    for name, method in _LISTS.items():
        if client.server_capabilities.has(name):
            for entry in await _listed(client, name, method):
                if not entry.get("name"):
                    return f"an entry of {method} has no name"
                if name == "tools" and entry.get("inputSchema", {}).get("type") != "object":
                    return f"the input schema of {entry['name']} is no object"
    return None


async def _order(client: Client) -> str | None:
    """2026-07-28, Tools: servers should list them in the same order each time."""
    if not client.server_capabilities.has("tools"):
        return None
    first, second = [await _listed(client, "tools", "tools/list") for _ in range(2)]
    same = [one["name"] for one in first] == [one["name"] for one in second]
    return None if same else "tools/list has another order each time"


async def _caching(client: Client) -> str | None:
    """2026-07-28, Caching: lists say for how long, and for whom."""
    for name, method in _LISTS.items():
        if client.server_capabilities.has(name):
            found = msgspec.to_builtins(await client.request(method, {}))
            ttl = found.get("ttlMs")
            if not isinstance(ttl, int) or ttl < 0 or found.get("cacheScope") not in ("public", "private"):
                return f"{method} lacks ttlMs or cacheScope"
    return None


class Look(Struct, frozen=True):
    """One check; ``advice`` says what to do. What the specification only recommends is no ``must``."""

    check: Check
    advice: str
    modern: bool = False
    must: bool = True


CHECKS: Final = (
    Look(_unknown_method, "answer -32601: clients find out so what you can do"),
    Look(_unknown_tool, "answer -32602, or a result with isError"),
    Look(_unknown_resource, "answer -32002, since 2026-07-28 -32602, and no empty contents", must=False),
    Look(_entries, "give every entry a name, and every tool an input schema of type object"),
    Look(_order, "list tools in one order: clients and models keep what they have seen", modern=True, must=False),
    Look(_caching, "say ttlMs and cacheScope, be it 0 and private", modern=True),
)  # fmt: skip


async def judge(client: Client) -> tuple[int, list[tuple[Look, str]]]:
    """How many checks there were, and of those that failed what is wrong."""
    modern = BY_NAME[client.revision or ""].modern
    asked = [look for look in CHECKS if modern or not look.modern]
    wrong: list[tuple[Look, str]] = []
    for look in asked:
        try:
            problem = await look.check(client)
        except DovetailError as error:
            problem = error.message
        if problem is not None:
            wrong.append((look, problem))
    return len(asked), wrong


async def _refused(client: Client, method: str, params: dict[str, Any]) -> Any:
    """The error that a request ends with; its result where there is none."""
    try:
        return await client.request(method, params)
    except ProtocolError as error:
        return error


def _code(refused: Any, wanted: int, what: str) -> str | None:
    if not isinstance(refused, ProtocolError):
        return f"{what} is answered with a result"
    return None if refused.code == wanted else f"{what} gets {refused.code} in place of {wanted}"


async def _listed(client: Client, name: str, method: str) -> list[dict[str, Any]]:
    return msgspec.to_builtins(await client.request(method, {}))[name]
