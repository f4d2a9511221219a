"""Ollama's own chat endpoint."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model import CreateMessageRequestParams, CreateMessageResult
from .base import Profile, Sampler, blocks

_STOP = {"stop": "endTurn", "length": "maxTokens"}


class Ollama(Sampler):
    """A model served by Ollama on this machine."""

    path = "/api/chat"

    def __init__(self, *models: str, base_url: str = "http://127.0.0.1:11434", **options: Any) -> None:
        options.setdefault("profile", Profile(cheap=1.0, fast=0.5, clever=0.3))
        super().__init__(*models, base_url=base_url, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        if request.system_prompt:
            messages.append({"role": "system", "content": request.system_prompt})
        messages.extend(_message(message.role, blocks(message.content)) for message in request.messages)
        settings: dict[str, Any] = {"num_predict": request.max_tokens}
        if isinstance(request.temperature, int | float):
            settings["temperature"] = request.temperature
        if request.stop_sequences:
            settings["stop"] = request.stop_sequences
        return {"model": model, "messages": messages, "stream": False, "options": settings}

    def result(self, model: str, answer: dict[str, Any]) -> CreateMessageResult:
        found = {
            "role": "assistant",
            "content": {"type": "text", "text": answer["message"]["content"]},
            "model": answer.get("model") or model,
            "stopReason": _STOP.get(answer.get("done_reason") or "stop", "endTurn"),
        }
        return msgspec.convert(found, CreateMessageResult)


def _message(role: str, content: list[Any]) -> dict[str, Any]:
    plain = [msgspec.to_builtins(block) for block in content]
    message: dict[str, Any] = {
        "role": role,
        "content": "\n".join(b.get("text", "") for b in plain if "text" in b),
    }
    images = [block["data"] for block in plain if block.get("type") == "image"]
    if images:
        message["images"] = images
    return message
