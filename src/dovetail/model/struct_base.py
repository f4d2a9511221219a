"""The common base of all definitions: naming, absent members, metadata, results, pages.

Each Struct of this package has the name of its definition in the official schema. Attributes are snake_case,
JSON members camelCase. An absent member is ``UNSET`` and is never written; ``None`` is the JSON ``null``,
used only where the specification allows it. Required members come first and may be positional; inherited
members are keyword-only. Unknown members are ignored, except in the open dicts (``_meta``, capabilities,
annotations, JSON Schemas), which keep everything.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import fields

__all__ = [
    "Annotations", "CacheScope", "CacheableResult", "Cursor", "Definition", "EmptyResult", "Error", "Icon",
    "Implementation", "InputResponseRequestParams", "InputResponses", "LoggingLevel", "Metadata",
    "NotificationParams", "Number", "PaginatedRequestParams", "PaginatedResult", "ProgressToken", "RequestId",
    "RequestParams", "ResourceRequestParams", "Result", "Role", "TaskMetadata",
]  # fmt: skip

RequestId: TypeAlias = int | str
ProgressToken: TypeAlias = int | str
Cursor: TypeAlias = str
Number: TypeAlias = int | float
"""A JSON number. Integers stay integers, so that ``50`` is not written as ``50.0``."""

Role: TypeAlias = str
"""``user`` or ``assistant``.

Other values are accepted: some peers send ``system``; the dialect decides how to handle it.
"""
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
CacheScope: TypeAlias = Literal["public", "private"]
InputResponses: TypeAlias = dict[str, Raw]
"""Undecoded responses: decode each one with the type that its input request requires."""


class Definition(Struct, rename="camel", omit_defaults=True):
    """The base of all Structs of the protocol."""


class RequestParams(Definition, kw_only=True):
    """Params of a request. Methods without further members use it directly."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class InputResponseRequestParams(RequestParams, kw_only=True):
    """Params of requests that may return ``input_required``: the members for the next round."""

    input_responses: InputResponses | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class NotificationParams(Definition, kw_only=True):
    """Params of a notification. List-changed notifications use it directly."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class Result(Definition, kw_only=True):
    """The result of a request. Do not set ``result_type``: the codec writes it if the revision has it."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)
    result_type: str | UnsetType = UNSET


EmptyResult: TypeAlias = Result
"""A result without further members."""


class CacheableResult(Result, kw_only=True):
    """A result that a client may cache for ``ttl_ms`` milliseconds."""

    ttl_ms: int | UnsetType = UNSET
    cache_scope: CacheScope | UnsetType = UNSET


class PaginatedRequestParams(RequestParams, kw_only=True):
    """Params of every list request."""

    cursor: str | UnsetType = UNSET
    limit: Any = UNSET
    """Vendor member: the page size requested by erlmcp peers. Not validated; check before use."""
    offset: Any = UNSET
    """Vendor member: the start position requested by erlmcp peers. Not validated; check before use."""


class PaginatedResult(CacheableResult, kw_only=True):
    """One page. Without ``next_cursor`` it is the last one; an empty string is a valid cursor."""

    next_cursor: str | UnsetType = UNSET


class ResourceRequestParams(RequestParams):
    """Params with the URI of one resource."""

    uri: str


class Icon(Definition):
    """An icon: an ``https:`` or ``data:`` URI. Reject other schemes before showing it."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: str | UnsetType = UNSET


class Metadata(Definition, kw_only=True):
    """The descriptive members of tools, resources, templates and prompts."""

    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class Implementation(Definition):
    """The name and version of a client or server. Self-reported: do not use it for security decisions."""

    name: str
    version: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    website_url: str | UnsetType = UNSET

    def __getitem__(self, name: str) -> Any:
        """Return a member by its JSON name."""
        value = getattr(self, _IMPLEMENTATION.get(name, ""), UNSET)
        if value is UNSET:
            raise KeyError(name)
        return value


_IMPLEMENTATION = {member.encode_name: member.name for member in fields(Implementation)}


class Error(Definition):
    """The error object of JSON-RPC. ``data`` may be any JSON, ``null`` included."""

    code: int
    message: str
    data: Any = UNSET


class TaskMetadata(Definition, gc=False):
    """A request to run as a task, with ``ttl`` in milliseconds. In 2025-11-25 only."""

    ttl: int | UnsetType = UNSET


class Annotations(dict[str, Any]):
    """Hints on content and resources. An open dict: unknown keys are kept.

    Struct fields contain plain dicts after decoding; wrap them, ``Annotations(resource.annotations)``, to
    access them by name.
    """

    @property
    def audience(self) -> list[str]:
        """The intended audience; empty if not set."""
        value = self.get("audience")
        return [role for role in value if isinstance(role, str)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]

    @property
    def priority(self) -> float | None:
        """From 0 (optional) to 1 (required)."""
        value = self.get("priority")
        return value if isinstance(value, int | float) else None

    @property
    def last_modified(self) -> str | None:
        """An ISO 8601 timestamp."""
        value = self.get("lastModified")
        return value if isinstance(value, str) else None
