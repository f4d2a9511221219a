"""What a question to a client needs, and what a client checks of it before anybody is bothered with it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, Struct

from ..errors import ProtocolError
from ..model import (
    ClientCapabilities,
    CreateMessageRequestParams,
    ElicitRequestParams,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)
from ..wire.methods import METHODS


def needed_capability(method: str, params: Struct | None) -> str:
    """The path into the client's capabilities that asking this needs, in every era."""
    if isinstance(params, ElicitRequestParams):
        return "elicitation.url" if params.mode == "url" else "elicitation.form"
    if isinstance(params, CreateMessageRequestParams):
        tools = params.tools is not UNSET or params.tool_choice is not UNSET
        return "sampling.tools" if tools else "sampling"
    return METHODS[method].capability or ""


def check_question(method: str, params: Struct | None, declared: ClientCapabilities) -> None:
    """Refuse a question that uses a part of a capability the client left out, or a broken conversation.

    Raises:
        ProtocolError: of kind ``invalid_params``, as the specification wants it.
    """
    fault = None
    need = needed_capability(method, params)
    if "." in need and not declared.has(need):
        fault = f"this client did not declare {need}"
    elif isinstance(params, CreateMessageRequestParams):
        fault = broken_tool_loop(params.messages)
    if fault is not None:
        raise ProtocolError("invalid_params", fault)


def broken_tool_loop(messages: Iterable[SamplingMessage]) -> str | None:
    """What is wrong with the tool calls in a conversation (2025-11-25, Sampling); None when nothing is.

    A message with results holds nothing else, and every call is answered in the very next message.
    """
    waiting: set[str] = set()
    for message in messages:
        content = message.content
        blocks = content if isinstance(content, list) else [content]
        answered = {block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)}
        if answered and not all(isinstance(block, ToolResultContent) for block in blocks):
            return "a message with tool results may hold nothing else"
        if waiting - answered:
            return "every tool use must be answered in the next message"
        if answered - waiting:
            return "a tool result answers no tool use of the message before"
        waiting = {block.id for block in blocks if isinstance(block, ToolUseContent)}
    return "every tool use must be answered in the next message" if waiting else None
