"""Input requests from a server to a client (elicitation, sampling, roots) and their responses.

Since 2026-07-28 they are members of an `InputRequiredResult`, without an id. The client repeats its request
with the responses under the same keys. Older revisions send the same params as JSON-RPC requests.
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

# --- elicitation: a form of primitive fields, or a URL. Schemas are plain dicts, so that every keyword is kept

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]


class ElicitRequestParams(RequestParams):
    """One elicitation request, in one of two modes; a missing mode means ``form``.

    The schema has two definitions that no member distinguishes reliably; the names `ElicitRequestFormParams`
    and `ElicitRequestURLParams` refer to this Struct. Create it with `form` or `for_url`.
    """

    message: str
    mode: Literal["form", "url"] | UnsetType = UNSET
    requested_schema: dict[str, Any] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET
    """In 2025-11-25 only: the id of a URL elicitation in `ElicitationCompleteNotificationParams`."""
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this request as a task."""

    def __post_init__(self) -> None:
        if self.mode == "url":
            if self.url is UNSET:
                raise ValueError("elicitation in url mode requires `url`")
        elif self.requested_schema is UNSET:
            raise ValueError("elicitation in form mode requires `requestedSchema`")

    @classmethod
    def form(cls, message: str, requested_schema: dict[str, Any]) -> Self:
        """Create a form: a flat object of primitive fields that the user fills in."""
        return cls(message, requested_schema=requested_schema)

    @classmethod
    def for_url(cls, message: str, url: str, elicitation_id: str | UnsetType = UNSET) -> Self:
        """Create a request to visit ``url``."""
        return cls(message, mode="url", url=url, elicitation_id=elicitation_id)


ElicitRequestFormParams: TypeAlias = ElicitRequestParams
ElicitRequestURLParams: TypeAlias = ElicitRequestParams


class ElicitResult(Result):
    """``content`` is present only for ``accept`` in form mode. Validate it against the form before use."""

    action: ElicitAction
    content: dict[str, Any] | UnsetType = UNSET


class ElicitationCompleteNotificationParams(NotificationParams):
    """The user has finished at the URL. In 2025-11-25 only."""

    elicitation_id: str


# --- sampling

IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
SamplingContent: TypeAlias = SamplingMessageContentBlock | list[SamplingMessageContentBlock]
"""One block, or since 2025-11-25 a list of blocks."""


class SamplingMessage(Definition):
    """One message to or from the client's model. ``content`` is one block or, since 2025-11-25, a list."""

    role: Role
    content: SamplingContent
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ModelHint(Definition, gc=False):
    """Part of a model name; the client decides how to match it."""

    name: str | UnsetType = UNSET


class ModelPreferences(Definition):
    """Preferences that the client may ignore. Priorities range from 0 to 1."""

    hints: list[ModelHint] | UnsetType = UNSET
    cost_priority: Number | UnsetType = UNSET
    speed_priority: Number | UnsetType = UNSET
    intelligence_priority: Number | UnsetType = UNSET

    def __post_init__(self) -> None:
        for priority in (self.cost_priority, self.speed_priority, self.intelligence_priority):
            if priority is not UNSET and not 0 <= priority <= 1:
                raise ValueError("priorities must be between 0 and 1")


class ToolChoice(Definition, gc=False):
    mode: Literal["auto", "required", "none"] | UnsetType = UNSET


class CreateMessageRequestParams(RequestParams):
    """``tools`` and ``tool_choice`` require the client capability ``sampling.tools``."""

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
    """``stop_reason`` is an open set: ``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or another
    value."""

    role: Role
    content: SamplingContent
    model: str
    stop_reason: str | UnsetType = UNSET


# --- roots, and the union of all input requests -------------------------------------------------------------


class Root(Definition):
    """A folder that the client exposes to the server; ``uri`` starts with ``file://``."""

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
"""The input request under the same key determines the type."""


class InputRequiredResult(Result, kw_only=True, omit_defaults=False):
    """An intermediate result: repeat the request with responses to ``input_requests`` and with
    ``request_state`` unchanged.

    At least one of the two is set. ``omit_defaults`` is off so that the result type is always written.
    """

    input_requests: InputRequests | UnsetType = UNSET
    request_state: str | UnsetType = UNSET
    result_type: str | UnsetType = "input_required"
