"""Asking the client's model, with tools of ours and results of a type."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from ...common.asking import NotAsked
from ...common.schemas import dereferenced, without_titles
from ...mcp import types as t
from ...mcp.server.session import Unasked

if TYPE_CHECKING:
    from .context import Context

_TOKENS: Final = 512
_FINAL: Final = "final_response"
_FINAL_WORDS: Final = (
    "Call this tool to provide your final response. Use this when you have completed the task and are ready to return "
    "the result."
)
_ROUNDS: Final = 100


@dataclass
class SamplingResult:
    """What the model said: its text, the result as the type that was wanted, and the whole conversation."""

    text: str | None
    result: Any
    history: list[t.SamplingMessage]


@dataclass
class SampleStep:
    """One answer of the model."""

    response: Any
    history: list[t.SamplingMessage]
    tool_calls: list[Any] = field(default_factory=list[Any])

    @property
    def is_tool_use(self) -> bool:
        return bool(self.tool_calls)

    @property
    def text(self) -> str | None:
        return next(
            (block.text for block in _blocks(self.response) if isinstance(block, t.TextContent)), None
        )


@dataclass
class SamplingTool:
    """A function the model may call."""

    name: str
    fn: Callable[..., Any]
    description: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    tool: Any = field(default=None, repr=False)

    @classmethod
    def from_function(
        cls, fn: Any, *, name: str | None = None, description: str | None = None
    ) -> SamplingTool:
        from ..tools.function_tool import FunctionTool

        tool = FunctionTool.from_function(fn, name=name, description=description)
        return cls(tool.name, tool.fn, tool.description, tool.parameters, tool)

    async def run(self, arguments: dict[str, Any] | None = None) -> Any:
        """What the function returns for ``arguments``."""
        value = self.fn(**(arguments or {}))
        return await value if inspect.isawaitable(value) else value

    def shown(self) -> t.Tool:
        return t.Tool(name=self.name, description=self.description, inputSchema=self.parameters)


async def sample(
    context: Context, messages: Any, *, tools: Sequence[Any] | None = None, result_type: Any = None,
    tool_choice: Any = None, **options: Any,
) -> SamplingResult:  # fmt: skip
    """Ask until the model has said its last word."""
    known = [
        tool if isinstance(tool, SamplingTool) else SamplingTool.from_function(tool) for tool in tools or ()
    ]
    typed = result_type not in (None, str)
    adapter: TypeAdapter[Any] | None = TypeAdapter(result_type) if typed else None
    final = [] if adapter is None else [_final_tool(adapter)]
    history = _messages(messages)
    for _ in range(_ROUNDS):
        mode = tool_choice or ("required" if typed else None)
        taken = await step(context, history, tools=[*known, *final], tool_choice=mode, **options)
        history = taken.history
        for call in taken.tool_calls:
            if adapter is not None and call.name == _FINAL:
                value = call.input.get("value", call.input) if _wraps(adapter) else call.input
                return SamplingResult(
                    json.dumps(to_jsonable_python(value)), adapter.validate_python(value), history
                )
        if not taken.is_tool_use:
            if adapter is None:
                return SamplingResult(taken.text, taken.text, history)
            raise RuntimeError("the model did not give its result as asked")
    raise RuntimeError(f"the model asked for tools more than {_ROUNDS} times")


async def step(
    context: Context, messages: Any, *, system_prompt: str | None = None, temperature: float | None = None,
    max_tokens: int | None = None, model_preferences: Any = None, tools: Sequence[Any] | None = None,
    tool_choice: Any = None, execute_tools: bool = True, mask_error_details: bool | None = None,
    tool_concurrency: int | None = None,
) -> SampleStep:  # fmt: skip
    """Ask once, and run the tools the model calls."""
    known = {
        tool.name: tool
        for tool in (
            one if isinstance(one, SamplingTool) else SamplingTool.from_function(one) for one in tools or ()
        )
    }
    history = _messages(messages)
    asked: dict[str, Any] = {
        "max_tokens": max_tokens or _TOKENS, "system_prompt": system_prompt, "temperature": temperature,
        "model_preferences": preferences_of(model_preferences),
        "tools": [tool.shown() for tool in known.values()] or None,
        "tool_choice": t.ToolChoice(mode=tool_choice) if tool_choice and known else None,
    }  # fmt: skip
    response = await _ask(context, history, asked)
    blocks = _blocks(response)
    history = [
        *history,
        t.SamplingMessage(role="assistant", content=blocks if len(blocks) > 1 else blocks[0]),
    ]
    calls = [block for block in blocks if isinstance(block, t.ToolUseContent)]
    if calls and execute_tools:
        results = [await _run(known.get(call.name), call) for call in calls if call.name != _FINAL]
        if results:
            history.append(t.SamplingMessage(role="user", content=cast("Any", results)))
    return SampleStep(response, history, calls)


async def _ask(context: Context, history: list[t.SamplingMessage], asked: dict[str, Any]) -> Any:
    handler, always = context.fastmcp.sampling_handler, context.fastmcp.sampling_always
    if handler is not None and always:
        return await _handled(context, handler, history, asked)
    try:
        return await context.session.create_message(history, **asked)
    except Unasked as error:
        if handler is not None:
            return await _handled(context, handler, history, asked)
        if error.cause.capability == "sampling.tools":
            raise NotAsked(
                "Client does not support sampling with tools. The client must advertise the sampling.tools capability.",
                error.cause,
            ) from error
        raise NotAsked("Client does not support sampling", error.cause) from error


async def _handled(
    context: Context, handler: Any, history: list[t.SamplingMessage], asked: dict[str, Any]
) -> Any:
    import inspect

    params = t.CreateMessageRequestParams(
        messages=history, maxTokens=asked["max_tokens"], systemPrompt=asked["system_prompt"],
        temperature=asked["temperature"], modelPreferences=asked["model_preferences"], tools=asked["tools"],
        toolChoice=asked["tool_choice"],
    )  # fmt: skip
    answer = handler(history, params, context.request_context)
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, str):
        content = t.TextContent(type="text", text=answer)
        return t.CreateMessageResult(role="assistant", model="unknown", content=content)
    return answer


def _final_tool(adapter: TypeAdapter[Any]) -> SamplingTool:
    schema = dereferenced(without_titles(adapter.json_schema(), bare=False))
    if _wraps(adapter):
        schema = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    return SamplingTool(_FINAL, print, _FINAL_WORDS, schema)


def _wraps(adapter: TypeAdapter[Any]) -> bool:
    return adapter.json_schema().get("type") != "object" and "$ref" not in adapter.json_schema()


async def _run(tool: SamplingTool | None, call: Any) -> t.ToolResultContent:
    try:
        if tool is None:
            raise ValueError(f"Unknown tool: {call.name}")
        content: list[Any] = (await tool.tool.run(call.input)).content
        failed = False
    except Exception as error:  # noqa: BLE001  the model is told, and decides
        content, failed = [t.TextContent(type="text", text=f"Error executing tool: {error}")], True
    return t.ToolResultContent(type="tool_result", toolUseId=call.id, content=content, isError=failed)


def _messages(messages: Any) -> list[t.SamplingMessage]:
    items = [messages] if isinstance(messages, str | t.SamplingMessage) else list(messages)
    return [
        t.SamplingMessage(role="user", content=t.TextContent(type="text", text=item))
        if isinstance(item, str)
        else item
        for item in items
    ]


def preferences_of(preferences: Any) -> t.ModelPreferences | None:
    """Which models are wanted. Raises ValueError: nobody can tell."""
    if preferences is None or isinstance(preferences, t.ModelPreferences):
        return preferences
    if not isinstance(preferences, str | list):
        raise ValueError("model_preferences must be one of: ModelPreferences, str, list[str], or None.")
    names = [preferences] if isinstance(preferences, str) else cast("list[str]", preferences)
    return t.ModelPreferences(hints=[t.ModelHint(name=name) for name in names])


def _blocks(response: Any) -> list[Any]:
    content: Any = response.content
    return cast("list[Any]", content) if isinstance(content, list) else [content]
