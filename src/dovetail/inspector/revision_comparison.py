"""Make the same call with every revision, each over a separate connection."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from ..client import Client
from ..errors import DovetailError
from ..wire.revisions import REVISIONS
from .call_history import perform
from .inspected_server import InspectedServer, problem_of
from .truncation import truncated


async def compare(connection: InspectedServer, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the result for each revision, the oldest first."""
    names = [revision.name for revision in REVISIONS]
    return list(await asyncio.gather(*(_one(connection, name, method, params) for name in names)))


async def _one(
    connection: InspectedServer, revision: str, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    client = Client(connection.request.target, **{**connection.options(revision), "reconnect": False})
    begun = time.perf_counter()
    found: dict[str, Any] = {"revision": revision}
    try:
        async with client:
            opened = time.perf_counter()
            found["connect"] = (opened - begun) * 1000
            found["capabilities"] = msgspec.to_builtins(client.server_capabilities)
            result = await perform(client, method, params)
            short = truncated(msgspec.to_builtins(result))
            found |= {"result": short.value, "cut": short.cut, "ms": (time.perf_counter() - opened) * 1000}
    except (DovetailError, ValueError, TypeError, msgspec.MsgspecError) as error:
        found["error"] = problem_of(error)
    return found
