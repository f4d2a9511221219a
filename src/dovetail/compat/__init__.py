"""Servers written for others: `fastmcp` and `mcp` are the module trees of FastMCP 2/3 and of SDK 1.x over our own.

``dovetail run --compat FILE`` serves such a file unmodified; whoever writes ``dovetail.compat.`` before their imports
needs no flag.
"""

from ..extras import missing

try:
    import pydantic as _pydantic
except ModuleNotFoundError:
    raise missing("pydantic", "running servers of others") from None

del _pydantic
