"""Names that public servers use, with how many repositories use each: those of two or more are there."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from typing import Any

import pytest

from .miniature import HERE

NAMES: dict[str, dict[str, int]] = json.loads((HERE / "names.json").read_text())
MISSING = frozenset(
    {
        "fastmcp.server.auth.auth.OAuthProvider",  # an authorization server of its own
    }
)
"""What at least two repositories use and we do not have. Keep it short."""


def find(name: str) -> Any:
    """What ``from module import name`` gives, below our prefix."""
    module, _, attribute = f"dovetail.compat.{name}".rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return importlib.import_module(f"{module}.{attribute}")


@pytest.mark.parametrize("name", [name for name, count in NAMES["imports"].items() if count > 1])
def test_a_name_that_two_repositories_import_is_there(name: str) -> None:
    if name in MISSING:
        with pytest.raises(ImportError):
            find(name)
    else:
        assert find(name) is not None


def members(owner: str) -> set[str]:
    found = find(owner)
    return set(dir(found)) | set(inspect.signature(found).parameters) | set(vars(made(owner)))


def made(owner: str) -> Any:
    kind = find(owner)
    if owner.endswith("MiddlewareContext"):
        return kind(message=None)
    if owner == "fastmcp.Context":
        return kind(find("fastmcp.FastMCP")("x"))
    return (
        kind("http://127.0.0.1/mcp")
        if owner.endswith("Client")
        else kind()
        if owner.endswith("Context")
        else kind("x")
    )


@pytest.mark.parametrize("owner", [owner for owner in NAMES if owner != "imports"])
def test_members_that_servers_use_are_there(owner: str) -> None:
    async def look() -> set[str]:
        return members(owner)

    used = {name for name, count in NAMES[owner].items() if count > 1}
    assert used - asyncio.run(look()) == set()
