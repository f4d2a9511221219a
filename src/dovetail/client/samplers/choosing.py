"""Choosing among several samplers: hints first, in their order, then the priorities.

A hint is a name or a part of one ("claude-3", "sonnet"); the first hint that any model answers to decides. Without
one, each sampler is scored by the request's priorities against its `Profile`, and the best one is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...model import CreateMessageRequestParams, CreateMessageResult
from .base import Profile, hints


class Provider(Protocol):
    """What `Samplers` needs of a sampler."""

    models: Sequence[str]
    profile: Profile
    supports_tools: bool

    async def __call__(
        self, request: CreateMessageRequestParams, *, model: str | None = None
    ) -> CreateMessageResult: ...


class Samplers:
    """Several samplers as one callback."""

    def __init__(self, *samplers: Any) -> None:
        if not samplers:
            raise ValueError("name at least one sampler")
        self._samplers: Sequence[Provider] = samplers
        self.supports_tools = any(sampler.supports_tools for sampler in self._samplers)

    async def __call__(self, request: CreateMessageRequestParams) -> CreateMessageResult:
        sampler, model = choose(request, self._samplers)
        return await sampler(request, model=model)


def choose(request: CreateMessageRequestParams, samplers: Sequence[Provider]) -> tuple[Provider, str]:
    """The sampler and its model for this request."""
    able = [s for s in samplers if s.supports_tools] if request.tools else list(samplers)
    able = able or list(samplers)
    for hint in hints(request):
        for sampler in able:
            if model := next((one for one in sampler.models if hint in one.lower()), None):
                return sampler, model
    best = max(able, key=lambda sampler: _score(request, sampler.profile))
    return best, best.models[0]


def _score(request: CreateMessageRequestParams, profile: Profile) -> float:
    preferences = request.model_preferences
    if not preferences:
        return 0.0
    wishes = (
        (preferences.cost_priority, profile.cheap),
        (preferences.speed_priority, profile.fast),
        (preferences.intelligence_priority, profile.clever),
    )
    return sum(wish * have for wish, have in wishes if isinstance(wish, int | float))
