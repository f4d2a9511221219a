"""`ResourceTemplate`: a family of resources, whose URIs carry arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from .....common.signatures import Arguments, name_of
from .... import types
from ....types import Annotations, Icon
from ..utilities.context_injection import find_context_parameter
from .base import FunctionResource, Resource


class ResourceTemplate(BaseModel):
    """A template whose resources a function reads."""

    model_config = ConfigDict(defer_build=True)

    uri_template: str
    name: str
    title: str | None = None
    description: str | None
    mime_type: str = "text/plain"
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    fn: Callable[..., Any] = Field(exclude=True)
    parameters: dict[str, Any]
    context_kwarg: str | None = None

    _arguments: Any = PrivateAttr(None)

    @classmethod
    def from_function(
        cls, fn: Callable[..., Any], uri_template: str, name: str | None = None, title: str | None = None,
        description: str | None = None, mime_type: str | None = None, icons: list[Icon] | None = None,
        annotations: Annotations | None = None, meta: dict[str, Any] | None = None,
        context_kwarg: str | None = None,
    ) -> ResourceTemplate:  # fmt: skip
        """A template whose resources ``fn`` reads."""
        name = name or name_of(fn)
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        if context_kwarg is None:
            context_kwarg = find_context_parameter(fn)
        arguments = Arguments(fn, () if context_kwarg is None else (context_kwarg,))
        made = cls(
            uri_template=uri_template, name=name, title=title, description=description or fn.__doc__ or "",
            mime_type=mime_type or "text/plain", icons=icons, annotations=annotations, meta=meta, fn=fn,
            parameters=arguments.schema(), context_kwarg=context_kwarg,
        )  # fmt: skip
        made._arguments = arguments
        return made

    def matches(self, uri: str) -> dict[str, Any] | None:
        """The arguments in ``uri``; None where it is none of these."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.uri_template))
        found = re.fullmatch(pattern, uri)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}

    async def create_resource(self, uri: str, params: dict[str, Any], context: Any = None) -> Resource:
        """The resource with this URI, read already."""
        try:
            hidden = {} if self.context_kwarg is None else {self.context_kwarg: context}
            value = await self._arguments.call(self.fn, params, **hidden)
        except Exception as error:
            raise ValueError(f"Error creating resource from template: {error}") from error
        return FunctionResource(
            uri=types.AnyUrl(uri), name=self.name, title=self.title, description=self.description,
            mime_type=self.mime_type, icons=self.icons, annotations=self.annotations, meta=self.meta, fn=lambda: value,
        )  # type: ignore[arg-type]  # fmt: skip
