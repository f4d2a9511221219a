"""Prompts, and completion of arguments."""

from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType

from .content import ContentBlock, TextContent
from .struct_base import (
    Definition,
    InputResponseRequestParams,
    Metadata,
    PaginatedResult,
    RequestParams,
    Result,
    Role,
)

__all__ = [
    "CompleteRequestParams", "CompleteResult", "Completion", "CompletionArgument", "CompletionContext",
    "GetPromptRequestParams", "GetPromptResult", "ListPromptsResult", "Prompt", "PromptArgument",
    "PromptMessage", "PromptReference", "Reference", "ResourceReference", "ResourceTemplateReference",
    "ToolReference",
]  # fmt: skip


class PromptArgument(Definition, gc=False):
    """One argument of a prompt."""

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class Prompt(Metadata):
    name: str
    arguments: list[PromptArgument] | UnsetType = UNSET


class PromptMessage(Definition):
    """One message of a prompt: a role (``user`` or ``assistant``) and one content block."""

    role: Role
    content: ContentBlock


class ListPromptsResult(PaginatedResult):
    prompts: list[Prompt]


class GetPromptRequestParams(InputResponseRequestParams):
    """Argument values are strings in every revision."""

    name: str
    arguments: dict[str, str] | UnsetType = UNSET


class GetPromptResult(Result):
    """A rendered prompt: the first messages of a conversation."""

    messages: list[PromptMessage]
    description: str | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The text of all messages, joined; other content is left out."""
        return "\n".join(m.content.text for m in self.messages if isinstance(m.content, TextContent))


# --- completion


class PromptReference(Definition, tag_field="type", tag="ref/prompt", gc=False):
    name: str
    title: str | UnsetType = UNSET


class ResourceTemplateReference(Definition, tag_field="type", tag="ref/resource", gc=False):
    """A template, or the URI of a resource."""

    uri: str


ResourceReference: TypeAlias = ResourceTemplateReference
"""The name in 2024-11-05 and 2025-03-26."""


class ToolReference(Definition, tag_field="type", tag="ref/tool", gc=False):
    """Vendor type: completion of a tool argument."""

    name: str


Reference: TypeAlias = PromptReference | ResourceTemplateReference | ToolReference


class CompletionArgument(Definition, gc=False):
    """The argument being typed, and its value so far."""

    name: str
    value: str


class CompletionContext(Definition):
    """Arguments that are already set: officially strings, but some peers send any JSON. Since 2025-06-18."""

    arguments: dict[str, Any] | UnsetType = UNSET


class CompleteRequestParams(RequestParams):
    ref: Reference
    argument: CompletionArgument
    context: CompletionContext | UnsetType = UNSET


class Completion(Definition):
    """At most 100 values. ``total`` and ``has_more`` describe the values that were left out.

    ``labels`` are shown to users instead of the values. The specification has no member for them: they are
    sent in the result's ``_meta``, and in the erlmcp dialect as separate members.
    """

    values: list[str]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET
    labels: list[str] | UnsetType = UNSET


class CompleteResult(Result):
    completion: Completion

    @property
    def values(self) -> list[str]:
        """The suggested values."""
        return self.completion.values
