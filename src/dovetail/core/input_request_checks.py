"""What a question to a client needs, and what a client checks of it before anybody is bothered with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET

from .. import model as m
from ..errors import ProtocolError
from ..model.content import is_media_type
from ..wire.methods import METHODS


def needed_capability(method: str, params: object) -> str:
    """The path into the client's capabilities that asking this needs, in every era."""
    if isinstance(params, m.ElicitRequestParams):
        return "elicitation.url" if params.mode == "url" else "elicitation.form"
    if isinstance(params, m.CreateMessageRequestParams):
        tools = params.tools is not UNSET or params.tool_choice is not UNSET
        return "sampling.tools" if tools else "sampling"
    return METHODS[method].capability or ""


def check_question(method: str, params: object, declared: m.ClientCapabilities) -> None:
    """Refuse a question that uses a part of a capability the client left out, or a broken conversation.

    Raises:
        ProtocolError: -32602, as the specification wants it; of kind ``invalid_params`` or ``invalid_mime_type``.
    """
    kind, fault = "invalid_params", None
    need = needed_capability(method, params)
    if "." in need and not declared.has(need):
        fault = f"this client did not declare {need}"
    elif isinstance(params, m.CreateMessageRequestParams):
        fault = broken_tool_loop(params.messages)
        if fault is None and any(_is_odd(block) for block in _blocks(params.messages)):
            kind, fault = "invalid_mime_type", "the media type of an image or a sound is none"
    if fault is not None:
        raise ProtocolError(kind, fault)


def _blocks(messages: Iterable[m.SamplingMessage]) -> Iterator[Any]:
    for message in messages:
        yield from message.content if isinstance(message.content, list) else [message.content]


def _is_odd(block: Any) -> bool:
    return isinstance(block, m.ImageContent | m.AudioContent) and not is_media_type(block.mime_type)


def broken_tool_loop(messages: Iterable[m.SamplingMessage]) -> str | None:
    """What is wrong with the tool calls in a conversation (2025-11-25, Sampling); None when nothing is.

    A message with results holds nothing else, and every call is answered in the very next message.
    """
    waiting: set[str] = set()
    for message in messages:
        blocks = list(_blocks([message]))
        answered = {block.tool_use_id for block in blocks if isinstance(block, m.ToolResultContent)}
        if answered and not all(isinstance(block, m.ToolResultContent) for block in blocks):
            return "a message with tool results may hold nothing else"
        if waiting - answered:
            return "every tool use must be answered in the next message"
        if answered - waiting:
            return "a tool result answers no tool use of the message before"
        waiting = {block.id for block in blocks if isinstance(block, m.ToolUseContent)}
    return "every tool use must be answered in the next message" if waiting else None
