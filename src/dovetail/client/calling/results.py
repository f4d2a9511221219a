"""What `call_tool` returns, and how the structured result is found in what servers of any age send.

`ToolResult.data` is the structured result wherever there is one. Revisions before 2025-06-18 have no structured
content, there it is read from the JSON in the text; revisions before 2026-07-28 allow objects only, so servers wrap
other values as ``{"result": value}``, which is undone when the text shows that it was a wrapping.
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
        """The result as the protocol has it."""
        self.is_error: bool = raw.is_error is True
        self.meta: dict[str, Any] = raw.meta if isinstance(raw.meta, dict) else {}
        self._revision = revision
        self._data = _NONE

    @property
    def content(self) -> list[Any]:
        """The content blocks, typed."""
        return self.raw.content

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return joined_text(self.raw.content)

    @property
    def data(self) -> Any:
        """The structured result, or None when the server gave none.

        Before 2025-06-18 it is the text read as JSON where it is JSON; `text` is always exact.
        """
        if self._data is _NONE:
            self._data = structured(self.raw, self._revision)
        return self._data

    @property
    def images(self) -> list[bytes]:
        """The images, decoded; one that is no base64 is left out."""
        found: list[bytes] = []
        for block in self.raw.content:
            if isinstance(block, ImageContent):
                with suppress(binascii.Error, ValueError):
                    found.append(base64.b64decode(block.data, validate=True))
        return found

    @property
    def structured_content(self) -> Any:
        """``structuredContent`` as it came, or None."""
        value = self.raw.structured_content
        return None if value is UNSET else _plain(value)

    def check(self) -> ToolResult:
        """Return self, or raise `ToolError` when the tool failed."""
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
    """What a failed tool says its failure is, if it is one of our words."""
    kind = meta.get(VENDOR + "kind")
    return kind if isinstance(kind, str) and kind in KINDS else ToolError.kind


def joined_text(content: Sequence[Any]) -> str:
    """The text blocks of ``content``, one per line."""
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def structured(result: CallToolResult, revision: Revision) -> Any:
    """The structured result of ``result`` as the tool meant it."""
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
    """Undo ``{"result": value}``, unless the text shows the object itself."""
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
