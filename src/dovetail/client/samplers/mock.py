"""A sampler without a model: fixed answers for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import CreateMessageRequestParams, CreateMessageResult
from .base import Profile, answered, blocks, text


class Mock:
    """Answer with ``replies`` in turn, over and over; without any, repeat what was asked."""

    supports_tools = False

    def __init__(self, *replies: str, model: str = "mock", profile: Profile | None = None) -> None:
        self.models: Sequence[str] = (model,)
        self.profile = profile or Profile(cheap=1.0, fast=1.0, clever=0.0)
        self.requests: list[CreateMessageRequestParams] = []
        self._replies = replies

    async def __call__(
        self, request: CreateMessageRequestParams, *, model: str | None = None
    ) -> CreateMessageResult:
        self.requests.append(request)
        replies = self._replies or (_last_text(request),)
        words = replies[(len(self.requests) - 1) % len(replies)]
        return answered([text(words)], model or self.models[0], "endTurn")


def _last_text(request: CreateMessageRequestParams) -> str:
    said = [block for message in request.messages for block in blocks(message.content)]
    return next((block["text"] for block in reversed(said) if block["type"] == "text"), "")
