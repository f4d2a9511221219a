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
    """Hints about the behaviour of a tool, with the specification's defaults. They are not verified.

    Struct fields contain plain dicts after decoding; wrap them, ``ToolAnnotations(tool.annotations)``, to
    access them by name. Unknown keys are kept.
    """

    @property
    def read_only(self) -> bool:
        return self.get("readOnlyHint") is True

    @property
    def destructive(self) -> bool:
        """May perform destructive updates. Has no meaning for a read-only tool."""
        return self.get("destructiveHint") is not False

    @property
    def idempotent(self) -> bool:
        """A repeated call with the same arguments has no additional effect."""
        return self.get("idempotentHint") is True

    @property
    def open_world(self) -> bool:
        return self.get("openWorldHint") is not False


class ToolExecution(Definition):
    """Whether a tool can run as a task. In 2025-11-25 only."""

    task_support: TaskSupport | UnsetType = UNSET


class Tool(Metadata):
    """A tool that a model may call. The schemas are kept unchanged."""

    name: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET
    execution: ToolExecution | UnsetType = UNSET


class ListToolsResult(PaginatedResult):
    tools: list[Tool]


class CallToolRequestParams(InputResponseRequestParams):
    """``arguments`` stay raw until the tool's decoder reads them; they may be any JSON."""

    name: str
    arguments: Raw | UnsetType = UNSET
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this call as a task."""


class CallToolResult(Result):
    """The result of a tool. ``structured_content=None`` is ``null``; absent is ``UNSET``."""

    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET
