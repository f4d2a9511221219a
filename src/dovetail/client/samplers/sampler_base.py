"""The base of samplers: models, requests to a provider, and the choice among several samplers.

A sampler is an `on_sample` callback: it gets the request and returns a `CreateMessageResult`. Providers
implement two pure functions, `payload` and `read`, and a few names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, cast

import msgspec
from msgspec import Struct

from ...errors import ProtocolError, TransportError
from ...model import CreateMessageRequestParams, CreateMessageResult
from ..http_client import Fetch

SAMPLER_SECONDS: Final = 120.0
"""Seconds that a model has to respond to a sampling request."""


SAMPLER_ANSWER: Final = 16 << 20
"""Size limit of a provider's response in bytes."""

_REFUSED = {
    404: "model_not_available",
    408: "sampling_timeout",
    429: "sampling_rate_limited",
    504: "sampling_timeout",
}
"""Error kinds by HTTP status: OpenAI, Anthropic and Ollama answer 404 for an unknown model."""

Blocks = list[dict[str, Any]]


class Profile(Struct, frozen=True, kw_only=True):
    """The ranking of a model, each value from 0 to 1, to be matched against `modelPreferences`."""

    cheap: float = 0.5
    fast: float = 0.5
    clever: float = 0.5


class SamplerProvider(Protocol):
    """The interface that `Samplers` needs."""

    models: Sequence[str]
    profile: Profile
    supports_tools: bool

    async def __call__(
        self, request: CreateMessageRequestParams, *, model: str | None = None
    ) -> CreateMessageResult: ...


class Sampler:
    """One provider and its models; the first one is the default. ``http`` is as in `Client`."""

    supports_tools = False
    path = ""
    base_url = ""
    profile = Profile()
    stops: ClassVar[Mapping[str, Any]] = {}
    """Stop reasons of the provider, and their names in MCP."""
    choices: ClassVar[Mapping[str, Any]] = {}
    """Values of `toolChoice`, and their names at the provider."""

    def __init__(
        self,
        *models: str,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        profile: Profile | None = None,
        http: Any = None,
        timeout: float = SAMPLER_SECONDS,
    ) -> None:
        if not models:
            raise ValueError("name at least one model")
        self.models: Sequence[str] = models
        self.profile = profile or self.profile
        self._url = (base_url or self.base_url).rstrip("/") + self.path
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        self._http = http
        self._timeout = timeout

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        """Return the request for the provider."""
        raise NotImplementedError

    def read(self, answer: dict[str, Any]) -> tuple[Blocks, str | None]:
        """Return content blocks and stop reason of a response. May raise KeyError, IndexError or TypeError."""
        raise NotImplementedError

    def tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        """Return a tool in the format of the provider."""
        raise NotImplementedError

    async def __call__(
        self, request: CreateMessageRequestParams, *, model: str | None = None
    ) -> CreateMessageResult:
        model = model or choose(request, [self])[1]
        answer = await self._post(self.payload(model, request))
        try:
            content, stop = self.read(answer)
            return answered(content, answer.get("model") or model, self.stops.get(stop or "", "endTurn"))
        except (KeyError, IndexError, TypeError, msgspec.MsgspecError) as error:
            raise ProtocolError("sampling_failed", f"{type(self).__name__} gave no usable answer") from error

    def wishes(self, request: CreateMessageRequestParams, *, most: str, stop: str) -> dict[str, Any]:
        """Return the other parameters; ``most`` and ``stop`` are the provider's names of two of them."""
        found: dict[str, Any] = {most: request.max_tokens}
        if isinstance(request.temperature, int | float):
            found["temperature"] = request.temperature
        if request.stop_sequences:
            found[stop] = request.stop_sequences
        if request.tools and self.supports_tools:
            found["tools"] = [self.tool(msgspec.to_builtins(tool)) for tool in request.tools]
            if request.tool_choice:
                found["tool_choice"] = self.choices.get(str(request.tool_choice.mode), self.choices["auto"])
        return found

    async def _post(self, payload: dict[str, Any]) -> dict[str, Any]:
        name = type(self).__name__
        try:
            async with _fetch(self._http).session() as send:
                body = msgspec.json.encode(payload)
                response = await send("POST", self._url, self._headers, body, self._timeout)
                try:
                    body = await response.read(SAMPLER_ANSWER)
                finally:
                    response.close()
        except TransportError as error:
            late = error.cause == "timeout"
            text = f"{name} {'did not answer in time' if late else 'cannot be reached'}"
            raise ProtocolError("sampling_timeout" if late else "sampling_failed", text) from error
        if response.status >= 400:
            kind = _REFUSED.get(response.status, "sampling_failed")
            raise ProtocolError(kind, f"{name} answered HTTP {response.status}")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProtocolError("sampling_failed", f"{name} gave no usable answer in JSON") from error


class Mock:
    """A sampler without a model: it returns ``replies`` in turn, or echoes the request without replies."""

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
        said = [block for message in request.messages for block in blocks(message.content)]
        asked = next((block["text"] for block in reversed(said) if block["type"] == "text"), "")
        replies = self._replies or (asked,)
        words = replies[(len(self.requests) - 1) % len(replies)]
        return answered([text(words)], model or self.models[0], "endTurn")


class Samplers:
    """Several samplers as one callback.

    A hint is a model name or a part of it ("claude-3", "sonnet"); the first hint that matches a model
    decides. Without a match, each sampler is scored by the request's priorities and its `Profile`, and the
    best one is used.
    """

    def __init__(self, *samplers: Any) -> None:
        if not samplers:
            raise ValueError("name at least one sampler")
        self._samplers: Sequence[SamplerProvider] = samplers
        self.supports_tools = any(sampler.supports_tools for sampler in self._samplers)

    async def __call__(self, request: CreateMessageRequestParams) -> CreateMessageResult:
        sampler, model = choose(request, self._samplers)
        return await sampler(request, model=model)


def choose(
    request: CreateMessageRequestParams, samplers: Sequence[SamplerProvider]
) -> tuple[SamplerProvider, str]:
    """Return the sampler and its model for this request."""
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


def _fetch(http: Any) -> Fetch:
    if http is not None:
        from ...transports.http.client.adapters import fetch_with

        return fetch_with(http)
    from ...transports.http.client.connection_pool import (
        HttpFetch,  # imported when a sampler is first used
    )

    return HttpFetch()


def answered(content: Blocks, model: str, stop: str) -> CreateMessageResult:
    """Return the sampling result for these blocks."""
    block = content if len(content) != 1 else content[0]
    found = {"role": "assistant", "model": model, "stopReason": stop, "content": block}
    return msgspec.convert(found, CreateMessageResult)


def hints(request: CreateMessageRequestParams) -> list[str]:
    """Return the lower-case model hints of a request in order."""
    preferences = request.model_preferences
    return [hint.name.lower() for hint in (preferences.hints or ()) if hint.name] if preferences else []


def blocks(content: Any) -> Blocks:
    """Return the content of a sampling message as a list of dicts: one block and several are allowed."""
    found = cast("list[Any]", content) if isinstance(content, list) else [content]
    return [msgspec.to_builtins(block) for block in found]


def text(words: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words}
