"""`Tool`: a function that clients may call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .....common.signatures import is_async, name_of
from ....shared.exceptions import UrlElicitationRequiredError
from ....types import Icon, ToolAnnotations
from ..exceptions import ToolError
from ..utilities.context_injection import find_context_parameter
from ..utilities.func_metadata import FuncMetadata, func_metadata


class Tool(BaseModel):
    """A tool as it was registered."""

    model_config = ConfigDict(arbitrary_types_allowed=True, defer_build=True)

    fn: Callable[..., Any] = Field(exclude=True)
    name: str
    title: str | None = None
    description: str
    parameters: dict[str, Any]
    fn_metadata: FuncMetadata
    is_async: bool
    context_kwarg: str | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = None

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return self.fn_metadata.output_schema

    @classmethod
    def from_function(
        cls, fn: Callable[..., Any], name: str | None = None, title: str | None = None,
        description: str | None = None, context_kwarg: str | None = None,
        annotations: ToolAnnotations | None = None, icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None, structured_output: bool | None = None,
    ) -> Tool:  # fmt: skip
        """A tool that calls ``fn``; name, description and schemas are the function's unless given."""
        if not callable(fn):
            raise AttributeError(
                f"{type(fn).__name__!r} object has no attribute '__name__'"
            )  # as theirs finds out
        name = name or name_of(fn)
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        if context_kwarg is None:
            context_kwarg = find_context_parameter(fn)
        metadata = func_metadata(fn, [context_kwarg] if context_kwarg else [], structured_output)
        return cls(
            fn=fn, name=name, title=title, description=description or fn.__doc__ or "",
            parameters=metadata.arg_model.model_json_schema(by_alias=True), fn_metadata=metadata, is_async=is_async(fn),
            context_kwarg=context_kwarg, annotations=annotations, icons=icons, meta=meta,
        )  # fmt: skip

    async def run(self, arguments: dict[str, Any], context: Any = None, convert_result: bool = False) -> Any:
        """Call it.

        Raises:
            ToolError: whatever went wrong; the text says what.
        """
        try:
            direct = {self.context_kwarg: context} if self.context_kwarg is not None else None
            value = await self.fn_metadata.call_fn_with_arg_validation(
                self.fn, self.is_async, arguments, direct
            )
            if not self.is_async and inspect.isawaitable(value):
                value = await value
            return self.fn_metadata.convert_result(value) if convert_result else value
        except UrlElicitationRequiredError:
            raise
        except Exception as error:
            raise ToolError(f"Error executing tool {self.name}: {error}") from error
