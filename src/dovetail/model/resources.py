"""Resources, their templates and their contents."""

import base64
from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType, field

from .struct_base import (
    CacheableResult,
    Definition,
    InputResponseRequestParams,
    Metadata,
    PaginatedResult,
    ResourceRequestParams,
)

__all__ = [
    "BlobResourceContents", "ListResourceTemplatesResult", "ListResourcesResult", "ReadResourceRequestParams",
    "ReadResourceResult", "Resource", "ResourceContents", "ResourceTemplate", "SubscribeRequestParams",
    "TextResourceContents", "UnsubscribeRequestParams",
]  # fmt: skip


class Resource(Metadata):
    """A resource that a server can read."""

    uri: str
    name: str
    mime_type: str | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET
    size: int | UnsetType = UNSET


class ResourceTemplate(Metadata):
    """A family of resources, described by an RFC 6570 URI template."""

    uri_template: str
    name: str
    mime_type: str | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET


class ResourceContents(Definition):
    """The contents of a resource: ``text``, or ``blob`` in base64. Set exactly one of the two.

    The schema has two definitions that differ by the member that is present; the names `TextResourceContents`
    and `BlobResourceContents` refer to this Struct.
    """

    uri: str
    mime_type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


TextResourceContents: TypeAlias = ResourceContents
BlobResourceContents: TypeAlias = ResourceContents


class ListResourcesResult(PaginatedResult):
    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult):
    resource_templates: list[ResourceTemplate]


class ReadResourceRequestParams(InputResponseRequestParams):
    uri: str


class ReadResourceResult(CacheableResult):
    """The contents of a resource: one entry, or several for a collection."""

    contents: list[ResourceContents]

    @property
    def text(self) -> str:
        """The text of all entries, joined with newlines; "" without text."""
        return "\n".join(entry.text for entry in self.contents if isinstance(entry.text, str))

    @property
    def data(self) -> bytes:
        """The first entry as bytes: its decoded blob, or its text in UTF-8.

        Raises:
            ValueError: the blob is not valid base64.
        """
        first = self.contents[0] if self.contents else None
        if first is None:
            return b""
        if isinstance(first.blob, str):
            return base64.b64decode(first.blob, validate=True)
        return first.text.encode() if isinstance(first.text, str) else b""


class SubscribeRequestParams(ResourceRequestParams):
    """Until 2025-11-25; later `SubscriptionFilter.resource_subscriptions`."""


class UnsubscribeRequestParams(ResourceRequestParams):
    """Until 2025-11-25; later the listen stream is closed."""
