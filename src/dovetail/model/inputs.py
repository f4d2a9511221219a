"""Questions a server puts to a client in the middle of a request, and the answers: the user, the model, the roots.

Since 2026-07-28 they travel inside an `InputRequiredResult`, without an id; the client repeats its request
with the answers under the same keys. Older revisions send the same parameters as requests of their own.
"""

from typing import Any, Literal, Self, TypeAlias

from msgspec import UNSET, UnsetType, field

from .content import SamplingMessageContentBlock
from .struct_base import Definition, NotificationParams, Number, RequestParams, Result, Role, TaskMetadata
from .tools import Tool

__all__ = [
    "CreateMessageRequest", "CreateMessageRequestParams", "CreateMessageResult", "ElicitAction",
    "ElicitRequest", "ElicitRequestFormParams", "ElicitRequestParams", "ElicitRequestURLParams",
    "ElicitResult", "ElicitationCompleteNotificationParams", "IncludeContext", "InputRequest",
    "InputRequests", "InputRequiredResult", "InputResponse", "ListRootsRequest", "ListRootsResult",
    "ModelHint", "ModelPreferences", "Root", "SamplingContent", "SamplingMessage", "ToolChoice",
]  # fmt: skip

# --- elicitation: a form of primitive fields, or a URL. Schemas are plain dicts, so that every keyword survives

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]


class ElicitRequestParams(RequestParams):
    """One question, in one of two modes; absent means ``form``.

    The schema knows two definitions that no member tells apart for certain; the names
    `ElicitRequestFormParams` and `ElicitRequestURLParams` mean this Struct.
    Build it with `form` or `for_url`.
    """

    message: str
    mode: Literal["form", "url"] | UnsetType = UNSET
    requested_schema: dict[str, Any] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET
    """In 2025-11-25 only: names the URL question in `ElicitationCompleteNotificationParams`."""
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this request as a task."""

    def __post_init__(self) -> None:
        if self.mode == "url":
            if self.url is UNSET:
                raise ValueError("a question in url mode needs `url`")
        elif self.requested_schema is UNSET:
            raise ValueError("a question in form mode needs `requestedSchema`")

    @classmethod
    def form(cls, message: str, requested_schema: dict[str, Any]) -> Self:
        """Ask the user to fill in a flat object of primitive fields."""
        return cls(message, requested_schema=requested_schema)

    @classmethod
    def for_url(cls, message: str, url: str, elicitation_id: str | UnsetType = UNSET) -> Self:
        """Ask the user to do something at ``url``."""
        return cls(message, mode="url", url=url, elicitation_id=elicitation_id)


ElicitRequestFormParams: TypeAlias = ElicitRequestParams
ElicitRequestURLParams: TypeAlias = ElicitRequestParams


class ElicitResult(Result):
    """``content`` comes with ``accept`` in form mode only. Check it against the form before using it."""

    action: ElicitAction
    content: dict[str, Any] | UnsetType = UNSET


class ElicitationCompleteNotificationParams(NotificationParams):
    """The user is done at the URL. In 2025-11-25 only."""

    elicitation_id: str


# --- sampling

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


# --- roots, and all of them in one result


class Root(Definition):
    """A folder the client lets the server know about; ``uri`` starts with ``file://``."""

    uri: str
    name: str | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ListRootsResult(Result):
    roots: list[Root]


class CreateMessageRequest(Definition, tag_field="method", tag="sampling/createMessage"):
    params: CreateMessageRequestParams


class ListRootsRequest(Definition, tag_field="method", tag="roots/list"):
    params: RequestParams | UnsetType = UNSET


class ElicitRequest(Definition, tag_field="method", tag="elicitation/create"):
    params: ElicitRequestParams


InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest
InputRequests: TypeAlias = dict[str, InputRequest]
InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult
"""Which of the three it is, only the question under the same key can tell."""


class InputRequiredResult(Result, kw_only=True, omit_defaults=False):
    """Not an answer yet: answer ``input_requests`` and repeat the request with ``request_state`` as it came.

    At least one of the two is there. ``omit_defaults`` is off so that the result type is always written.
    """

    input_requests: InputRequests | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    result_type: str | UnsetType = "input_required"
