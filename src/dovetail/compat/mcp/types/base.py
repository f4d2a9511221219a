"""What every message of SDK 1.x is made of: open and closed models, results, errors, names and icons.

The models are pydantic's, as those who use them expect (``model_dump(by_alias=True, exclude_none=True)``,
``model_copy``, ``_meta=``). Their validators are built with the first use: a server needs a tenth of them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

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
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
StrictInteger = Annotated[int, Field(strict=True)]
RequestId = StrictInteger | str
AnyFunction: TypeAlias = Callable[..., Any]


def later(module: str, name: str) -> Any:
    """A type that is loaded when a validator that needs it is built: most servers never need it."""

    class Later:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler.generate_schema(vars(import_module(module, __package__))[name])

    return Later


if TYPE_CHECKING:
    from pydantic import AnyUrl

    Url: TypeAlias = AnyUrl
else:
    Url = later(".addresses", "Url")


class Closed(BaseModel):
    """A model that drops what it does not know."""

    model_config = ConfigDict(defer_build=True)


class Open(BaseModel):
    """A model that keeps what it does not know."""

    model_config = ConfigDict(defer_build=True, extra="allow")


class Result(Open):
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


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
