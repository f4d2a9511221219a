"""The official dialect, and two dialects with few differences: MiniMCP and the Elixir client."""

from __future__ import annotations

from typing import Any

from ...errors import INTERNAL_ERROR
from ...settings import Timeouts
from ...shapes import is_object
from .aliases import METHODS, PARAMS, RESULTS
from .dialect import Dialect, column

OFFICIAL = Dialect(name="official", inbound_methods=METHODS, field_in=PARAMS, result_in=RESULTS)
"""The specification. Accepts all aliases, unless removed by `without_aliases`."""

_ELIXIR = column(lambda row: row.elixir)
_UNREADABLE = ("resource_access_denied", "resource_locked")
"""Its document: "-32002, Resource not readable: Permission denied or I/O error"."""

MCP_CLIENT = Dialect(
    name="mcp_client",
    inbound_methods=METHODS,
    field_in=PARAMS,
    result_in=RESULTS,
    errors={
        **_ELIXIR,
        **dict.fromkeys(_UNREADABLE, _ELIXIR["resource_not_readable"]),
        "resource_template_not_found": _ELIXIR["resource_not_found"],
    },
    messages={
        "parse_error": "Parse error",
        "invalid_encoding": "Parse error",
        "invalid_request": "Invalid request",
        "method_not_found": "Method not found",
        "invalid_params": "Invalid params",
        "internal_error": "Internal error",
    },
    timeouts=Timeouts(connect=10.0, idle=None, total=30.0),
    versions=("2024-11-05",),
    client_capabilities={"roots": {"listChanged": True}},
    client_may_sample=True,
    drop_malformed_answers=True,
)
"""The Elixir client, as its protocol document describes it: 2024-11-05 only.

Its seven error codes are defined here only; in other dialects -32001 … -32007 have no fixed meaning.
"""


def missing_arguments(message: str, data: Any) -> Any:
    """Return the bare list of names."""
    return data.get("missing", data) if is_object(data) else data


MINIMCP = Dialect(
    name="minimcp",
    inbound_methods=METHODS,
    field_in=PARAMS,
    result_in=RESULTS,
    errors={"resource_access_denied": INTERNAL_ERROR},
    messages={
        "parse_error": "Parse error",
        "invalid_encoding": "Parse error",
        "invalid_request": "Invalid Request",
        "method_not_found": "Method not found",
        # … "when there are no handlers registered"; shows nothing of the method, but has to have one.
        "capability_not_supported": "Method not found{method!s:.0}",
        "tool_not_found": "Unknown tool: {tool}",
        "invalid_tool_arguments": "Invalid arguments",
        "prompt_not_found": "Invalid prompt name: {prompt}",
        "prompt_argument_missing": "Missing required arguments",
        "invalid_prompt_arguments": "Invalid arguments",
        "resource_not_found": "Resource not found: {uri}",
        "resource_template_not_found": "Resource not found: {uri}",
        "internal_error": "Internal error",
        # MiniMCP does not distinguish handler failures.
        "prompt_render_failed": "Internal error",
        "template_render_failed": "Internal error",
        "resource_not_readable": "Internal error",
        "resource_access_denied": "Internal error",
        "resource_locked": "Internal error",
    },
    error_data={"prompt_argument_missing": missing_arguments},
    http_status={-32000: 499, -32002: 404, -32600: 400, -32601: 404, -32602: 422, -32603: 500, -32700: 400},
    server_capabilities={
        "prompts": {"listChanged": False},
        "resources": {"subscribe": False, "listChanged": False},
        "tools": {"listChanged": True},
    },
    null_error_id=True,
    anonymous_encoding_errors=True,
    argument_errors="error",
    refuse_responses=True,
    json_as_plain_text=True,
)
"""MiniMCP, as its compliance document describes it (2025-06-18).

It is official except for the HTTP statuses, ``"id": null``, the messages of a few errors, and invalid tool
arguments, which are a JSON-RPC error even on 2025-11-25.
"""
