"""Prompts, as they are listed, and the messages that they become."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from .base import BaseMetadata, Icon, Open, Role, later

if TYPE_CHECKING:
    from .resources import ContentBlock as Block
else:
    Block = later(".resources", "ContentBlock")


class PromptArgument(Open):
    name: str
    description: str | None = None
    required: bool | None = None


class Prompt(BaseMetadata):
    model_config = Open.model_config
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class PromptMessage(Open):
    role: Role
    content: Block
