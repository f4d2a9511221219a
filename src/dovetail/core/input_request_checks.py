"""Checks of input requests: the client capability each one needs, and its well-formedness, before the user
sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET

from .. import model as m
from ..errors import ProtocolError
from ..model.content import is_media_type
from ..wire.methods import METHODS


def needed_capability(method: str, params: object) -> str:
    """Return the path of the client capability that this request needs, on every revision."""
    if isinstance(params, m.ElicitRequestParams):
        return "elicitation.url" if params.mode == "url" else "elicitation.form"
    if isinstance(params, m.CreateMessageRequestParams):
        tools = params.tools is not UNSET or params.tool_choice is not UNSET
        return "sampling.tools" if tools else "sampling"
    return METHODS[method].capability or ""


def check_input_request(method: str, params: object, declared: m.ClientCapabilities) -> None:
    """Refuse an input request that needs an undeclared capability, or that has a malformed sampling
    conversation.

    Raises:
        ProtocolError: -32602, as the specification requires; of kind ``invalid_params`` or
            ``invalid_mime_type``.
    """
    kind, fault = "invalid_params", None
    need = needed_capability(method, params)
    if "." in need and not declared.has(need):
        fault = f"the client did not declare the capability {need}"
    elif isinstance(params, m.CreateMessageRequestParams):
        fault = broken_tool_loop(params.messages)
        if fault is None and any(_is_invalid_block(block) for block in _blocks(params.messages)):
            kind, fault = (
                "invalid_mime_type",
                "the mimeType of an image or audio block is not a valid media type",
            )
    if fault is not None:
        raise ProtocolError(kind, fault)


def _blocks(messages: Iterable[m.SamplingMessage]) -> Iterator[Any]:
    for message in messages:
        yield from message.content if isinstance(message.content, list) else [message.content]


def _is_invalid_block(block: Any) -> bool:
    return isinstance(block, m.ImageContent | m.AudioContent) and not is_media_type(block.mime_type)


def broken_tool_loop(messages: Iterable[m.SamplingMessage]) -> str | None:
    """Return what is wrong with the tool calls of a conversation (2025-11-25, Sampling), else None.

    A message with tool results contains nothing else, and every tool call is answered in the next message.
    """
    waiting: set[str] = set()
    for message in messages:
        blocks = list(_blocks([message]))
        answered = {block.tool_use_id for block in blocks if isinstance(block, m.ToolResultContent)}
        if answered and not all(isinstance(block, m.ToolResultContent) for block in blocks):
            return "a message with tool results may contain nothing else"
        if waiting - answered:
            return "every tool use must be answered in the next message"
        if answered - waiting:
            return "a tool result matches no tool use of the previous message"
        waiting = {block.id for block in blocks if isinstance(block, m.ToolUseContent)}
    return "every tool use must be answered in the next message" if waiting else None
