"""The four profiles: official, and three systems whose documents we follow to the letter when asked."""

from .base import VENDOR, Alias, Dialect, error_from_wire, rewrite, status_of, strictly, wire_error
from .erlmcp import ERLMCP
from .profiles import MCP_CLIENT, MINIMCP, OFFICIAL

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (OFFICIAL, ERLMCP, MINIMCP, MCP_CLIENT)}


def dialect_of(given: str | Dialect) -> Dialect:
    """The dialect itself, or the one of that name.

    Raises:
        ValueError: there is none.
    """
    if isinstance(given, Dialect):
        return given
    if given not in DIALECTS:
        raise ValueError(f"there is no dialect {given!r}: use one of {', '.join(DIALECTS)}")
    return DIALECTS[given]


__all__ = [
    "DIALECTS", "ERLMCP", "MCP_CLIENT", "MINIMCP", "OFFICIAL", "VENDOR", "Alias", "Dialect", "dialect_of",
    "error_from_wire", "rewrite", "status_of", "strictly", "wire_error",
]  # fmt: skip
