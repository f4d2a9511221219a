"""OpenAI and everything that speaks its chat completions: LM Studio, vLLM, Ollama's `/v1`, many others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from ...model import CreateMessageRequestParams
from .base import Profile, Sampler, blocks, text


class OpenAI(Sampler):
    """Chat completions at ``base_url``; give ``api_key`` where the provider wants one."""

    path = "/chat/completions"
    supports_tools = True
    stops: ClassVar[Mapping[str, Any]] = {"length": "maxTokens", "tool_calls": "toolUse"}
    choices: ClassVar[Mapping[str, Any]] = {"auto": "auto", "required": "required", "none": "none"}

    def __init__(
        self,
        *models: str,
        api_key: str | None = None,
        base_url: str = "https://api.openai.com/v1",
        **options: Any,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(*models, base_url=base_url, headers=headers, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        if request.system_prompt:
            messages.append({"role": "system", "content": request.system_prompt})
        for message in request.messages:
            messages += _messages(message.role, blocks(message.content))
        found = {"model": model, "messages": messages}
        return found | self.wishes(request, most="max_tokens", stop="stop")

    def read(self, answer: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
        choice = answer["choices"][0]
        message = choice["message"]
        content = [text(message["content"])] if message.get("content") else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            given = msgspec.json.decode(function.get("arguments") or "{}")
            content.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": given})
        return content or [text("")], choice.get("finish_reason")

    def tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        function = {"name": tool["name"], "parameters": tool["inputSchema"]}
        if tool.get("description"):
            function["description"] = tool["description"]
        return {"type": "function", "function": function}


class LMStudio(OpenAI):
    """A model served by LM Studio on this machine."""

    def __init__(self, *models: str, base_url: str = "http://127.0.0.1:1234/v1", **options: Any) -> None:
        options.setdefault("profile", Profile(cheap=1.0, fast=0.5, clever=0.3))
        super().__init__(*models, base_url=base_url, **options)


def _messages(role: str, content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One message of ours: tool results and tool calls are messages of their own there."""
    found: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in content:
        match block["type"]:
            case "tool_result":
                words = "\n".join(each.get("text", "") for each in block["content"])
                found.append({"role": "tool", "tool_call_id": block["toolUseId"], "content": words})
            case "tool_use":
                arguments = msgspec.json.encode(block["input"]).decode()
                function = {"name": block["name"], "arguments": arguments}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case _:
                parts.append(_part(block))
    if parts or calls or not found:
        plain = len(parts) == 1 and parts[0]["type"] == "text"
        message: dict[str, Any] = {"role": role, "content": parts[0]["text"] if plain else parts}
        found.append(message | ({"tool_calls": calls} if calls else {}))
    return found


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "image":
            url = f"data:{block['mimeType']};base64,{block['data']}"
            return {"type": "image_url", "image_url": {"url": url}}
        case "audio":
            sound = {"data": block["data"], "format": block["mimeType"].rpartition("/")[2]}
            return {"type": "input_audio", "input_audio": sound}
        case _:
            return text(block.get("text", ""))
