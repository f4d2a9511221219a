"""Resources, what is in them, and how a content block has one."""

from typing import Any, Literal

from pydantic import Field

from .base import Annotations, BaseMetadata, Icon, Open, Url
from .content import AudioContent, ImageContent, TextContent


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


class ResourceTemplate(BaseMetadata):
    model_config = Open.model_config
    uriTemplate: str
    description: str | None = None
    mimeType: str | None = None
    icons: list[Icon] | None = None
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
