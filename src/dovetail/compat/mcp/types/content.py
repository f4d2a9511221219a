"""What is shown to a model or a user: text, images, audio, resources, and the messages made of them."""

from typing import Any, Literal

from pydantic import Field

from .base import Annotations, BaseMetadata, Icon, Open, Url


class ResourceContents(Open):
    uri: Url
    mimeType: str | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class TextResourceContents(ResourceContents):
    text: str


class BlobResourceContents(ResourceContents):
    blob: str


class Resource(BaseMetadata):
    model_config = Open.model_config
    uri: Url
    description: str | None = None
    mimeType: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


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


class EmbeddedResource(Open):
    type: Literal["resource"]
    resource: TextResourceContents | BlobResourceContents
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ResourceLink(Resource):
    type: Literal["resource_link"]


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Content = ContentBlock
