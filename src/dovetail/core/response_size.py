"""What is said in place of an answer that is larger than the way to the peer carries.

A tool that says too much has failed like any other; how that shows is the revision's and the dialect's business.
Resources say which of the documents' limits they exceed: of a text, of binary data, of several contents together.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ..errors import ProtocolError
from ..model import CallToolResult, ReadResourceResult, TextContent
from ..wire.dialects.dialect import VENDOR
from .channel import Call


def instead(call: Call, result: Any, most: int) -> CallToolResult:
    """The result to send in place of ``result``, which is larger than ``most`` bytes.

    Raises:
        ProtocolError: it is to be an error.
    """
    kind = _kind(result)
    text = f"the answer to {call.method} exceeds {most} bytes"
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
