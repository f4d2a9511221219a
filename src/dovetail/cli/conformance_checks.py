"""Conformance checks of ``dovetail doctor``: the checks of the official suite that work with any server.

Each check sends requests to a live server on one revision and returns what is wrong, or None.
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
    """Find entries without a name and schemas that are not objects."""
    for name, method in _LISTS.items():
        if client.server_capabilities.has(name):
            for entry in await _listed(client, name, method):
                if not entry.get("name"):
                    return f"an entry of {method} has no name"
                if name == "tools" and entry.get("inputSchema", {}).get("type") != "object":
                    return f"the input schema of {entry['name']} is not an object"
    return None


async def _order(client: Client) -> str | None:
    """2026-07-28, Tools: servers should list them in the same order each time."""
    if not client.server_capabilities.has("tools"):
        return None
    first, second = [await _listed(client, "tools", "tools/list") for _ in range(2)]
    same = [one["name"] for one in first] == [one["name"] for one in second]
    return None if same else "tools/list changes its order between requests"


async def _caching(client: Client) -> str | None:
    """2026-07-28, Caching: lists have ttlMs and cacheScope."""
    for name, method in _LISTS.items():
        if client.server_capabilities.has(name):
            found = msgspec.to_builtins(await client.request(method, {}))
            ttl = found.get("ttlMs")
            if not isinstance(ttl, int) or ttl < 0 or found.get("cacheScope") not in ("public", "private"):
                return f"{method} lacks ttlMs or cacheScope"
    return None


class ConformanceCheck(Struct, frozen=True):
    """One check, and its ``advice`` for a failure. ``must`` is False for recommendations of the specification."""

    check: Check
    advice: str
    modern: bool = False
    must: bool = True


CHECKS: Final = (
    ConformanceCheck(_unknown_method, "return error -32601: clients use it to detect features"),
    ConformanceCheck(_unknown_tool, "return error -32602, or a result with isError"),
    ConformanceCheck(
        _unknown_resource, "return error -32002 (-32602 on 2026-07-28) instead of empty contents", must=False
    ),
    ConformanceCheck(_entries, "give every entry a name, and every tool an input schema of type object"),
    ConformanceCheck(
        _order, "always list tools in the same order: clients and models cache the list", modern=True, must=False
    ),
    ConformanceCheck(_caching, "send ttlMs and cacheScope, such as 0 and private", modern=True),
)  # fmt: skip


async def judge(client: Client) -> tuple[int, list[tuple[ConformanceCheck, str]]]:
    """Return the number of checks, and what is wrong for each failed one."""
    modern = BY_NAME[client.revision or ""].modern
    wanted = [one for one in CHECKS if modern or not one.modern]
    wrong: list[tuple[ConformanceCheck, str]] = []
    for one in wanted:
        try:
            problem = await one.check(client)
        except DovetailError as error:
            problem = error.message
        if problem is not None:
            wrong.append((one, problem))
    return len(wanted), wrong


async def _refused(client: Client, method: str, params: dict[str, Any]) -> Any:
    """Return the error of a request, or its result."""
    try:
        return await client.request(method, params)
    except ProtocolError as error:
        return error


def _code(refused: Any, wanted: int, what: str) -> str | None:
    if not isinstance(refused, ProtocolError):
        return f"{what} returns a result instead of an error"
    return None if refused.code == wanted else f"{what} returns error {refused.code} instead of {wanted}"


async def _listed(client: Client, name: str, method: str) -> list[dict[str, Any]]:
    return msgspec.to_builtins(await client.request(method, {}))[name]
