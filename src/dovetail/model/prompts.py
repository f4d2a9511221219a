"""Prompts: messages a user may pick from a server."""

from msgspec import UNSET, UnsetType

from .base import Definition, InputResponseRequestParams, Metadata, PaginatedResult, Result, Role
from .content import ContentBlock, TextContent

__all__ = [
    "GetPromptRequestParams", "GetPromptResult", "ListPromptsResult", "Prompt", "PromptArgument",
    "PromptMessage",
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
