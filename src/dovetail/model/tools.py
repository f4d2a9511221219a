"""Tools and their calls."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from .content import ContentBlock
from .struct_base import (
    Definition,
    InputResponseRequestParams,
    Metadata,
    PaginatedResult,
    Result,
    TaskMetadata,
)

__all__ = [
    "CallToolRequestParams", "CallToolResult", "ListToolsResult", "TaskSupport", "Tool", "ToolAnnotations",
    "ToolExecution",
]  # fmt: skip

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]


class ToolAnnotations(dict[str, Any]):
    """Hints about a tool's behaviour, with the specification's defaults. Never trust them.

    Struct fields hold plain dicts after decoding; wrap them, ``ToolAnnotations(tool.annotations)``, to read
    them by name. Unknown keys survive.
    """

    @property
    def read_only(self) -> bool:
        return self.get("readOnlyHint") is True

    @property
    def destructive(self) -> bool:
        """May destroy something. Means nothing for a read-only tool."""
        return self.get("destructiveHint") is not False

    @property
    def idempotent(self) -> bool:
        """A second call with the same arguments changes nothing more."""
        return self.get("idempotentHint") is True

    @property
    def open_world(self) -> bool:
        return self.get("openWorldHint") is not False


class ToolExecution(Definition):
    """How a tool may be run. In 2025-11-25 only."""

    task_support: TaskSupport | UnsetType = UNSET


class Tool(Metadata):
    """A tool a model may call. The schemas are kept word for word."""

    name: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET
    execution: ToolExecution | UnsetType = UNSET


class ListToolsResult(PaginatedResult):
    tools: list[Tool]


class CallToolRequestParams(InputResponseRequestParams):
    """``arguments`` stay raw until the tool's own decoder reads them: it must expect any JSON there."""

    name: str
    arguments: Raw | UnsetType = UNSET
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this call as a task."""


class CallToolResult(Result):
    """What a tool answered. ``structured_content=None`` is a ``null``; absent is ``UNSET``."""

    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET
