"""What is shown to a model or a user: text, images, audio."""

from typing import Any, Literal

from pydantic import Field

from .base import Annotations, Open


class TextContent(Open):
    """Text content for a message."""

    type: Literal["text"]
    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ImageContent(Open):
    """Image content for a message."""

    type: Literal["image"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class AudioContent(Open):
    """Audio content for a message."""

    type: Literal["audio"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)
