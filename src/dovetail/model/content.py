"""Content blocks of tool results, prompts and sampling messages.

The member ``type`` identifies the block type: match on the class, or compare ``block.type``. It belongs to
the class, so constructors do not take it.
"""

import re
from typing import Any, ClassVar, TypeAlias

from msgspec import UNSET, UnsetType, field

from ..lazy_pattern import lazy_pattern
from .resources import Resource, ResourceContents
from .struct_base import Definition

__all__ = [
    "AudioContent", "ContentBlock", "EmbeddedResource", "ImageContent", "ResourceLink",
    "SamplingMessageContentBlock", "TextContent", "ToolResultContent", "ToolUseContent",
]  # fmt: skip

_MEDIA_TYPE = lazy_pattern(
    r"[a-z0-9][\w!#$&^.+-]{0,126}/[a-z0-9][\w!#$&^.+-]{0,126}[ \t]*(;.*)?", re.ASCII | re.I
)


def is_media_type(text: str) -> bool:
    """Whether ``text`` is a type, a subtype and optional parameters (RFC 6838, section 4.2)."""
    return _MEDIA_TYPE.fullmatch(text) is not None


class TextContent(Definition, tag_field="type", tag="text"):
    """Text content."""

    type: ClassVar[str] = "text"
    text: str
    annotations: dict[str, Any] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ImageContent(Definition, tag_field="type", tag="image"):
    """``data`` is base64."""

    type: ClassVar[str] = "image"
    data: str
    mime_type: str
    annotations: dict[str, Any] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class AudioContent(Definition, tag_field="type", tag="audio"):
    """``data`` is base64. Since 2025-03-26."""

    type: ClassVar[str] = "audio"
    data: str
    mime_type: str
    annotations: dict[str, Any] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ResourceLink(Resource, tag_field="type", tag="resource_link"):
    """A reference to a resource; the client reads it on demand. Since 2025-06-18."""

    type: ClassVar[str] = "resource_link"


class EmbeddedResource(Definition, tag_field="type", tag="resource"):
    """A resource with its contents."""

    type: ClassVar[str] = "resource"
    resource: ResourceContents
    annotations: dict[str, Any] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""The blocks that a tool result or a prompt message may contain."""


class ToolUseContent(Definition, tag_field="type", tag="tool_use"):
    """A tool call requested by a model. In sampling only, since 2025-11-25."""

    type: ClassVar[str] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ToolResultContent(Definition, tag_field="type", tag="tool_result"):
    """The result of such a tool call. In sampling only, since 2025-11-25."""

    type: ClassVar[str] = "tool_result"
    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
)
"""The blocks that a sampling message may contain."""
