"""`Resource` and what reading one gives."""

from __future__ import annotations

import base64
import inspect
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)
from pydantic_core import to_json, to_jsonable_python

from ...common.signatures import is_async, name_of, parameters_of, plain_function
from ...mcp import types as t
from ...mcp.types.base import Url
from ..generation import generation
from ..injection import Injected, injected_into
from ..utilities.components import FastMCPComponent
from ..utilities.tasks import task_config

log = logging.getLogger("fastmcp")

TEXT = "text/plain"


class ResourceContent(BaseModel):
    """One part of a resource: text or bytes, anything else is written as JSON."""

    model_config = ConfigDict(defer_build=True)

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None

    def __init__(
        self, content: Any, mime_type: str | None = None, meta: dict[str, Any] | None = None
    ) -> None:
        kind = TEXT if isinstance(content, str) else "application/octet-stream"
        if not isinstance(content, str | bytes):
            content, kind = json.dumps(to_jsonable_python(content, fallback=str)), "application/json"
        super().__init__(content=content, mime_type=mime_type or kind, meta=meta)

    def to_mcp_resource_contents(self, uri: Any) -> t.TextResourceContents | t.BlobResourceContents:
        """As the protocol has it."""
        members: dict[str, Any] = {"uri": uri, "mimeType": self.mime_type, "_meta": self.meta}
        if isinstance(self.content, str):
            return t.TextResourceContents(text=self.content, **members)
        return t.BlobResourceContents(blob=base64.b64encode(self.content).decode(), **members)


class ResourceResult(BaseModel):
    """All parts of a resource. FastMCP 2 had a list of them, and it can be used as one."""

    model_config = ConfigDict(defer_build=True)

    contents: list[ResourceContent]
    meta: dict[str, Any] | None = None

    def __init__(self, contents: Any, meta: dict[str, Any] | None = None) -> None:
        if isinstance(contents, str | bytes):
            contents = [ResourceContent(contents)]
        elif not isinstance(contents, list):
            raise TypeError(
                f"contents must be str, bytes, or list[ResourceContent], got {type(contents).__name__}"
            )
        super().__init__(contents=contents, meta=meta)

    def __iter__(self) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.contents)

    def __getitem__(self, index: int) -> ResourceContent:
        return self.contents[index]

    def __len__(self) -> int:
        return len(self.contents)

    def to_mcp_result(self, uri: Any) -> t.ReadResourceResult:
        return t.ReadResourceResult(
            contents=[part.to_mcp_resource_contents(uri) for part in self.contents], _meta=self.meta
        )


def result_of(value: Any, mime_type: str | None, meta: dict[str, Any] | None) -> ResourceResult:
    """What a reader returned, as parts; ``mime_type`` and ``meta`` are those of its resource."""
    if isinstance(value, ResourceResult):
        return value
    if isinstance(value, ResourceContent):
        return ResourceResult([value])
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    if parts and all(isinstance(part, ResourceContent) for part in parts):
        return ResourceResult(parts)
    if not isinstance(value, str | bytes) and generation() == 2:
        value = to_json(value, fallback=str).decode()
    return ResourceResult([ResourceContent(value, mime_type, meta if generation() == 3 else None)])


class Resource(FastMCPComponent):
    """A resource; inherit it and write `read`, or make one of a function with `from_function`."""

    KEY_PREFIX: ClassVar[str] = "resource"

    name: str = ""
    uri: Url
    mime_type: str = TEXT
    annotations: t.Annotations | None = None

    @field_validator("mime_type", mode="before")
    @classmethod
    def _default_mime_type(cls, value: Any) -> Any:
        return value or TEXT

    @model_validator(mode="after")
    def _default_name(self) -> Resource:
        if not self.name:
            if not self.uri:
                raise ValueError("Either name or uri must be provided")
            self.name = str(self.uri)
        return self

    @classmethod
    def from_function(cls, fn: Callable[..., Any], uri: Any = None, **options: Any) -> FunctionResource:
        """A resource that ``fn`` reads."""
        return FunctionResource.from_function(fn, uri, **options)

    def _identity(self) -> str:
        return str(self.uri)

    async def read(self) -> Any:
        """Its content."""
        raise NotImplementedError("Subclasses must implement read()")

    async def read_result(self) -> ResourceResult:
        """Its content as parts."""
        return self.convert_result(await self.read())

    def convert_result(self, raw_value: Any) -> ResourceResult:
        return result_of(raw_value, self.mime_type, self.meta)

    def to_mcp_resource(self, *, include_fastmcp_meta: bool | None = None, **overrides: Any) -> t.Resource:
        """The resource as the protocol shows it."""
        members: dict[str, Any] = {
            **self.common(include_fastmcp_meta),
            "uri": self.uri, "mimeType": self.mime_type, "annotations": self.annotations,
        }  # fmt: skip
        return t.Resource(**{**members, **overrides})


class FunctionResource(Resource):
    """A resource that a function reads when somebody wants it."""

    fn: Callable[..., Any] = Field(exclude=True)

    _injected: Injected | None = PrivateAttr(None)

    @classmethod
    def from_function(cls, fn: Callable[..., Any], uri: Any = None, **options: Any) -> FunctionResource:
        if isinstance(fn, FunctionResource):
            fn = fn.fn
        made = cls(fn=fn, uri=uri, **described(fn, options))
        made._injected = injected_into(fn)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    async def read(self) -> Any:
        if self._injected is None:
            value = await called(self.fn, (), {})
        else:
            value = await self._injected.call(called, self.fn, (), {})
        return await value.read() if isinstance(value, Resource) else value


async def called(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a reader or a prompt: in a thread where FastMCP 3 does so."""
    if generation() == 3 and not is_async(fn):
        import asyncio

        value = await asyncio.to_thread(fn, *args, **kwargs)
    else:
        value = fn(*args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def described(fn: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """What is said of a component, and where nothing is, what its function says."""
    config = task_config(options.get("task"))
    given = {
        name: value for name, value in options.items() if value is not None and name not in ("task", "app")
    }
    given.setdefault("name", name_of(fn))
    if config is not None:
        config.validate_function(fn, given["name"])
        given["task_config"] = config
    if given["name"] == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")
    doc = inspect.getdoc(fn if inspect.isroutine(fn) else plain_function(fn))
    given.setdefault("description", doc or None)
    if isinstance(given.get("annotations"), dict):
        given["annotations"] = t.Annotations(**given["annotations"])
    return given


def wanted_parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters a caller fills."""
    injected = injected_into(fn)
    hidden = set[str]() if injected is None else injected.names
    return [one for one in parameters_of(fn) if one.name not in hidden]
