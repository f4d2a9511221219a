"""The kinds of content blocks, known once somebody has something to show: to begin, a server needs few of them."""

from __future__ import annotations

from functools import cache

from ..mcp import types as t


@cache
def blocks() -> tuple[type, ...]:
    """The types of all content blocks."""
    return t.TextContent, t.ImageContent, t.AudioContent, t.ResourceLink, t.EmbeddedResource
