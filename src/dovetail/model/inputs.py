"""Questions a server puts to a client in the middle of a request, and the answers.

Since 2026-07-28 they travel inside an `InputRequiredResult`, without an id; the client repeats its request
with the answers under the same keys. Older revisions send the same parameters as requests of their own.
"""

from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType, field

from .base import Definition, RequestParams, Result
from .elicitation import ElicitRequestParams, ElicitResult
from .sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "CreateMessageRequest", "ElicitRequest", "InputRequest", "InputRequests", "InputRequiredResult",
    "InputResponse", "ListRootsRequest", "ListRootsResult", "Root",
]  # fmt: skip


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
