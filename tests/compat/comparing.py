"""What a server lists and answers, so that an original on its own and on Dovetail can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dovetail import Client, ProtocolError
from tests.support.waiting import HANG

Recording = dict[str, Any]
Calls = list[tuple[str, dict[str, Any]]]
UNKNOWN = "no_such_tool_anywhere"
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
"""Where an object lies in memory, in a text of a server."""


async def recorded(
    client: Client, calls: Calls, reads: list[str], prompts: list[tuple[str, Any]]
) -> Recording:
    """Lists, and the answer to every call, read and prompt."""
    told = client.server_capabilities
    found: Recording = {"name": client.server_info and client.server_info.name, "text": client.instructions}
    for kind, method in (
        ("tools", client.list_tools),
        ("resources", client.list_resources),
        ("resources", client.list_resource_templates),
        ("prompts", client.list_prompts),
    ):
        found[method.__name__] = await _outcome(_listed(method)) if told.has(kind) else []
    for name, arguments in calls:
        found[f"call {name} {json.dumps(arguments)}"] = await _outcome(_call(client, name, arguments))
    for uri in reads:
        found[f"read {uri}"] = await _outcome(_members(client.read_resource, uri))
    for name, arguments in prompts:
        found[f"prompt {name} {json.dumps(arguments)}"] = await _outcome(
            _members(client.get_prompt, name, arguments)
        )
    return found


async def _listed(method: Callable[[], Awaitable[Any]]) -> list[Any]:
    try:
        return [_shown(item) for item in await method()]
    except ProtocolError as error:
        if error.kind != "method_not_found":
            raise
        return []  # a server without this list; a proxy says so with an empty one


def _shown(item: Any) -> dict[str, Any]:
    """A definition without what is new in a revision."""
    wire = msgspec.to_builtins(item)
    for name in ("_meta", "execution", "icons"):
        wire.pop(name, None)
    return wire


async def _outcome(work: Awaitable[Any]) -> Any:
    try:
        return _plain(await work)
    except ProtocolError as error:
        # The number of an unknown resource and the like is the revision's, the text is the server's.
        return {"error": error.message}


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(name, arguments, check=False, timeout=HANG)
    return {"isError": result.is_error, "content": msgspec.to_builtins(result.content), "data": result.data}


async def _members(method: Callable[..., Awaitable[Any]], *given: Any) -> Any:
    wire = msgspec.to_builtins(await method(*given))
    newer = ("_meta", "resultType", "ttlMs", "cacheScope")
    return {name: value for name, value in wire.items() if name not in newer}


def _plain(value: Any) -> Any:
    return json.loads(_ADDRESS.sub("0x", json.dumps(value, default=str)))


def differences(theirs: Recording, ours: Recording) -> list[str]:
    """Where two recordings differ, in words."""
    return [
        f"{key}: {_first(value, ours.get(key))}" for key, value in theirs.items() if value != ours.get(key)
    ]


def _first(theirs: Any, ours: Any, path: str = "") -> str:
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = [
            (f"{path}[{place}]", one, other)
            for place, (one, other) in enumerate(zip(theirs, ours, strict=True))
        ]
    elif isinstance(theirs, dict) and isinstance(ours, dict):
        names = sorted({*theirs, *ours})
        pairs = [(f"{path}.{name}", theirs.get(name), ours.get(name)) for name in names]
    else:
        return f"{path}: {str(theirs)[:300]!r}, on Dovetail {str(ours)[:300]!r}"
    return next((_first(one, other, where) for where, one, other in pairs if one != other), path)
