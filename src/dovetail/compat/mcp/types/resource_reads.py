"""The requests for resources."""

from typing import Any, Literal

from .base import Open, Url
from .requests import PaginatedRequest, Request, RequestParams


class ListResourcesRequest(PaginatedRequest[Any, Any]):
    method: Literal["resources/list"] = "resources/list"


class ListResourceTemplatesRequest(PaginatedRequest[Any, Any]):
    method: Literal["resources/templates/list"] = "resources/templates/list"


class ReadResourceRequestParams(RequestParams):
    model_config = Open.model_config
    uri: Url


class ReadResourceRequest(Request[Any, Any]):
    method: Literal["resources/read"] = "resources/read"
    params: ReadResourceRequestParams
