"""What a client checks of a server's question before anybody is bothered with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from msgspec import UNSET

from ..errors import ProtocolError
from ..model import (
    ClientCapabilities,
    CreateMessageRequestParams,
    ElicitRequestParams,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)


def check_question(method: str, params: Any, declared: ClientCapabilities) -> None:
    """Refuse a question that uses what the client left out of its capabilities, or a broken conversation.

    Raises:
        ProtocolError: of kind ``invalid_params``, as the specification wants it.
    """
    fault = None
    if method == "elicitation/create":
        mode = "url" if cast("ElicitRequestParams", params).mode == "url" else "form"
        if not declared.has(f"elicitation.{mode}"):
            fault = f"this client did not declare elicitation in {mode} mode"
    elif method == "sampling/createMessage":
        wish = cast("CreateMessageRequestParams", params)
        fault = broken_tool_loop(wish.messages)
        tools = wish.tools is not UNSET or wish.tool_choice is not UNSET
        if tools and not declared.has("sampling.tools"):
            fault = "this client did not declare tools in sampling"
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
