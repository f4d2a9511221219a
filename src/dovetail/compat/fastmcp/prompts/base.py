"""`Prompt`, its messages, and how a function becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter
from pydantic_core import to_json

from ...common.blocks import blocks
from ...common.schemas import dereferenced, without_titles
from ...common.signatures import Arguments
from ...mcp import types as t
from ...mcp.types import PromptMessage
from ..exceptions import PromptError
from ..generation import generation
from ..injection import Injected, injected_into
from ..resources.base import called, described
from ..utilities.components import FastMCPComponent
from ..utilities.types import FastMCPBaseModel


class Message(PromptMessage):
    """A message of a prompt: text, or a content block; other values are written as JSON."""

    def __init__(self, content: Any, role: Literal["user", "assistant"] | None = None, **_: Any) -> None:
        if not isinstance(content, blocks()):
            text = content if isinstance(content, str) else to_json(content, fallback=str).decode()
            content = t.TextContent(type="text", text=text)
        super().__init__(content=content, role=role or "user")

    def to_mcp_prompt_message(self) -> PromptMessage:
        return PromptMessage(role=self.role, content=self.content)


class PromptArgument(FastMCPBaseModel):
    """A blank of a prompt."""

    name: str
    description: str | None = None
    required: bool = False


class PromptResult(BaseModel):
    """A prompt that is filled in."""

    model_config = ConfigDict(defer_build=True)

    messages: list[PromptMessage]
    description: str | None = None
    meta: dict[str, Any] | None = None

    def __init__(
        self, messages: Any, description: str | None = None, meta: dict[str, Any] | None = None
    ) -> None:
        super().__init__(messages=messages_of(messages), description=description, meta=meta)

    def to_mcp_prompt_result(self) -> t.GetPromptResult:
        return t.GetPromptResult(
            messages=[PromptMessage(role=one.role, content=one.content) for one in self.messages],
            description=self.description, _meta=self.meta,
        )  # fmt: skip


def messages_of(value: Any) -> list[PromptMessage]:
    """The messages of what a prompt's function returned."""
    items = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    return [_message(item) for item in items]


def _message(item: Any) -> PromptMessage:
    if isinstance(item, PromptMessage):
        return item
    if isinstance(item, dict) and "role" in item and "content" in item:
        return Message(item["content"], cast("Any", item["role"]))
    return Message(item)


class Prompt(FastMCPComponent):
    """A prompt; inherit it and write `render`, or make one of a function with `from_function`."""

    KEY_PREFIX: ClassVar[str] = "prompt"

    arguments: list[PromptArgument] | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], name: str | None = None, **options: Any) -> Any:
        """A prompt that ``fn`` fills in."""
        return FunctionPrompt.from_function(fn, name, **options)

    async def render(self, arguments: dict[str, Any] | None = None) -> Any:
        """The messages."""
        raise NotImplementedError("Subclasses must implement render()")

    async def render_result(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """The messages, and what is said of them."""
        value = await self.render(arguments)
        return value if isinstance(value, PromptResult) else PromptResult(value, self.description)

    def to_mcp_prompt(self, *, include_fastmcp_meta: bool | None = None, **overrides: Any) -> t.Prompt:
        """The prompt as the protocol shows it."""
        blanks = [
            t.PromptArgument(name=one.name, description=one.description, required=one.required)
            for one in self.arguments or []
        ]
        members: dict[str, Any] = {**self.common(include_fastmcp_meta), "arguments": blanks}
        return t.Prompt(**{**members, **overrides})


class FunctionPrompt(Prompt):
    """A prompt that a function fills in."""

    fn: Callable[..., Any] = Field(exclude=True)

    _arguments: Any = PrivateAttr(None)
    _injected: Injected | None = PrivateAttr(None)

    @classmethod
    def from_function(cls, fn: Callable[..., Any], name: str | None = None, **options: Any) -> FunctionPrompt:
        if isinstance(fn, FunctionPrompt):
            fn = fn.fn
        given = described(fn, {"name": name, **options})
        injected = injected_into(fn)
        arguments = Arguments(fn, () if injected is None else injected.names)
        for one in arguments.parameters:
            if one.kind is one.VAR_POSITIONAL:
                raise ValueError("Functions with *args are not supported as prompts")
            if one.kind is one.VAR_KEYWORD:
                raise ValueError("Functions with **kwargs are not supported as prompts")
        made = cls(fn=fn, arguments=_blanks(arguments), **given)
        made._arguments, made._injected = arguments, injected
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    async def render(self, arguments: dict[str, Any] | None = None) -> Any:
        result = await self.render_result(arguments)
        return result.messages if generation() == 2 else result

    async def render_result(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        given = dict(arguments or {})
        wanted = {one.name for one in self.arguments or [] if one.required}
        if missing := wanted - given.keys():
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            value = await self._invoke(given)
        except Exception as error:
            if generation() == 2:
                raise PromptError(f"Error rendering prompt {self.name}.") from error
            raise
        if isinstance(value, PromptResult):
            return value
        return PromptResult(value, self.description)

    async def _invoke(self, given: dict[str, Any]) -> Any:
        known = {one.name: one.annotation for one in self._arguments.parameters}
        hidden = () if self._injected is None else self._injected.names  # nobody but the server fills these
        if generation() == 3:
            given = {name: value for name, value in given.items() if name in known}
        given = {name: value for name, value in given.items() if name not in hidden}
        values = {name: _converted(name, value, known.get(name)) for name, value in given.items()}
        args, kwargs = self._arguments.validate(values)
        if self._injected is None:
            return await called(self.fn, args, kwargs)
        return await self._injected.call(called, self.fn, args, kwargs)


def _converted(name: str, value: Any, kind: Any) -> Any:
    """Arguments of prompts are strings: JSON, for whatever is declared as anything else."""
    if not isinstance(value, str) or kind in (str, Any, None, inspect.Parameter.empty):
        return value
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    try:
        return adapter.validate_json(value)
    except ValueError:
        try:
            return adapter.validate_python(value)
        except ValueError as error:
            raise PromptError(
                f"Could not convert argument '{name}' with value '{value}' to expected type {kind}. Error: {error}"
            ) from error


def _blanks(arguments: Arguments) -> list[PromptArgument]:
    schema = dereferenced(without_titles(arguments.schema(), bare=generation() == 3))
    properties, required = schema.get("properties", {}), set(schema.get("required", ()))
    kinds = {one.name: one.annotation for one in arguments.parameters}
    return [
        PromptArgument(name=name, description=_words(one, kinds.get(name)), required=name in required)
        for name, one in properties.items()
    ]


def _words(schema: dict[str, Any], kind: Any) -> str | None:
    own = schema.get("description")
    if kind in (str, Any, inspect.Parameter.empty, None):
        return own
    shape = without_titles(TypeAdapter(kind).json_schema(), bare=generation() == 3)
    shape.pop("description", None)
    hint = f"Provide as a JSON string matching the following schema: {to_json(shape).decode()}"
    return f"{own}\n\n{hint}" if own else hint
