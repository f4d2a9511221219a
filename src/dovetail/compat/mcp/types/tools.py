"""Tools, as they are listed."""

from typing import Any

from pydantic import Field

from .base import BaseMetadata, Icon, Open, TaskExecutionMode


class ToolAnnotations(Open):
    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Open):
    taskSupport: TaskExecutionMode | None = None


class Tool(BaseMetadata):
    model_config = Open.model_config
    description: str | None = None
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None
