"""Samplers for providers: Anthropic messages, OpenAI chat completions and compatible APIs, Ollama chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from ...model import CreateMessageRequestParams
from .sampler_base import Blocks, Profile, Sampler, blocks, text

_LOCAL = Profile(cheap=1.0, fast=0.5, clever=0.3)
"""The default profile of a model on this machine."""


class Anthropic(Sampler):
    """The messages API; ``api_key`` is required by the provider."""

    path = "/v1/messages"
    base_url = "https://api.anthropic.com"
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

    def __init__(self, *models: str, api_key: str, **options: Any) -> None:
        headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
        super().__init__(*models, headers=headers, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages = [
            {"role": message.role, "content": [_block(each) for each in blocks(message.content)]}
            for message in request.messages
        ]
        found = {"model": model, "messages": messages}
        if request.system_prompt:
            found["system"] = request.system_prompt
        return found | self.wishes(request, most="max_tokens", stop="stop_sequences")

    def read(self, answer: dict[str, Any]) -> tuple[Blocks, str | None]:
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


class OpenAI(Sampler):
    """Chat completions at ``base_url``. Some providers need ``api_key``."""

    path = "/chat/completions"
    base_url = "https://api.openai.com/v1"
    supports_tools = True
    stops: ClassVar[Mapping[str, Any]] = {"length": "maxTokens", "tool_calls": "toolUse"}
    choices: ClassVar[Mapping[str, Any]] = {"auto": "auto", "required": "required", "none": "none"}

    def __init__(self, *models: str, api_key: str | None = None, **options: Any) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(*models, headers=headers, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages: Blocks = []
        if request.system_prompt:
            messages.append({"role": "system", "content": request.system_prompt})
        for message in request.messages:
            messages += _messages(message.role, blocks(message.content))
        found = {"model": model, "messages": messages}
        return found | self.wishes(request, most="max_tokens", stop="stop")

    def read(self, answer: dict[str, Any]) -> tuple[Blocks, str | None]:
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

    base_url = "http://127.0.0.1:1234/v1"
    profile = _LOCAL


def _messages(role: str, content: Blocks) -> Blocks:
    """Convert one message: tool results and tool calls become separate messages."""
    found: Blocks = []
    parts: Blocks = []
    calls: Blocks = []
    for block in content:
        match block["type"]:
            case "tool_result":
                words = "\n".join(each.get("text", "") for each in block["content"])
                found.append({"role": "tool", "tool_call_id": block["toolUseId"], "content": words})
            case "tool_use":
                arguments = msgspec.json.encode(block["input"]).decode()
                function = {"name": block["name"], "arguments": arguments}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case "image":
                url = f"data:{block['mimeType']};base64,{block['data']}"
                parts.append({"type": "image_url", "image_url": {"url": url}})
            case "audio":
                sound = {"data": block["data"], "format": block["mimeType"].rpartition("/")[2]}
                parts.append({"type": "input_audio", "input_audio": sound})
            case _:
                parts.append(text(block.get("text", "")))
    if parts or calls or not found:
        plain = len(parts) == 1 and parts[0]["type"] == "text"
        message: dict[str, Any] = {"role": role, "content": parts[0]["text"] if plain else parts}
        found.append(message | ({"tool_calls": calls} if calls else {}))
    return found


class Ollama(Sampler):
    """A model served by Ollama on this machine."""

    path = "/api/chat"
    base_url = "http://127.0.0.1:11434"
    profile = _LOCAL
    stops: ClassVar[Mapping[str, Any]] = {"length": "maxTokens"}

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages: Blocks = []
        if request.system_prompt:
            messages.append({"role": "system", "content": request.system_prompt})
        for message in request.messages:
            content = blocks(message.content)
            words = "\n".join(block["text"] for block in content if "text" in block)
            images = [block["data"] for block in content if block["type"] == "image"]
            said = {"role": message.role, "content": words}
            messages.append(said | ({"images": images} if images else {}))
        wishes = self.wishes(request, most="num_predict", stop="stop")
        return {"model": model, "messages": messages, "stream": False, "options": wishes}

    def read(self, answer: dict[str, Any]) -> tuple[Blocks, str | None]:
        return [text(answer["message"]["content"])], answer.get("done_reason")
