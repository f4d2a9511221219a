"""Prompts: messages a user may pick from a server; and the completion of an argument while a user types."""

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
    """One blank in a prompt."""

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class Prompt(Metadata):
    name: str
    arguments: list[PromptArgument] | UnsetType = UNSET


class PromptMessage(Definition):
    """One message of a prompt: who says it (``user`` or ``assistant``), and one block of content."""

    role: Role
    content: ContentBlock


class ListPromptsResult(PaginatedResult):
    prompts: list[Prompt]


class GetPromptRequestParams(InputResponseRequestParams):
    """Argument values are strings in every revision."""

    name: str
    arguments: dict[str, str] | UnsetType = UNSET


class GetPromptResult(Result):
    """A prompt filled in: the messages to begin a conversation with."""

    messages: list[PromptMessage]
    description: str | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The text of all messages, one after the other; other content is left out."""
        return "\n".join(m.content.text for m in self.messages if isinstance(m.content, TextContent))


# --- completion


class PromptReference(Definition, tag_field="type", tag="ref/prompt", gc=False):
    name: str
    title: str | UnsetType = UNSET


class ResourceTemplateReference(Definition, tag_field="type", tag="ref/resource", gc=False):
    """A template, or the URI of a resource."""

    uri: str


ResourceReference: TypeAlias = ResourceTemplateReference
"""The name of 2024-11-05 and 2025-03-26."""


class ToolReference(Definition, tag_field="type", tag="ref/tool", gc=False):
    """Not official: completion of a tool's argument, for any peer that asks."""

    name: str


Reference: TypeAlias = PromptReference | ResourceTemplateReference | ToolReference


class CompletionArgument(Definition, gc=False):
    """The argument being typed, and what stands there so far."""

    name: str
    value: str


class CompletionContext(Definition):
    """Arguments already settled: strings officially, but some peers send any JSON. Since 2025-06-18."""

    arguments: dict[str, Any] | UnsetType = UNSET


class CompleteRequestParams(RequestParams):
    ref: Reference
    argument: CompletionArgument
    context: CompletionContext | UnsetType = UNSET


class Completion(Definition):
    """At most 100 values; ``total`` and ``has_more`` tell how many were left out.

    ``labels`` are what a user sees in place of the values. The specification has no member for them: they travel in
    the result's ``_meta``, and as members of their own in the dialect of erlmcp.
    """

    values: list[str]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET
    labels: list[str] | UnsetType = UNSET


class CompleteResult(Result):
    completion: Completion

    @property
    def values(self) -> list[str]:
        """The suggestions."""
        return self.completion.values
