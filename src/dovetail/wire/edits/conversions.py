"""Content and definitions in an older form, and the refusal of what has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from msgspec import UNSET
from msgspec.structs import replace

from ...errors import LocalProtocolError
from ...model import (
    AudioContent,
    CreateMessageResult,
    EmbeddedResource,
    ResourceContents,
    ResourceLink,
    SamplingMessage,
    TextContent,
    Tool,
)


def refuse(message: str, kind: str = "internal_error") -> Callable[[Any], NoReturn]:
    """An edit for what cannot be said in any form."""

    def convert(value: Any) -> NoReturn:
        raise LocalProtocolError(kind, message)

    return convert


def audio_to_resource(block: AudioContent) -> EmbeddedResource:
    """Audio as the blob of an embedded resource, which every revision has."""
    contents = ResourceContents("embedded:audio", mime_type=block.mime_type, blob=block.data)
    return EmbeddedResource(contents, annotations=block.annotations)


def audio_message_to_text(value: SamplingMessage | CreateMessageResult) -> Any:
    """Sampling has no embedded resources: a note takes the place of the audio."""
    content = value.content
    if isinstance(content, AudioContent):
        return replace(value, content=TextContent(f"[audio: {content.mime_type}]"))
    return value


def link_to_text(block: ResourceLink) -> TextContent:
    """A link as words: the model can still name the resource."""
    name = block.name if block.title is UNSET else block.title
    return TextContent(f"{name} ({block.uri})", annotations=block.annotations)


def title_to_annotations(tool: Tool) -> Tool:
    """Before tools had titles, their annotations had."""
    if tool.title is UNSET:
        return tool
    annotations = {} if tool.annotations is UNSET else tool.annotations
    return replace(tool, annotations={"title": tool.title, **annotations})


def without_last_modified(value: Any) -> Any:
    """Leave out the one annotation that came later."""
    annotations = value.annotations
    if annotations is UNSET or "lastModified" not in annotations:
        return value
    others = {name: hint for name, hint in annotations.items() if name != "lastModified"}
    return replace(value, annotations=others or UNSET)
