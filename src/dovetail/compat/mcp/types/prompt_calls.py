"""The requests for prompts."""

from typing import Any, Literal

from .base import Open
from .requests import PaginatedRequest, Request, RequestParams


class ListPromptsRequest(PaginatedRequest[Any, Any]):
    method: Literal["prompts/list"] = "prompts/list"


class GetPromptRequestParams(RequestParams):
    model_config = Open.model_config
    name: str
    arguments: dict[str, str] | None = None


class GetPromptRequest(Request[Any, Any]):
    method: Literal["prompts/get"] = "prompts/get"
    params: GetPromptRequestParams
