"""Fallback decoding: error messages with path and reason, and results with unknown content blocks."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..lazy_pattern import lazy_pattern
from ..model import ContentBlock, SamplingMessageContentBlock
from ..shapes import is_list, is_object

_QUOTED = lazy_pattern(
    r"(Invalid (?:enum )?value) (?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?\d+)", re.DOTALL
)


def explain(error: msgspec.ValidationError) -> str:
    """Return path and reason of a failed decode. The value is left out: it may be secret or very large."""
    return _QUOTED.sub(r"\1", str(error))


def _tags(*kinds: Any) -> frozenset[Any]:
    return frozenset(kind.__struct_config__.tag for kind in kinds)


_CONTENT = _tags(*ContentBlock.__args__)
_SAMPLING = _tags(*SamplingMessageContentBlock.__args__)


def known_blocks(data: bytes) -> bytes:
    """Convert content blocks of unknown types to text blocks with their JSON."""
    result: Any = msgspec.json.decode(data)
    if not is_object(result):
        return data
    # A sampling result has a role; its blocks have other types than those of a tool.
    known = _SAMPLING if "role" in result else _CONTENT
    if "content" in result:
        result["content"] = _known(result["content"], known)
    messages = result.get("messages")
    if is_list(messages):
        for message in messages:
            if is_object(message) and "content" in message:
                message["content"] = _known(message["content"], _CONTENT)
    return msgspec.json.encode(result)


def _known(content: Any, known: frozenset[Any]) -> Any:
    if is_list(content):
        return [_known(block, known) for block in content]
    kind = content.get("type") if is_object(content) else None
    if not isinstance(kind, str) or kind in known:
        return content
    return {"type": "text", "text": msgspec.json.encode(content).decode()}
