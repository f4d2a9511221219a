"""What every request and every list is made of: parameters with ``_meta``, methods, pages; requests all answer."""

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import Field

from .base import Closed, Cursor, LoggingLevel, Open, ProgressToken, Result, StrictInteger


class TaskMetadata(Open):
    ttl: StrictInteger | None = None


class RequestParams(Closed):
    class Meta(Open):
        progressToken: ProgressToken | None = None

    task: TaskMetadata | None = None
    meta: Meta | None = Field(alias="_meta", default=None)


class PaginatedRequestParams(RequestParams):
    cursor: Cursor | None = None


RequestParamsT = TypeVar("RequestParamsT", bound=RequestParams | dict[str, Any] | None)
MethodT = TypeVar("MethodT", bound=str)


class Unbound(Open):
    """Generic, as its users expect; where it says nothing about its parameters, no further model is made."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            named = given if isinstance(given, tuple) else (given,)
            if all(one is Any or one is str for one in named):
                return cls
            return super().__class_getitem__(given)


class Request(Unbound, Generic[RequestParamsT, MethodT]):
    method: MethodT
    params: RequestParamsT


class PaginatedRequest(Request[Any, Any], Generic[RequestParamsT, MethodT]):
    """Also ``PaginatedRequest[Method]``: its parameters are known."""

    params: PaginatedRequestParams | None = None

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            return super().__class_getitem__(given if isinstance(given, tuple) else (Any, given))


class PaginatedResult(Result):
    nextCursor: Cursor | None = None


class PingRequest(Request[Any, Any]):
    method: Literal["ping"] = "ping"
    params: RequestParams | None = None


class SetLevelRequestParams(RequestParams):
    model_config = Open.model_config
    level: LoggingLevel


class SetLevelRequest(Request[Any, Any]):
    method: Literal["logging/setLevel"] = "logging/setLevel"
    params: SetLevelRequestParams
