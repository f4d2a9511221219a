"""`ToolResult`: the result of `call_tool`, with structured data from servers of any revision.

`ToolResult.data` is the structured result if there is one. Revisions before 2025-06-18 have no structured
content, so it is parsed from JSON text. Revisions before 2026-07-28 only allow objects, so servers wrap other
values as ``{"result": value}``; that is undone if the text shows the wrapping.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
from msgspec import UNSET

from ...errors import KINDS, ToolError
from ...model import CallToolResult, ImageContent, TextContent
from ...wire.dialects.dialect import VENDOR
from ...wire.revisions import Revision

_NONE: Any = object()


class ToolResult:
    """The outcome of a tool call."""

    __slots__ = ("_data", "_revision", "is_error", "meta", "raw")

    def __init__(self, raw: CallToolResult, revision: Revision) -> None:
        self.raw = raw
        """The protocol result."""
        self.is_error: bool = raw.is_error is True
        self.meta: dict[str, Any] = raw.meta if isinstance(raw.meta, dict) else {}
        self._revision = revision
        self._data = _NONE

    @property
    def content(self) -> list[Any]:
        """The typed content blocks."""
        return self.raw.content

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return joined_text(self.raw.content)

    @property
    def data(self) -> Any:
        """The structured result, or None.

        Before 2025-06-18 it is the text parsed as JSON, if possible; `text` is always exact.
        """
        if self._data is _NONE:
            self._data = structured(self.raw, self._revision)
        return self._data

    @property
    def images(self) -> list[bytes]:
        """The decoded images. Invalid base64 is left out."""
        found: list[bytes] = []
        for block in self.raw.content:
            if isinstance(block, ImageContent):
                with suppress(binascii.Error, ValueError):
                    found.append(base64.b64decode(block.data, validate=True))
        return found

    @property
    def structured_content(self) -> Any:
        """The unmodified ``structuredContent``, or None."""
        value = self.raw.structured_content
        return None if value is UNSET else _plain(value)

    def check(self) -> ToolResult:
        """Return self, or raise `ToolError` if the tool failed."""
        if self.is_error:
            text = self.text or "the tool failed without saying why"
            error = ToolError(text, content=self.raw.content, data=self.structured_content)
            error.kind = _kind(self.meta)
            raise error
        return self

    def __repr__(self) -> str:
        flag = ", is_error=True" if self.is_error else ""
        return f"ToolResult(data={self.data!r}, text={self.text!r}{flag})"


def _kind(meta: dict[str, Any]) -> str:
    """Return the error kind of a failed tool, if it is a known one."""
    kind = meta.get(VENDOR + "kind")
    return kind if isinstance(kind, str) and kind in KINDS else ToolError.kind


def joined_text(content: Sequence[Any]) -> str:
    """Return the text blocks of ``content``, one per line."""
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def structured(result: CallToolResult, revision: Revision) -> Any:
    """Return the structured result of ``result``."""
    value = result.structured_content
    if value is not UNSET:
        return unwrap(_plain(value), result.content)
    if revision.structured_output:
        return None
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if len(texts) != 1 or len(result.content) != 1 or result.is_error is True:
        return None
    try:
        return msgspec.json.decode(texts[0])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return texts[0]


def unwrap(value: Any, content: Sequence[Any]) -> Any:
    """Unwrap ``{"result": value}``, unless the text shows the object itself."""
    if not isinstance(value, dict) or cast("dict[str, Any]", value).keys() != {"result"}:
        return cast("Any", value)
    texts = [block.text for block in content if isinstance(block, TextContent)]
    if len(texts) == 1:
        try:
            if msgspec.json.decode(texts[0]) == value:
                return cast("Any", value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return cast("dict[str, Any]", value)["result"]


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
