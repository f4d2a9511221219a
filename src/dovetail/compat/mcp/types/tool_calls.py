"""The requests for tools, and what comes of a call."""

from typing import TYPE_CHECKING, Any, Literal

from .base import Open, Result, later
from .requests import PaginatedRequest, Request, RequestParams

if TYPE_CHECKING:
    from .resources import ContentBlock as Block
else:
    Block = later(".resources", "ContentBlock")


class ListToolsRequest(PaginatedRequest[Any, Any]):
    method: Literal["tools/list"] = "tools/list"


class CallToolRequestParams(RequestParams):
    model_config = Open.model_config
    name: str
    arguments: dict[str, Any] | None = None


class CallToolRequest(Request[Any, Any]):
    method: Literal["tools/call"] = "tools/call"
    params: CallToolRequestParams


class CallToolResult(Result):
    content: list[Block]
    structuredContent: dict[str, Any] | None = None
    isError: bool = False
