"""What few clients ask for: completions, subscriptions."""

from typing import Any, Literal

from .base import Open, Result, Url
from .requests import Request, RequestParams


class EmptyResult(Result): ...


class SubscribeRequestParams(RequestParams):
    model_config = Open.model_config
    uri: Url


class SubscribeRequest(Request[Any, Any]):
    method: Literal["resources/subscribe"] = "resources/subscribe"
    params: SubscribeRequestParams


class UnsubscribeRequestParams(RequestParams):
    model_config = Open.model_config
    uri: Url


class UnsubscribeRequest(Request[Any, Any]):
    method: Literal["resources/unsubscribe"] = "resources/unsubscribe"
    params: UnsubscribeRequestParams


class ResourceTemplateReference(Open):
    type: Literal["ref/resource"]
    uri: str


class ResourceReference(ResourceTemplateReference): ...


class PromptReference(Open):
    type: Literal["ref/prompt"]
    name: str


class CompletionArgument(Open):
    name: str
    value: str


class CompletionContext(Open):
    arguments: dict[str, str] | None = None


class CompleteRequestParams(RequestParams):
    model_config = Open.model_config
    ref: ResourceTemplateReference | PromptReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class CompleteRequest(Request[Any, Any]):
    method: Literal["completion/complete"] = "completion/complete"
    params: CompleteRequestParams


class Completion(Open):
    values: list[str]
    total: int | None = None
    hasMore: bool | None = None


class CompleteResult(Result):
    completion: Completion
