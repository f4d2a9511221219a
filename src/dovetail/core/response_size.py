"""The result or error that replaces a response larger than the transport can carry.

An oversized tool result becomes a failed tool call, encoded as the revision and the dialect require. For
resources the error kind states which limit was exceeded: text, binary data, or several contents together.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ..errors import ProtocolError
from ..model import CallToolResult, ReadResourceResult, TextContent
from ..wire.dialects.dialect import VENDOR
from .channel import Call


def oversized_result(call: Call, result: Any, most: int) -> CallToolResult:
    """Return the result to send instead of ``result``, which exceeds ``most`` bytes.

    Raises:
        ProtocolError: the replacement is a JSON-RPC error.
    """
    kind = _kind(result)
    text = f"the response to {call.method} exceeds {most} bytes"
    as_error = call.codec.dialect.tool_failure_as_error and not call.revision.modern
    if kind != "tool_result_too_large" or as_error:
        raise ProtocolError(kind, text, data={"maxSize": most, "unit": "bytes"})
    return CallToolResult([TextContent(text)], is_error=True, meta={VENDOR + "kind": kind})


def _kind(result: Any) -> str:
    if isinstance(result, CallToolResult):
        return "tool_result_too_large"
    if isinstance(result, ReadResourceResult) and len(result.contents) == 1:
        return "binary_too_large" if result.contents[0].text is UNSET else "text_too_long"
    return "content_too_large"
