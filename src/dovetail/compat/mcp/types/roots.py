"""The folders that a client lets a server know."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from .base import Open, Result, later
from .requests import Request, RequestParams

if TYPE_CHECKING:
    from pydantic import FileUrl
else:
    FileUrl = later("pydantic.networks", "FileUrl")


class ListRootsRequest(Request[Any, Any]):
    method: Literal["roots/list"] = "roots/list"
    params: RequestParams | None = None


class Root(Open):
    uri: FileUrl
    name: str | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ListRootsResult(Result):
    roots: list[Root]
