"""The Elixir client, as its protocol document describes it: 2024-11-05 and nothing else.

Its seven codes get their meaning only here; on every other profile -32001 … -32007 say nothing by themselves.
"""

from ...settings import Timeouts
from .aliases import METHODS, PARAMS, RESULTS
from .base import Dialect, column

MCP_CLIENT = Dialect(
    name="mcp_client",
    inbound_methods=METHODS,
    field_in=PARAMS,
    result_in=RESULTS,
    errors=column(lambda row: row.elixir),
    messages={
        "parse_error": "Parse error",
        "invalid_request": "Invalid request",
        "method_not_found": "Method not found",
        "invalid_params": "Invalid params",
        "internal_error": "Internal error",
    },
    timeouts=Timeouts(connect=10.0, idle=30.0, total=30.0),
    versions=("2024-11-05",),
    client_capabilities={"roots": {"listChanged": True}},
    client_may_sample=True,
)
