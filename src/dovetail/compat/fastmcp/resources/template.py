"""`ResourceTemplate`: a family of resources, whose URIs carry arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from ...common.schemas import dereferenced, without_titles
from ...common.signatures import Arguments, name_of
from ...mcp import types as t
from ..generation import generation
from ..injection import Injected, injected_into
from ..utilities.components import FastMCPComponent
from .base import TEXT, Resource, ResourceResult, called, described, result_of, wanted_parameters

_NAME = re.compile(r"\{(\w+)(\*?)\}|\{\?([\w,\s]+)\}")


def build_regex(template: str) -> re.Pattern[str]:
    """The URIs of a template, without their query."""
    pattern, end = "", 0
    for found in _NAME.finditer(template):
        pattern += re.escape(template[end : found.start()])
        end = found.end()
        if found[1]:
            pattern += f"(?P<{found[1]}>{'.+' if found[2] else '[^/]+'})"
    return re.compile(f"^{pattern}{re.escape(template[end:])}$")


def query_names(template: str) -> list[str]:
    return [name.strip() for found in _NAME.finditer(template) if found[3] for name in found[3].split(",")]


def match_uri_template(uri: str, uri_template: str) -> dict[str, str] | None:
    """The arguments in ``uri``; None where it is none of the template's."""
    path, _, query = uri.partition("?")
    wanted = query_names(uri_template)
    found = build_regex(uri_template).match(path if wanted or "?" not in uri_template else uri)
    if found is None:
        return None
    values = {name: unquote(value) for name, value in found.groupdict().items()}
    given = parse_qs(query) if wanted else {}
    return values | {name: given[name][0] for name in wanted if name in given}


class ResourceTemplate(FastMCPComponent):
    """A template; inherit it and write `read`, or make one of a function with `from_function`."""

    KEY_PREFIX: ClassVar[str] = "template"

    uri_template: str
    mime_type: str = TEXT
    parameters: dict[str, Any] = Field(default_factory=dict)
    annotations: t.Annotations | None = None

    @field_validator("mime_type", mode="before")
    @classmethod
    def _default_mime_type(cls, value: Any) -> Any:
        return value or TEXT

    @staticmethod
    def from_function(
        fn: Callable[..., Any], uri_template: str, name: str | None = None, **options: Any
    ) -> Any:
        """A template whose resources ``fn`` reads."""
        return FunctionResourceTemplate.from_function(fn, uri_template, name, **options)

    def _identity(self) -> str:
        return self.uri_template

    def matches(self, uri: str) -> dict[str, Any] | None:
        """The arguments in ``uri``; None where it is none of these."""
        return match_uri_template(uri, self.uri_template)

    async def read(self, arguments: dict[str, Any]) -> Any:
        raise NotImplementedError("Subclasses must implement read() or override create_resource")

    async def read_result(self, uri: str, arguments: dict[str, Any]) -> ResourceResult:
        """What the resource with these arguments has, as parts."""
        value = await self.read(arguments)
        return result_of(value, self.mime_type if generation() == 2 else None, self.meta)

    async def create_resource(self, uri: str, params: dict[str, Any]) -> Resource:
        """The resource with this URI."""

        async def read() -> Any:
            return await self.read(params)

        return Resource.from_function(
            read,
            uri=uri,
            name=self.name,
            description=self.description,
            mime_type=self.mime_type,
            tags=self.tags,
        )

    def to_mcp_template(
        self, *, include_fastmcp_meta: bool | None = None, **overrides: Any
    ) -> t.ResourceTemplate:
        """The template as the protocol shows it."""
        members: dict[str, Any] = {
            **self.common(include_fastmcp_meta),
            "uriTemplate": self.uri_template, "mimeType": self.mime_type, "annotations": self.annotations,
        }  # fmt: skip
        return t.ResourceTemplate(**{**members, **overrides})


class FunctionResourceTemplate(ResourceTemplate):
    """A template whose resources a function reads."""

    fn: Callable[..., Any] = Field(exclude=True)

    _arguments: Any = PrivateAttr(None)
    _injected: Injected | None = PrivateAttr(None)

    @staticmethod
    def from_function(
        fn: Callable[..., Any], uri_template: str, name: str | None = None, **options: Any
    ) -> FunctionResourceTemplate:
        if isinstance(fn, FunctionResourceTemplate):
            fn = fn.fn
        given = described(fn, {"name": name, **options})
        _check(fn, uri_template)
        injected = injected_into(fn)
        arguments = Arguments(fn, () if injected is None else injected.names)
        schema = dereferenced(without_titles(arguments.schema(), bare=generation() == 3))
        made = FunctionResourceTemplate(fn=fn, uri_template=uri_template, parameters=schema, **given)
        made._arguments, made._injected = arguments, injected
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    async def read(self, arguments: dict[str, Any]) -> Any:
        if generation() == 3:
            arguments = {name: _coerced(value, self._kinds().get(name)) for name, value in arguments.items()}
        try:
            args, kwargs = self._arguments.validate(arguments)
        except ValidationError as error:
            # FastMCP 2 validates by pydantic's `validate_call`, whose errors name the function alone.
            name = name_of(self.fn)
            raise ValueError(str(error).replace(f"call[{name}]", name, 1)) from error
        if self._injected is None:
            return await called(self.fn, args, kwargs)
        return await self._injected.call(called, self.fn, args, kwargs)

    def _kinds(self) -> dict[str, Any]:
        return {one.name: one.annotation for one in self._arguments.parameters}


def _coerced(value: Any, kind: Any) -> Any:
    """Words in a URI as the plain types that FastMCP 3 reads there itself."""
    if not isinstance(value, str):
        return value
    if kind in (int, float):
        return kind(value)
    return value.lower() in ("true", "1", "yes", "on") if kind is bool else value


def _check(fn: Callable[..., Any], uri_template: str) -> None:
    parameters = wanted_parameters(fn)
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            raise ValueError("Functions with *args are not supported as resource templates")
    path = {found[1] for found in _NAME.finditer(uri_template) if found[1]}
    names = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    required = {
        one.name for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    }
    if not path and not query_names(uri_template):
        raise ValueError("URI template must contain at least one parameter")
    for name in query_names(uri_template):
        if name in required:
            raise ValueError(f"Required query parameter '{name}' must have a default value")
    if missing := required - path:
        raise ValueError(
            f"Required function arguments {missing} must be a subset of the URI path parameters {path}"
        )
    if not any(one.kind is one.VAR_KEYWORD for one in parameters) and not path <= names:
        raise ValueError(f"URI parameters {path} must be a subset of the function arguments: {names}")
