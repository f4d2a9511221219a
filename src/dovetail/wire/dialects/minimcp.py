"""MiniMCP, as its compliance document describes it (2025-06-18).

The wire is official but for the HTTP statuses, ``"id": null``, the texts of a few errors, and bad tool
arguments, which stay an error on 2025-11-25.
"""

from __future__ import annotations

from typing import Any, cast

from .aliases import METHODS, PARAMS, RESULTS
from .base import Dialect, Object

MESSAGES = {
    "parse_error": "Parse error",
    "invalid_request": "Invalid Request",
    "method_not_found": "Method not found",
    "tool_not_found": "Unknown tool: {tool}",
    "invalid_tool_arguments": "Invalid arguments",
    "prompt_not_found": "Invalid prompt name: {prompt}",
    "prompt_argument_missing": "Missing required arguments",
    "invalid_prompt_arguments": "Invalid arguments",
    "resource_not_found": "Resource not found: {uri}",
    "internal_error": "Internal error",
}

HTTP_STATUS = {
    -32000: 499,
    -32002: 404,
    -32600: 400,
    -32601: 404,
    -32602: 422,
    -32603: 500,
    -32700: 400,
}


def missing_arguments(message: str, data: Any) -> Any:
    """The bare list of names."""
    if not isinstance(data, dict):
        return data
    return cast("Object", data).get("missing", cast("Object", data))


MINIMCP = Dialect(
    name="minimcp",
    inbound_methods=METHODS,
    field_in=PARAMS,
    result_in=RESULTS,
    messages=MESSAGES,
    error_data={"prompt_argument_missing": missing_arguments},
    http_status=HTTP_STATUS,
    server_capabilities={
        "prompts": {"listChanged": False},
        "resources": {"subscribe": False, "listChanged": False},
        "tools": {"listChanged": True},
    },
    null_error_id=True,
    argument_errors="error",
    refuse_responses=True,
    json_as_plain_text=True,
)
