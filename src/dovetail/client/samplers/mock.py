"""A sampler without a model: fixed answers for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...model import CreateMessageRequestParams, CreateMessageResult, TextContent
from .base import Profile, blocks, hints


class Mock:
    """Answer with ``replies`` in turn, over and over; without any, repeat what was asked."""

    supports_tools = False

    def __init__(self, *replies: str, model: str = "mock", profile: Profile | None = None) -> None:
        self.models: Sequence[str] = (model,)
        self.profile = profile or Profile(cheap=1.0, fast=1.0, clever=0.0)
        self.requests: list[CreateMessageRequestParams] = []
        self._replies = replies

    def match(self, request: CreateMessageRequestParams) -> str | None:
        return next((m for hint in hints(request) for m in self.models if hint in m.lower()), None)

    async def __call__(
        self, request: CreateMessageRequestParams, *, model: str | None = None
    ) -> CreateMessageResult:
        self.requests.append(request)
        replies = self._replies or (_last_text(request),)
        text = replies[(len(self.requests) - 1) % len(replies)]
        found = {
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": model or self.models[0],
            "stopReason": "endTurn",
        }
        return msgspec.convert(found, CreateMessageResult)


def _last_text(request: CreateMessageRequestParams) -> str:
    for message in reversed(request.messages):
        for block in blocks(message.content):
            if isinstance(block, TextContent):
                return block.text
    return ""
