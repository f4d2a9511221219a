"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...model import CreateMessageRequestParams
from .base import Sampler, blocks, text


class Anthropic(Sampler):
    """The messages API; ``api_key`` is required by the provider."""

    path = "/v1/messages"
    supports_tools = True
    stops: ClassVar[Mapping[str, Any]] = {
        "max_tokens": "maxTokens",
        "stop_sequence": "stopSequence",
        "tool_use": "toolUse",
    }
    choices: ClassVar[Mapping[str, Any]] = {
        "auto": {"type": "auto"},
        "required": {"type": "any"},
        "none": {"type": "none"},
    }

    def __init__(
        self, *models: str, api_key: str, base_url: str = "https://api.anthropic.com", **options: Any
    ) -> None:
        headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
        super().__init__(*models, base_url=base_url, headers=headers, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages = [
            {"role": message.role, "content": [_block(each) for each in blocks(message.content)]}
            for message in request.messages
        ]
        found = {"model": model, "messages": messages}
        if request.system_prompt:
            found["system"] = request.system_prompt
        return found | self.wishes(request, most="max_tokens", stop="stop_sequences")

    def read(self, answer: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
        return [_block(block) for block in answer["content"]], answer.get("stop_reason")

    def tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        found = {"name": tool["name"], "input_schema": tool["inputSchema"]}
        return found | ({"description": tool["description"]} if tool.get("description") else {})


def _block(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "image":
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            return {"type": "image", "source": source}
        case "tool_use":  # in both directions
            return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"]}
        case "tool_result":
            content, failed = [_block(each) for each in block["content"]], bool(block.get("isError"))
            answered = {"type": "tool_result", "tool_use_id": block["toolUseId"]}
            return {**answered, "content": content, "is_error": failed}
        case _:
            return text(block.get("text", ""))
