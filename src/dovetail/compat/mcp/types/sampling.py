"""What a server asks of a client's model: a message."""

from typing import Any, Literal

from pydantic import Field

from .base import Open, Result, Role
from .content import AudioContent, ImageContent, TextContent
from .requests import Request, RequestParams
from .resources import ContentBlock
from .tools import Tool

IncludeContext = Literal["none", "thisServer", "allServers"]
StopReason = Literal["endTurn", "stopSequence", "maxTokens", "toolUse"] | str


class ToolUseContent(Open):
    type: Literal["tool_use"]
    name: str
    id: str
    input: dict[str, Any]
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ToolResultContent(Open):
    type: Literal["tool_result"]
    toolUseId: str
    content: list[ContentBlock] = Field(default=[])
    structuredContent: dict[str, Any] | None = None
    isError: bool | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


SamplingContent = TextContent | ImageContent | AudioContent
SamplingMessageContentBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


class SamplingMessage(Open):
    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)

    @property
    def content_as_list(self) -> list[SamplingMessageContentBlock]:
        """The content as a list, whichever of the two it is."""
        return self.content if isinstance(self.content, list) else [self.content]


class ModelHint(Open):
    name: str | None = None


class ModelPreferences(Open):
    hints: list[ModelHint] | None = None
    costPriority: float | None = None
    speedPriority: float | None = None
    intelligencePriority: float | None = None


class ToolChoice(Open):
    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageRequestParams(RequestParams):
    model_config = Open.model_config
    messages: list[SamplingMessage]
    modelPreferences: ModelPreferences | None = None
    systemPrompt: str | None = None
    includeContext: IncludeContext | None = None
    temperature: float | None = None
    maxTokens: int
    stopSequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    toolChoice: ToolChoice | None = None


class CreateMessageRequest(Request[Any, Any]):
    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams


class CreateMessageResult(Result):
    role: Role
    content: SamplingContent
    model: str
    stopReason: StopReason | None = None


class CreateMessageResultWithTools(Result):
    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    model: str
    stopReason: StopReason | None = None

    @property
    def content_as_list(self) -> list[SamplingMessageContentBlock]:
        """The content as a list, whichever of the two it is."""
        return self.content if isinstance(self.content, list) else [self.content]
