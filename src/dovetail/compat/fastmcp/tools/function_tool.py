"""`FunctionTool`: a tool that calls a function, and the decorator that marks one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pydantic import Field

from ...common.schemas import dereferenced, without_titles
from ...common.signatures import Arguments, hints_of, is_async, name_of, parameters_of, plain_function
from ...mcp.types import ToolAnnotations, ToolExecution
from ..decorators import attach
from ..exceptions import ToolError
from ..generation import generation
from ..injection import injected_into
from ..utilities import docstrings
from ..utilities.tasks import task_config
from ..utilities.types import NotSet
from .base import Tool, ToolResult
from .output import output_schema


class FunctionTool(Tool):
    """A tool that calls a function. It can be called itself, as the function it was made of."""

    fn: Callable[..., Any] = Field(exclude=True)
    return_type: Any = Field(default=None, exclude=True)

    # Fields and no private attributes, which pydantic looks up at length.
    reader: Any = Field(default=None, exclude=True, repr=False)
    injected: Any = Field(default=None, exclude=True, repr=False)
    awaits: bool = Field(default=False, exclude=True, repr=False)
    written: Any = Field(default=None, exclude=True, repr=False)
    """The schemas before references were put in their places, by the name of their member."""

    @classmethod
    def from_function(
        cls, fn: Callable[..., Any], name: str | None = None, title: str | None = None,
        description: str | None = None, *, metadata: ToolMeta | None = None, **options: Any,
    ) -> FunctionTool:  # fmt: skip
        """A tool that calls ``fn``; name, description and schemas are the function's unless given.

        The options are the members of `ToolMeta`.
        """
        said = metadata or ToolMeta(name=name, title=title, description=description, **options)
        if isinstance(fn, FunctionTool):
            fn = fn.fn
        _check(fn, said.name, said.exclude_args or [], open_ended=said.open_ended)
        shape = _Shape(fn, said.exclude_args or [])
        annotations = said.annotations
        if isinstance(annotations, dict):
            annotations = ToolAnnotations(**cast("dict[str, Any]", annotations))
        config = task_config(said.task)
        execution = None
        if config is not None and config.supports_tasks():
            config.validate_function(fn, said.name or name_of(fn))
            execution = ToolExecution(taskSupport=config.mode)
        threaded = generation() == 3 if said.run_in_thread is None else said.run_in_thread
        return cls(
            fn=fn, name=said.name or name_of(fn), version=said.version, title=said.title,
            description=said.description or shape.description, icons=said.icons, tags=said.tags or set(),
            annotations=annotations, parameters=shape.parameters, output_schema=_declared(said.output_schema, shape),
            serializer=said.serializer, meta=said.meta, enabled=said.enabled is not False, timeout=said.timeout,
            auth=said.auth, run_in_thread=threaded, task_config=config, execution=execution,
            return_type=shape.hints.get("return"), reader=shape.arguments, injected=shape.injected, awaits=is_async(fn),
            written=_written(said.output_schema, shape),
        )  # fmt: skip

    def as_written(self) -> dict[str, Any]:
        return {} if self.written is None else self.written

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What FastMCP 3's users expect of a decorated function; those of 2 write ``.fn``."""
        return self.fn(*args, **kwargs)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        if self.timeout is None:
            args, kwargs = self.reader.validate(arguments)
            if self.injected is None and self.awaits:
                return self.convert_result(await self.fn(*args, **kwargs))
            return self.convert_result(await self._invoke(args, kwargs))
        try:
            async with asyncio.timeout(self.timeout):
                return self.convert_result(await self._invoke(*self.reader.validate(arguments)))
        except TimeoutError:
            said = f"Tool {self.name!r} execution timed out after {self.timeout:g}s"
            raise ToolError(f"Error calling tool {self.name!r}: {said}") from None

    async def _invoke(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.injected is not None:
            return await self.injected.call(self._call, self.fn, args, kwargs)
        return await self._call(self.fn, args, kwargs)

    async def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.awaits:
            return await fn(*args, **kwargs)
        if self.run_in_thread:
            value = await asyncio.to_thread(fn, *args, **kwargs)
        else:
            value = fn(*args, **kwargs)
        if inspect.isawaitable(value):
            return await value
        if inspect.isgenerator(value):
            return list(value)
        return [item async for item in value] if inspect.isasyncgen(value) else value


class _Shape:
    """What a signature and a docstring say of a tool."""

    def __init__(self, fn: Callable[..., Any], excluded: list[str]) -> None:
        self.hints = hints_of(fn)
        self.injected = injected_into(fn)
        hidden = {*excluded, *(() if self.injected is None else self.injected.names)}
        self.arguments = Arguments(fn, hidden)
        schema = self.arguments.schema()
        doc = inspect.getdoc(fn if inspect.isroutine(fn) else plain_function(fn))
        if generation() == 2:
            schema.pop("additionalProperties", None)
            self.description = doc or None
        else:
            self.description = _description(doc, schema)
        self.written = without_titles(schema, bare=generation() == 3)
        self.parameters = dereferenced(self.written)

    def output(self, *, whole: bool = True) -> dict[str, Any] | None:
        return output_schema(self.hints.get("return", inspect.Parameter.empty), whole=whole)


def _declared(given: Any, shape: _Shape) -> dict[str, Any] | None:
    """The output schema: the author's, which has to be an object, or that of the return annotation."""
    if given is NotSet:
        return shape.output()
    if given is not None and given.get("type") != "object":
        raise ValueError(
            f"Output schemas must represent object types due to MCP spec limitations. Received: {given!r}"
        )
    return given if given is None or generation() == 2 else dereferenced(given)


def _written(given: Any, shape: _Shape) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if "$defs" in shape.written:
        found["inputSchema"] = shape.written
    output = shape.output(whole=False) if given is NotSet else given
    if "$ref" in str(output):
        found["outputSchema"] = output
    return found or None


def _description(doc: str | None, schema: dict[str, Any]) -> str | None:
    """FastMCP 3 takes what a docstring says of parameters to where they stand, and shows the words before it."""
    if not doc:
        return None
    description, said = docstrings.parse(doc)
    known = schema.get("properties", {})
    for name, words in said.items():
        if name in known and "description" not in known[name]:
            known[name]["description"] = words
    return description


def _check(fn: Any, name: str | None, excluded: list[str], *, open_ended: bool) -> None:
    parameters = {one.name: one for one in parameters_of(fn)}
    for one in parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            raise ValueError("Functions with *args are not supported as tools")
        if one.kind is one.VAR_KEYWORD and not open_ended:
            raise ValueError("Functions with **kwargs are not supported as tools")
    for one in excluded:
        if one not in parameters:
            raise ValueError(f"Parameter '{one}' in exclude_args does not exist in function.")
        if parameters[one].default is inspect.Parameter.empty:
            raise ValueError(f"Parameter '{one}' in exclude_args must have a default value.")
    if (name or name_of(fn)) == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")


@dataclass(frozen=True, kw_only=True)
class ToolMeta:
    """What `tool` notes at a function, until a server takes it."""

    type: str = "tool"
    name: str | None = None
    version: Any = None
    title: str | None = None
    description: str | None = None
    icons: Any = None
    tags: set[str] | None = None
    output_schema: Any = NotSet
    annotations: Any = None
    meta: dict[str, Any] | None = None
    app: Any = None
    task: Any = None
    exclude_args: list[str] | None = None
    serializer: Any = None
    timeout: float | None = None
    auth: Any = None
    enabled: bool | None = None
    run_in_thread: bool | None = None
    open_ended: bool = False
    """A function around another tool may take ``**kwargs``."""

    def options(self) -> dict[str, Any]:
        """What was said, as `FunctionTool.from_function` takes it."""
        return {"metadata": self}


def tool(name_or_fn: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Mark a function as a tool, for whichever server it is added to later."""
    if isinstance(name_or_fn, str):
        name = name_or_fn
    elif name_or_fn is not None:
        return attach(name_or_fn, ToolMeta(name=name, **options))
    return partial(attach, note=ToolMeta(name=name, **options))
