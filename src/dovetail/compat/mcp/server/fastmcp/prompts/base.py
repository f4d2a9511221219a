"""`Prompt` and its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter
from pydantic_core import to_json

from .....common.schemas import dereferenced
from .....common.signatures import Arguments, name_of
from ....types import Icon, TextContent
from ....types.prompts import Block
from ..utilities.context_injection import find_context_parameter


class Message(BaseModel):
    """A message of a prompt."""

    model_config = ConfigDict(defer_build=True)

    role: Literal["user", "assistant"]
    content: Block

    def __init__(self, content: Any, **kwargs: Any) -> None:
        if isinstance(content, str):
            content = TextContent(type="text", text=content)
        super().__init__(content=content, **kwargs)


class UserMessage(Message):
    """A message of the user."""

    role: Literal["user", "assistant"] = "user"

    def __init__(self, content: Any, **kwargs: Any) -> None:
        super().__init__(content, **kwargs)


class AssistantMessage(Message):
    """A message of the model."""

    role: Literal["user", "assistant"] = "assistant"

    def __init__(self, content: Any, **kwargs: Any) -> None:
        super().__init__(content, **kwargs)


_message: TypeAdapter[Any] = TypeAdapter(dict[str, Any], config=ConfigDict(defer_build=True))


class PromptArgument(BaseModel):
    """A blank of a prompt."""

    model_config = ConfigDict(defer_build=True)

    name: str
    description: str | None = None
    required: bool = False


class Prompt(BaseModel):
    """A prompt that a function fills in."""

    model_config = ConfigDict(defer_build=True)

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    fn: Callable[..., Any] = Field(exclude=True)
    icons: list[Icon] | None = None
    context_kwarg: str | None = Field(default=None, exclude=True)

    _arguments: Any = PrivateAttr(None)

    @classmethod
    def from_function(
        cls, fn: Callable[..., Any], name: str | None = None, title: str | None = None,
        description: str | None = None, icons: list[Icon] | None = None, context_kwarg: str | None = None,
    ) -> Prompt:  # fmt: skip
        """A prompt that ``fn`` fills in."""
        name = name or name_of(fn)
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        if context_kwarg is None:
            context_kwarg = find_context_parameter(fn)
        arguments = Arguments(fn, () if context_kwarg is None else (context_kwarg,))
        schema = dereferenced(arguments.schema())
        required = set(schema.get("required", ()))
        blanks = [
            PromptArgument(name=key, description=one.get("description"), required=key in required)
            for key, one in schema.get("properties", {}).items()
        ]
        made = cls(
            name=name, title=title, description=description or fn.__doc__ or "", arguments=blanks, fn=fn, icons=icons,
            context_kwarg=context_kwarg,
        )  # fmt: skip
        made._arguments = arguments
        return made

    async def render(self, arguments: dict[str, Any] | None = None, context: Any = None) -> list[Message]:
        """The messages.

        Raises:
            ValueError: an argument is missing, or it failed.
        """
        given = dict(arguments or {})
        if missing := {one.name for one in self.arguments or () if one.required} - given.keys():
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            hidden = {} if self.context_kwarg is None else {self.context_kwarg: context}
            value = await self._arguments.call(self.fn, given, **hidden)
            items = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
            return [_read(item) for item in items]
        except Exception as error:
            raise ValueError(f"Error rendering prompt {self.name}: {error}") from error


def _read(item: Any) -> Message:
    if isinstance(item, Message):
        return item
    if isinstance(item, dict):
        members = _message.validate_python(item)
        kind = AssistantMessage if members.get("role") == "assistant" else UserMessage
        return kind(**members)
    if isinstance(item, str):
        return UserMessage(item)
    return UserMessage(to_json(item, fallback=str, indent=2).decode())
