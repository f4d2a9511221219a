"""Sampling with one block per message, before 2025-11-25."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from ...errors import LocalProtocolError
from ...model import CreateMessageRequestParams, CreateMessageResult, SamplingMessage, TextContent


def one_block_messages(params: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Split every message of several blocks into as many messages of the same role.

    Raises:
        LocalProtocolError: (``capability_not_supported``) the model is offered tools.
    """
    if params.tools or params.tool_choice is not UNSET:
        raise LocalProtocolError("capability_not_supported", "tools in sampling exist since 2025-11-25")
    if params.tools is not UNSET:
        params = replace(params, tools=UNSET)
    if not any(isinstance(message.content, list) for message in params.messages):
        return params
    messages = [piece for message in params.messages for piece in _split(message)]
    return replace(params, messages=messages)


def _split(message: SamplingMessage) -> list[SamplingMessage]:
    if not isinstance(message.content, list):
        return [message]
    return [replace(message, content=block) for block in message.content]


def one_block_result(result: CreateMessageResult) -> CreateMessageResult:
    """Join the texts of a result of several blocks; anything else among them has no older form.

    Raises:
        LocalProtocolError: (``internal_error``) the result holds several blocks that are not all text.
    """
    if not isinstance(result.content, list):
        return result
    content = result.content
    if len(content) == 1:
        return replace(result, content=content[0])
    texts = [block.text for block in content if isinstance(block, TextContent)]
    if len(texts) != len(content):
        raise LocalProtocolError(
            "internal_error", "a sampling result of several blocks exists since 2025-11-25"
        )
    return replace(result, content=TextContent("\n".join(texts)))
