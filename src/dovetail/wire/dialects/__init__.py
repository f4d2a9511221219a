"""Dialects: the official format, and three other MCP implementations, followed exactly as documented.

`DIALECTS` and `ERLMCP` are created on first use: the tables of erlmcp are large, and few servers need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .dialect import VENDOR, Alias, Dialect, error_from_wire, rewrite, status_of, wire_error, without_aliases
from .dialect_profiles import MCP_CLIENT, MINIMCP, OFFICIAL

if TYPE_CHECKING:
    from .erlmcp import ERLMCP

    DIALECTS: dict[str, Dialect]

NAMES: Final = ("official", "erlmcp", "minimcp", "mcp_client")


def __getattr__(name: str) -> Any:
    if name not in ("DIALECTS", "ERLMCP"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .erlmcp import ERLMCP

    dialects = {dialect.name: dialect for dialect in (OFFICIAL, ERLMCP, MINIMCP, MCP_CLIENT)}
    globals().update(ERLMCP=ERLMCP, DIALECTS=dialects)
    return globals()[name]


def dialect_of(given: str | Dialect) -> Dialect:
    """Return the given dialect, or the dialect with the given name.

    Raises:
        ValueError: no dialect has that name.
    """
    if isinstance(given, Dialect):
        return given
    if given not in NAMES:
        raise ValueError(f"unknown dialect {given!r}; known dialects: {', '.join(NAMES)}")
    return OFFICIAL if given == OFFICIAL.name else __getattr__("DIALECTS")[given]


__all__ = [
    "DIALECTS",
    "ERLMCP",
    "MCP_CLIENT",
    "MINIMCP",
    "NAMES",
    "OFFICIAL",
    "VENDOR",
    "Alias",
    "Dialect",
    "dialect_of",
    "error_from_wire",
    "rewrite",
    "status_of",
    "wire_error",
    "without_aliases",
]  # fmt: skip
