"""What every message of SDK 1.x is made of: parameters with ``_meta``, requests, notifications, results, errors.

The models are pydantic's, as those who use them expect (``model_dump(by_alias=True, exclude_none=True)``,
``model_copy``, ``_meta=``). Their validators are built with the first use: a server needs a tenth of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

LATEST_PROTOCOL_VERSION: Final = "2025-11-25"
DEFAULT_NEGOTIATED_VERSION: Final = "2025-03-26"

URL_ELICITATION_REQUIRED: Final = -32042
CONNECTION_CLOSED: Final = -32000
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

TaskExecutionMode = Literal["forbidden", "optional", "required"]
TASK_FORBIDDEN: Final[Literal["forbidden"]] = "forbidden"
TASK_OPTIONAL: Final[Literal["optional"]] = "optional"
TASK_REQUIRED: Final[Literal["required"]] = "required"

ProgressToken = str | int
Cursor = str
Role = Literal["user", "assistant"]
StrictInteger = Annotated[int, Field(strict=True)]
RequestId = StrictInteger | str
AnyFunction: TypeAlias = Callable[..., Any]

if TYPE_CHECKING:
    from pydantic import AnyUrl

    Url: TypeAlias = AnyUrl
else:

    class Url:
        """An ``AnyUrl`` that needs no host. What pydantic has for addresses is loaded with the first model of one."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            from pydantic.networks import AnyUrl, UrlConstraints

            return handler.generate_schema(Annotated[AnyUrl, UrlConstraints(host_required=False)])


class Closed(BaseModel):
    """A model that drops what it does not know."""

    model_config = ConfigDict(defer_build=True)


class Open(BaseModel):
    """A model that keeps what it does not know."""

    model_config = ConfigDict(defer_build=True, extra="allow")


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


class Result(Open):
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    nextCursor: Cursor | None = None


class ErrorData(Open):
    code: int
    message: str
    data: Any | None = None


class BaseMetadata(Closed):
    name: str
    title: str | None = None


class Icon(Open):
    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None


class Annotations(Open):
    audience: list[Role] | None = None
    priority: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
