"""Sampling: a server asks the client's model. A request until 2025-11-25, since then an input request."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType, field

from .base import Definition, Number, RequestParams, Result, Role, TaskMetadata
from .content import SamplingMessageContentBlock
from .tools import Tool

__all__ = [
    "CreateMessageRequestParams", "CreateMessageResult", "IncludeContext", "ModelHint", "ModelPreferences",
    "SamplingContent", "SamplingMessage", "ToolChoice",
]  # fmt: skip

IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
SamplingContent: TypeAlias = SamplingMessageContentBlock | list[SamplingMessageContentBlock]
"""One block, or since 2025-11-25 a list of them."""


class SamplingMessage(Definition):
    """One message to or from the client's model; ``content`` is one block or, since 2025-11-25, several."""

    role: Role
    content: SamplingContent
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ModelHint(Definition, gc=False):
    """Part of a model's name; the client matches it freely."""

    name: str | UnsetType = UNSET


class ModelPreferences(Definition):
    """Wishes, not orders. Priorities run from 0 to 1."""

    hints: list[ModelHint] | UnsetType = UNSET
    cost_priority: Number | UnsetType = UNSET
    speed_priority: Number | UnsetType = UNSET
    intelligence_priority: Number | UnsetType = UNSET

    def __post_init__(self) -> None:
        for priority in (self.cost_priority, self.speed_priority, self.intelligence_priority):
            if priority is not UNSET and not 0 <= priority <= 1:
                raise ValueError("priorities run from 0 to 1")


class ToolChoice(Definition, gc=False):
    mode: Literal["auto", "required", "none"] | UnsetType = UNSET


class CreateMessageRequestParams(RequestParams):
    """``tools`` and ``tool_choice`` need the client's ``sampling.tools``."""

    messages: list[SamplingMessage]
    max_tokens: int
    model_preferences: ModelPreferences | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    include_context: IncludeContext | UnsetType = UNSET
    temperature: Number | UnsetType = UNSET
    stop_sequences: list[str] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    tools: list[Tool] | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this request as a task."""


class CreateMessageResult(Result):
    """``stop_reason`` is open: ``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or another."""

    role: Role
    content: SamplingContent
    model: str
    stop_reason: str | UnsetType = UNSET
