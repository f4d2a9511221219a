"""Ollama's own chat endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...model import CreateMessageRequestParams
from .base import Profile, Sampler, blocks, text


class Ollama(Sampler):
    """A model served by Ollama on this machine."""

    path = "/api/chat"
    stops: ClassVar[Mapping[str, Any]] = {"length": "maxTokens"}

    def __init__(self, *models: str, base_url: str = "http://127.0.0.1:11434", **options: Any) -> None:
        options.setdefault("profile", Profile(cheap=1.0, fast=0.5, clever=0.3))
        super().__init__(*models, base_url=base_url, **options)

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        messages = [_message(message.role, blocks(message.content)) for message in request.messages]
        if request.system_prompt:
            messages.insert(0, {"role": "system", "content": request.system_prompt})
        wishes = self.wishes(request, most="num_predict", stop="stop")
        return {"model": model, "messages": messages, "stream": False, "options": wishes}

    def read(self, answer: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
        return [text(answer["message"]["content"])], answer.get("done_reason")


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    words = "\n".join(block["text"] for block in content if "text" in block)
    images = [block["data"] for block in content if block["type"] == "image"]
    return {"role": role, "content": words} | ({"images": images} if images else {})
