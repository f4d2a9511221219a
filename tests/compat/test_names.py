"""Names that public servers use, with how many repositories use each: those of two or more are there."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import re
from types import ModuleType
from typing import Any

import pytest

from .miniature import HERE

NAMES: dict[str, dict[str, int]] = json.loads((HERE / "names.json").read_text())
TABLES = ("imports", "reached", "keywords")
MISSING = frozenset(
    {
        # SDK 2, which one repository of ninety uses: other names for another way of writing servers
        "mcp.Client", "mcp.server.ServerRequestContext", "mcp.server._streamable_http_modern.handle_modern_request",
        "mcp.server.caching.CacheHint", "mcp.server.context.CallNext", "mcp.server.context.HandlerResult",
        "mcp.shared.exceptions.MCPError", "mcp.shared.inbound.MCP_PROTOCOL_VERSION_HEADER",
        "mcp.types.MISSING_REQUIRED_CLIENT_CAPABILITY", "mcp.types.MissingRequiredClientCapabilityErrorData",
        "mcp.types.RequestParamsMeta",
        # what ours does itself: it bounds bodies, and describes what it makes of an HTTP API
        "mcp.server.streamable_http_manager.RequestBodyLimitMiddleware",
        "fastmcp.utilities.openapi.format_description_with_responses",
        # private parts, and the original's own command line
        "mcp.cli.cli.dev", "mcp.shared.session.BaseSession._handle_notification",
        "mcp.shared.session.BaseSession._receive_loop", "fastmcp.server.low_level.MiddlewareServerSession.__aenter__",
    }
)  # fmt: skip
"""What one repository uses and we do not have, each for a reason. Of two or more there is nothing. Keep it short."""


def find(name: str) -> Any:
    """What ``from module import name`` gives, below our prefix; also a member of what a module has.

    Raises:
        ImportError, AttributeError: it is not there.
    """
    parts = f"dovetail.compat.{name}".split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        break
    else:
        raise ImportError(name)
    if isinstance(found, ModuleType) and "." in name:
        return getattr(importlib.import_module(".".join(parts[:-1])), parts[-1])
    return found


def is_there(name: str) -> bool:
    try:
        return find(name) is not None
    except (ImportError, AttributeError):
        return False


@pytest.mark.parametrize("table", ["imports", "reached"])
def test_names_that_servers_import_are_there(table: str) -> None:
    absent = {name: count for name, count in NAMES[table].items() if not is_there(name)}
    assert [name for name, count in absent.items() if count > 1] == []
    assert absent.keys() - MISSING == set()


def test_nothing_is_called_missing_that_is_there() -> None:
    assert [name for name in MISSING if is_there(name)] == []
    assert NAMES["imports"].keys() | NAMES["reached"].keys() >= MISSING


NEWER = re.compile(
    r"mcp\.server\.Server\((on_\w+|cache_hints|description)=\)|.*\((protocol_version|transport_security)=\)"
)
"""Keywords of SDK 2, which the same one repository uses."""


def test_keywords_that_servers_give_are_taken() -> None:
    asked = [name for name in NAMES["keywords"] if not NEWER.fullmatch(name) and _owner(name) not in MISSING]
    assert [name for name in asked if not _takes(name)] == []


def _owner(name: str) -> str:
    return name.partition("(")[0]


def _takes(name: str) -> bool:
    match = re.fullmatch(r"([\w.]+)\(([\w*]+)=\)", name)
    assert match is not None, name
    if not match[1].startswith(("fastmcp.", "mcp.")):
        return True  # keywords of a program's own subclass
    parameters = inspect.signature(find(match[1])).parameters.values()
    return match[2] == "**" or any(one.name == match[2] or one.kind is one.VAR_KEYWORD for one in parameters)


def made(owner: str) -> Any:
    kind = find(owner)
    match owner.rpartition(".")[2]:
        case "MiddlewareContext":
            return kind(message=None)
        case "Context" if owner == "fastmcp.Context":
            return kind(find("fastmcp.FastMCP")("x"))
        case "Context":
            return kind()
        case "Client":
            return kind("http://127.0.0.1/mcp")
        case "ClientSession":
            return kind(None, None)
        case _:
            return kind("x")


@pytest.mark.parametrize("owner", [owner for owner in NAMES if owner not in TABLES])
def test_members_that_servers_use_are_there(owner: str) -> None:
    async def look() -> set[str]:
        found = made(owner)
        return set(dir(found)) | set(vars(found)) | set(inspect.signature(type(found)).parameters)

    assert set(NAMES[owner]) - asyncio.run(look()) == set()
