"""What comes of the requests for tools, prompts and resources."""

from .base import Result
from .prompts import Prompt, PromptMessage
from .requests import PaginatedResult
from .resources import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents
from .tools import Tool


class ListToolsResult(PaginatedResult):
    tools: list[Tool]


class ListPromptsResult(PaginatedResult):
    prompts: list[Prompt]


class GetPromptResult(Result):
    description: str | None = None
    messages: list[PromptMessage]


class ListResourcesResult(PaginatedResult):
    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult):
    resourceTemplates: list[ResourceTemplate]


class ReadResourceResult(Result):
    contents: list[TextResourceContents | BlobResourceContents]
