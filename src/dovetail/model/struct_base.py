"""What every definition shares: naming, absence, metadata, results, pages.

Each Struct of this package carries the name of its definition in the official schema. Attributes are
snake_case and travel as camelCase. A member that is absent is ``UNSET`` and is never written; ``None`` is
the JSON ``null`` and appears only where the specification allows it. Required members come first and may be
given by position; what is inherited is keyword-only. Unknown members are ignored, except in the open
dicts (``_meta``, capabilities, annotations, JSON Schemas), which keep everything.
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
"""A JSON number. An integer stays one, so that ``50`` is not written back as ``50.0``."""

Role: TypeAlias = str
"""``user`` or ``assistant``. Open on the way in: some peers send ``system``; a dialect decides about it."""
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
CacheScope: TypeAlias = Literal["public", "private"]
InputResponses: TypeAlias = dict[str, Raw]
"""Answers to questions, as they came: decode each with the type its question wants."""


class Definition(Struct, rename="camel", omit_defaults=True):
    """The root of all Structs that travel."""


class RequestParams(Definition, kw_only=True):
    """Parameters of a request. Methods that need nothing more use it as it is."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class InputResponseRequestParams(RequestParams, kw_only=True):
    """The members every request that may be asked back carries on its second round."""

    input_responses: InputResponses | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class NotificationParams(Definition, kw_only=True):
    """Parameters of a notification. List-changed notifications use it as it is."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class Result(Definition, kw_only=True):
    """The answer to a request. Leave ``result_type`` alone: the codec writes it where the revision has it."""

    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)
    result_type: str | UnsetType = UNSET


EmptyResult: TypeAlias = Result
"""An acknowledgement that says nothing more."""


class CacheableResult(Result, kw_only=True):
    """A result a client may keep for ``ttl_ms`` milliseconds."""

    ttl_ms: int | UnsetType = UNSET
    cache_scope: CacheScope | UnsetType = UNSET


class PaginatedRequestParams(RequestParams, kw_only=True):
    """Parameters of every list request."""

    cursor: str | UnsetType = UNSET
    limit: Any = UNSET
    """Not official: the page size erlmcp's peers wish for. Anything may stand here; check before use."""
    offset: Any = UNSET
    """Not official: the position in the list where erlmcp's peers wish to begin. Check before use."""


class PaginatedResult(CacheableResult, kw_only=True):
    """One page. Without ``next_cursor`` it is the last; an empty string is a cursor like any other."""

    next_cursor: str | UnsetType = UNSET


class ResourceRequestParams(RequestParams):
    """Parameters that name one resource."""

    uri: str


class Icon(Definition):
    """An icon: an ``https:`` or ``data:`` URI. Refuse others before showing it."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: str | UnsetType = UNSET


class Metadata(Definition, kw_only=True):
    """What tools, resources, templates and prompts say about themselves."""

    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class Implementation(Definition):
    """The name and version of a client or server. Self-reported: never decide anything by it."""

    name: str
    version: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    website_url: str | UnsetType = UNSET

    def __getitem__(self, name: str) -> Any:
        """A member by the name it has on the wire, for those who think of it as JSON."""
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
    """The wish to run a request as a task, ``ttl`` in milliseconds. In 2025-11-25 only."""

    ttl: int | UnsetType = UNSET


class Annotations(dict[str, Any]):
    """Hints on content and resources. An open dict: unknown keys survive.

    Struct fields hold plain dicts after decoding; wrap them, ``Annotations(resource.annotations)``, to read
    them by name.
    """

    @property
    def audience(self) -> list[str]:
        """Whom the content is for; empty when unsaid."""
        value = self.get("audience")
        return [role for role in value if isinstance(role, str)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]

    @property
    def priority(self) -> float | None:
        """From 0, optional, to 1, required."""
        value = self.get("priority")
        return value if isinstance(value, int | float) else None

    @property
    def last_modified(self) -> str | None:
        """An ISO 8601 moment."""
        value = self.get("lastModified")
        return value if isinstance(value, str) else None
