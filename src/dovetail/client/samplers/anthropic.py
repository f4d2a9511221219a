"""Anthropic's messages."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model import CreateMessageRequestParams, CreateMessageResult
from .base import Sampler, blocks

_STOP = {
    "end_turn": "endTurn",
    "max_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_use": "toolUse",
}
_CHOICE = {"auto": "auto", "required": "any", "none": "none"}


class Anthropic(Sampler):
    """The messages API; ``api_key`` is required by the provider."""

    path = "/v1/messages"
    supports_tools = True

    def __init__(
        self, *models: str, api_key: str, base_url: str = "https://api.anthropic.com", **options: Any
    ) -> None:
        headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
        super().__init__(*models, base_url=base_url, headers=headers, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages = [
            {
                "role": message.role,
                "content": [_block(msgspec.to_builtins(b)) for b in blocks(message.content)],
            }
            for message in request.messages
        ]
        found: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": request.max_tokens}
        if request.system_prompt:
            found["system"] = request.system_prompt
        if isinstance(request.temperature, int | float):
            found["temperature"] = request.temperature
        if request.stop_sequences:
            found["stop_sequences"] = request.stop_sequences
        if request.tools:
            found["tools"] = [_tool(msgspec.to_builtins(tool)) for tool in request.tools]
            if request.tool_choice:
                found["tool_choice"] = {"type": _CHOICE.get(str(request.tool_choice.mode), "auto")}
        return found

    def result(self, model: str, answer: dict[str, Any]) -> CreateMessageResult:
        content = [_ours(block) for block in answer["content"]]
        found = {
            "role": "assistant",
            "content": content if len(content) != 1 else content[0],
            "model": answer.get("model") or model,
            "stopReason": _STOP.get(answer.get("stop_reason") or "end_turn", "endTurn"),
        }
        return msgspec.convert(found, CreateMessageResult)


def _block(block: dict[str, Any]) -> dict[str, Any]:
    match block.get("type"):
        case "image":
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            return {"type": "image", "source": source}
        case "tool_use":
            return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"]}
        case "tool_result":
            inner = [_block(entry) for entry in block["content"]]
            failed = bool(block.get("isError"))
            return {
                "type": "tool_result",
                "tool_use_id": block["toolUseId"],
                "content": inner,
                "is_error": failed,
            }
        case _:
            return {"type": "text", "text": block.get("text", "")}


def _ours(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_use":
        return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"]}
    return {"type": "text", "text": block.get("text", "")}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    found = {"name": tool["name"], "input_schema": tool["inputSchema"]}
    if tool.get("description"):
        found["description"] = tool["description"]
    return found
