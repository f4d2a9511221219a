"""Tools made of other tools: another name, other words, other arguments, or a function around them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field, PrivateAttr, TypeAdapter

from ...common.schemas import without_titles
from ...mcp.types import ToolAnnotations
from ..decorators import get_fastmcp_meta
from ..utilities.types import FastMCPBaseModel, NotSet
from .base import Tool, ToolResult
from .function_tool import FunctionTool, ToolMeta

_running: ContextVar[TransformedTool | None] = ContextVar("dovetail_transformed_tool", default=None)


async def forward(**kwargs: Any) -> ToolResult:
    """In a ``transform_fn``: call the tool behind, with the arguments as they are called here."""
    tool = _running.get()
    if tool is None:
        raise RuntimeError("forward() can only be called within a transformed tool")
    return await tool.parent_tool.run(tool.translated(kwargs))


async def forward_raw(**kwargs: Any) -> ToolResult:
    """In a ``transform_fn``: call the tool behind, with the arguments as they are called there."""
    tool = _running.get()
    if tool is None:
        raise RuntimeError("forward_raw() can only be called within a transformed tool")
    return await tool.parent_tool.run(kwargs)


@dataclass(kw_only=True)
class ArgTransform:
    """What becomes of one argument."""

    name: Any = NotSet
    description: Any = NotSet
    default: Any = NotSet
    default_factory: Any = NotSet
    type: Any = NotSet
    hide: bool = False
    required: Any = NotSet
    examples: Any = NotSet

    def __post_init__(self) -> None:
        if self.default is not NotSet and self.default_factory is not NotSet:
            raise ValueError("Cannot specify both 'default' and 'default_factory' in ArgTransform.")
        if self.default_factory is not NotSet and not self.hide:
            raise ValueError("default_factory can only be used with hide=True.")
        if self.hide and self.required is True:
            raise ValueError("Cannot specify both 'hide=True' and 'required=True' in ArgTransform.")
        if self.required is False:
            raise ValueError("Cannot specify 'required=False'. Set a default value instead.")

    def value(self) -> Any:
        """What a hidden argument is."""
        return self.default if self.default_factory is NotSet else self.default_factory()


class ArgTransformConfig(FastMCPBaseModel):
    """An `ArgTransform` as a configuration has it."""

    name: str | None = None
    description: str | None = None
    default: Any = None
    hide: bool = False
    required: bool | None = None
    examples: Any = None

    def to_arg_transform(self) -> ArgTransform:
        return ArgTransform(**self.model_dump(exclude_unset=True))


def _tags(value: Any) -> Any:
    return set[str]() if value is None else set(value)


class ToolTransformConfig(FastMCPBaseModel):
    """What becomes of one tool, as a configuration has it."""

    name: str | None = None
    version: str | None = None
    title: str | None = None
    description: str | None = None
    tags: Annotated[set[str], BeforeValidator(_tags)] = Field(default_factory=set)
    meta: dict[str, Any] | None = None
    enabled: bool = True
    arguments: dict[str, ArgTransformConfig] = Field(default_factory=dict)

    def apply(self, tool: Tool) -> TransformedTool:
        """``tool`` as it is to be."""
        said = self.model_dump(exclude_unset=True, exclude={"arguments"})
        arguments = {name: one.to_arg_transform() for name, one in self.arguments.items()}
        return TransformedTool.from_tool(tool, transform_args=arguments, **said)


_KEPT: Final = frozenset({"enabled", "version", "serializer"})
"""What else may be said of a tool that calls another one."""


class TransformedTool(Tool):
    """A tool that calls another one."""

    parent_tool: Any = Field(exclude=True)
    transform_args: dict[str, ArgTransform] = Field(default_factory=dict, exclude=True)

    _function: FunctionTool | None = PrivateAttr(None)

    @classmethod
    def from_tool(
        cls, tool: Any, name: str | None = None, *, title: Any = NotSet, description: Any = NotSet,
        tags: set[str] | None = None, transform_fn: Callable[..., Any] | None = None,
        transform_args: dict[str, ArgTransform] | None = None, annotations: Any = NotSet,
        output_schema: Any = NotSet, meta: Any = NotSet, **others: Any,
    ) -> TransformedTool:  # fmt: skip
        """``tool`` with what is said changed, and everything else as it is."""
        parent = _tool(tool)
        if unknown := others.keys() - _KEPT:
            raise TypeError(f"from_tool() got an unexpected keyword argument {min(unknown)!r}")
        changes = transform_args or {}
        if unknown := changes.keys() - parent.parameters.get("properties", {}).keys():
            raise ValueError(f"Unknown arguments in transform_args: {', '.join(sorted(unknown))}")
        function = (
            None
            if transform_fn is None
            else FunctionTool.from_function(transform_fn, name=parent.name, open_ended=True)
        )
        if isinstance(annotations, dict):
            annotations = ToolAnnotations(**cast("dict[str, Any]", annotations))
        made = cls(
            parent_tool=parent, transform_args=changes, name=name or parent.name, title=_said(title, parent.title),
            description=_said(description, parent.description), tags=tags or parent.tags, icons=parent.icons,
            annotations=_said(annotations, parent.annotations), meta=_said(meta, parent.meta),
            parameters=_parameters(parent, changes, function),
            output_schema=_said(output_schema, parent.output_schema if function is None else function.output_schema),
            **others,
        )  # fmt: skip
        made._function = function
        return made

    def translated(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the tool behind calls them, with what is hidden here."""
        names = {change.name: old for old, change in self.transform_args.items() if change.name is not NotSet}
        found = {names.get(name, name): value for name, value in arguments.items()}
        for old, change in self.transform_args.items():
            value = change.value()
            if value is not NotSet and old not in found:
                found[old] = value
        return found

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        self._refuse_unknown(arguments)
        if self._function is None:
            return await self.parent_tool.run(self.translated(arguments))
        token = _running.set(self)
        try:
            return await self._function.run(arguments)
        finally:
            _running.reset(token)

    def _refuse_unknown(self, arguments: dict[str, Any]) -> None:
        known = self.parameters.get("properties", {})
        if self._function is None and (unknown := [name for name in arguments if name not in known]):
            raise TypeError(f"Got unexpected keyword argument(s): {', '.join(unknown)}")


def _tool(tool: Any) -> Tool:
    if isinstance(tool, Tool):
        return tool
    note = get_fastmcp_meta(tool)
    return FunctionTool.from_function(tool, metadata=note if isinstance(note, ToolMeta) else None)


def _said(given: Any, default: Any) -> Any:
    return default if given is NotSet else given


def _parameters(
    parent: Tool, changes: dict[str, ArgTransform], function: FunctionTool | None
) -> dict[str, Any]:
    schema = dict(parent.parameters)
    required = set(schema.get("required", ()))
    properties: dict[str, Any] = {}
    wanted: list[str] = []
    for name, shown in schema.get("properties", {}).items():
        change = changes.get(name, ArgTransform())
        if change.hide:
            if name in required and change.value() is NotSet:
                raise ValueError(
                    f"Hidden parameter '{name}' has no default value in parent tool and none provided"
                )
            continue
        new = name if change.name is NotSet else change.name
        if new in properties:
            raise ValueError(f"Multiple arguments would be mapped to the same names: {new}")
        properties[new] = _shown(dict(shown), change)
        if change.required is True or (name in required and change.default is NotSet):
            wanted.append(new)
    result = {**schema, "properties": properties, "required": wanted}
    if function is not None:
        result = _joined(result, function)
    return result


def _shown(schema: dict[str, Any], change: ArgTransform) -> dict[str, Any]:
    if change.type is not NotSet:
        schema = {**{key: schema[key] for key in ("description",) if key in schema},
                  **without_titles(TypeAdapter(change.type).json_schema(), bare=True)}  # fmt: skip
    for key in ("description", "default", "examples"):
        value = getattr(change, key)
        if value is not NotSet:
            schema[key] = value
    return schema


def _joined(schema: dict[str, Any], function: FunctionTool) -> dict[str, Any]:
    """A function with ``**kwargs`` takes what the tool behind takes beside its own; one without, its own alone."""
    own = function.parameters
    if not any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function.fn).parameters.values()):
        known = schema["properties"]
        shown = {name: {**known.get(name, {}), **one} for name, one in own.get("properties", {}).items()}
        return {**own, "properties": shown}
    properties = {**schema["properties"], **own.get("properties", {})}
    required = sorted({*schema.get("required", ()), *own.get("required", ())})
    return {**schema, "properties": properties, "required": required}
