"""OpenAI and everything that speaks its chat completions: LM Studio, vLLM, Ollama's `/v1`, many others."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model import CreateMessageRequestParams, CreateMessageResult
from .base import Profile, Sampler, blocks

_STOP = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse", "content_filter": "endTurn"}
_CHOICE = {"auto": "auto", "required": "required", "none": "none"}


class OpenAI(Sampler):
    """Chat completions at ``base_url``; give ``api_key`` where the provider wants one."""

    path = "/chat/completions"
    supports_tools = True

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
            messages.extend(_messages(message.role, blocks(message.content)))
        found: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": request.max_tokens}
        if isinstance(request.temperature, int | float):
            found["temperature"] = request.temperature
        if request.stop_sequences:
            found["stop"] = request.stop_sequences
        if request.tools:
            found["tools"] = [_tool(msgspec.to_builtins(tool)) for tool in request.tools]
            if request.tool_choice:
                found["tool_choice"] = _CHOICE.get(str(request.tool_choice.mode), "auto")
        return found

    def result(self, model: str, answer: dict[str, Any]) -> CreateMessageResult:
        choice = answer["choices"][0]
        message = choice["message"]
        content: list[dict[str, Any]] = []
        if message.get("content"):
            content.append({"type": "text", "text": message["content"]})
        for call in message.get("tool_calls") or ():
            function = call["function"]
            given = msgspec.json.decode(function.get("arguments") or "{}")
            content.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": given})
        if not content:
            content = [{"type": "text", "text": ""}]
        found = {
            "role": "assistant",
            "content": content if len(content) > 1 else content[0],
            "model": answer.get("model") or model,
            "stopReason": _STOP.get(choice.get("finish_reason") or "stop", "endTurn"),
        }
        return msgspec.convert(found, CreateMessageResult)


class LMStudio(OpenAI):
    """A model served by LM Studio on this machine."""

    def __init__(self, *models: str, base_url: str = "http://127.0.0.1:1234/v1", **options: Any) -> None:
        options.setdefault("profile", Profile(cheap=1.0, fast=0.5, clever=0.3))
        super().__init__(*models, base_url=base_url, **options)


def _messages(role: str, content: list[Any]) -> list[dict[str, Any]]:
    """One message of ours: tool results and tool calls are messages of their own there."""
    found: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in (msgspec.to_builtins(b) for b in content):
        match block.get("type"):
            case "tool_result":
                found.append(
                    {"role": "tool", "tool_call_id": block["toolUseId"], "content": _text(block["content"])}
                )
            case "tool_use":
                arguments = msgspec.json.encode(block["input"]).decode()
                function = {"name": block["name"], "arguments": arguments}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case _:
                parts.append(_part(block))
    if parts or calls or not found:
        plain = len(parts) == 1 and parts[0]["type"] == "text"
        message: dict[str, Any] = {"role": role, "content": parts[0]["text"] if plain else parts}
        if calls:
            message["tool_calls"] = calls
        found.append(message)
    return found


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block.get("type"):
        case "image":
            return {
                "type": "image_url",
                "image_url": {"url": f"data:{block['mimeType']};base64,{block['data']}"},
            }
        case "audio":
            sound = {"data": block["data"], "format": block["mimeType"].rpartition("/")[2]}
            return {"type": "input_audio", "input_audio": sound}
        case _:
            return {"type": "text", "text": block.get("text", "")}


def _text(content: list[dict[str, Any]]) -> str:
    return "\n".join(block.get("text", "") for block in content)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["inputSchema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}
