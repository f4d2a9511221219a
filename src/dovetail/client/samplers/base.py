"""What all samplers share: the models they offer, and one JSON request to a provider.

A sampler is an `on_sample` callback: await it with the request, get a `CreateMessageResult`. A provider differs in two
pure functions, `payload` and `result`; nothing else of it is worth a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from ...errors import ProtocolError, TransportError
from ...model import CreateMessageRequestParams, CreateMessageResult
from ...settings import SAMPLER_ANSWER, SAMPLER_SECONDS
from ..fetch import Fetch, json_headers

_REFUSED = {
    404: "model_not_available",
    408: "sampling_timeout",
    429: "sampling_rate_limited",
    504: "sampling_timeout",
}
"""What the providers say with a status: OpenAI, Anthropic and Ollama answer 404 for a model they do not have."""


class Profile(Struct, frozen=True, kw_only=True):
    """How a model ranks, each from 0 to 1: what `modelPreferences` is matched against."""

    cheap: float = 0.5
    fast: float = 0.5
    clever: float = 0.5


class Sampler:
    """One provider with the models it may use; the first one is the default."""

    supports_tools = False

    def __init__(
        self,
        *models: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        profile: Profile | None = None,
        fetch: Fetch | None = None,
        timeout: float = SAMPLER_SECONDS,
    ) -> None:
        if not models:
            raise ValueError("name at least one model")
        self.models: Sequence[str] = models
        self.profile = profile or Profile()
        self._base = base_url.rstrip("/")
        self._headers = dict(headers or {})
        self._fetch = fetch
        self._timeout = timeout

    path = ""

    def payload(self, model: str, request: CreateMessageRequestParams) -> dict[str, Any]:
        """The provider's request."""
        raise NotImplementedError

    def result(self, model: str, answer: dict[str, Any]) -> CreateMessageResult:
        """The provider's answer; raise KeyError, IndexError or TypeError when it is not one."""
        raise NotImplementedError

    async def __call__(
        self, request: CreateMessageRequestParams, *, model: str | None = None
    ) -> CreateMessageResult:
        model = model or self.match(request) or self.models[0]
        answer = await self._post(self.payload(model, request))
        try:
            return self.result(model, answer)
        except (KeyError, IndexError, TypeError, msgspec.MsgspecError) as error:
            raise ProtocolError("sampling_failed", f"{type(self).__name__} gave no usable answer") from error

    def match(self, request: CreateMessageRequestParams) -> str | None:
        """The first model that a hint names, hints in the order of the request."""
        for hint in hints(request):
            for model in self.models:
                if hint in model.lower():
                    return model
        return None

    async def _post(self, payload: dict[str, Any]) -> dict[str, Any]:
        fetch = self._fetch or _default_fetch()
        headers = json_headers(self._headers)
        try:
            async with fetch.session() as send:
                response = await send(
                    "POST", self._base + self.path, headers, msgspec.json.encode(payload), self._timeout
                )
                try:
                    body = await response.read(SAMPLER_ANSWER)
                finally:
                    response.close()
        except TransportError as error:
            late = error.cause == "timeout"
            text = f"{type(self).__name__} {'did not answer in time' if late else 'cannot be reached'}"
            raise ProtocolError("sampling_timeout" if late else "sampling_failed", text) from error
        if response.status >= 400:
            kind = _REFUSED.get(response.status, "sampling_failed")
            raise ProtocolError(kind, f"{type(self).__name__} answered HTTP {response.status}")
        try:
            answer = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProtocolError("sampling_failed", f"{type(self).__name__} did not answer in JSON") from error
        if not isinstance(answer, dict):
            raise ProtocolError("sampling_failed", f"{type(self).__name__} gave no usable answer")
        return cast("dict[str, Any]", answer)


def hints(request: CreateMessageRequestParams) -> list[str]:
    """The names a request hints at, lower case, in its order."""
    preferences = request.model_preferences
    if not preferences:
        return []
    return [hint.name.lower() for hint in (preferences.hints or ()) if hint.name]


def blocks(content: Any) -> list[Any]:
    """The content of a sampling message as a list: one block and several are both legal."""
    return cast("list[Any]", content) if isinstance(content, list) else [content]


def _default_fetch() -> Fetch:
    from ...transports.http.client.pool import HttpFetch  # loaded when a sampler is used the first time

    return HttpFetch()
