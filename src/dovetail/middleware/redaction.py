"""`Redaction`: remove secrets and personal data from everything that a server sends.

```python
Server("shop", middleware=[Redaction("secrets", "email", order=r"ORD-\\d{6}")])
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import ChannelWrapper
from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import DovetailError
from ..server import Server
from .sensitive_data import MASK, PERSONAL, SECRETS

_SETS: Final = {"secrets": SECRETS, "personal": PERSONAL}
_BINARY: Final[Mapping[str, str]] = {"image": "data", "audio": "data"}
"""Content block type: the member with base64 data."""
_OPAQUE: Final = frozenset({"requestState", "nextCursor", "taskId"})
"""Members of a result that the client returns unchanged."""


class Redaction(Middleware):
    """Replace secrets and personal data in everything that is sent while a call is served.

    Name "secrets", "personal", or single patterns of them ("email", "card", "iban", "phone", "jwt", "bearer",
    "api_key", "private_key"); add custom patterns as keyword arguments. The default is "secrets". It covers
    results of tools, resources and prompts, structured content, task results, log messages, progress, input
    requests and errors. Member names are unchanged, so the shape of a result stays. Binary data is unchanged:
    image and audio content, and the ``blob`` of a resource.

    Raises:
        ValueError: the pattern is unknown.
    """

    def __init__(self, *names: str, **patterns: str | re.Pattern[str]) -> None:
        """Set the patterns; without any, "secrets".

        Args:
            names: Predefined patterns: "secrets", "personal", or one of their members, such as "email".
            patterns: Regular expressions of your own, by name.
        """
        self._patterns: dict[str, re.Pattern[str]] = {}
        for name in names or (() if patterns else ("secrets",)):
            found = _SETS.get(name) or {
                one: group[one] for group in _SETS.values() for one in group if one == name
            }
            if not found:
                raise ValueError(f"unknown pattern {name!r}; use {', '.join((*_SETS, *SECRETS, *PERSONAL))}")
            self._patterns.update(found)
        self._patterns.update({name: re.compile(pattern) for name, pattern in patterns.items()})
        self.masked: dict[str, int] = {}
        """How often each pattern matched."""
        self._on_server = False

    def attach(self, service: Any) -> None:
        self._on_server = isinstance(service, Server)

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        try:
            return await call_next(request)
        except DovetailError as error:
            self._clean_error(error)
            raise

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        return await self._redacted(request, call_next, self._tool_result)

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        return await self._redacted(request, call_next, self._contents)

    async def get_prompt(self, request: Request, call_next: Next) -> Struct | Raw:
        return await self._redacted(request, call_next, self._prompt)

    async def complete(self, request: Request, call_next: Next) -> Struct | Raw:
        return await self._redacted(request, call_next, self._members)

    async def _redacted(
        self, request: Request, call_next: Next, clean: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Struct | Raw:
        channel = request.channel
        if self._on_server:
            asking = None if channel.asking is None else _RedactedInput(channel.asking, self.cleaned)
            request = replace(request, channel=_RedactedChannel(channel, asking, self.cleaned))
        result = await call_next(request)
        plain: Any = msgspec.json.decode(result) if isinstance(result, Raw) else msgspec.to_builtins(result)
        changed = clean(plain)
        if changed == plain:
            return result
        return (
            Raw(msgspec.json.encode(changed))
            if isinstance(result, Raw)
            else msgspec.convert(changed, type(result))
        )

    def cleaned(self, params: Struct | None) -> Any:
        """Return the redacted params of a notification or request."""
        if params is None:
            return None
        plain: Any = msgspec.to_builtins(params)
        changed = self._clean(plain)
        return params if changed == plain else msgspec.convert(changed, type(params))

    # --- by type --------------------------------------------------------------------------------------------

    def _tool_result(self, result: dict[str, Any]) -> dict[str, Any]:
        return self._members(result, content=lambda blocks: [self._block(one) for one in blocks])

    def _prompt(self, result: dict[str, Any]) -> dict[str, Any]:
        def message(one: dict[str, Any]) -> dict[str, Any]:
            return {**one, "content": self._block(one["content"])}

        return self._members(result, messages=lambda messages: [message(one) for one in messages])

    def _contents(self, result: dict[str, Any]) -> dict[str, Any]:
        return self._members(result, contents=lambda found: [self._resource(one) for one in found])

    def _members(self, result: dict[str, Any], **typed: Callable[[Any], Any]) -> dict[str, Any]:
        """Redact a result. ``typed`` redacts members that contain content."""
        return {
            name: value if name in _OPAQUE else typed[name](value) if name in typed else self._clean(value)
            for name, value in result.items()
        }

    def _block(self, block: dict[str, Any]) -> dict[str, Any]:
        """Redact a content block. The data of an image or audio block is base64 and stays."""
        kind = block.get("type")
        binary = _BINARY.get(cast("str", kind))
        if kind == "resource" and isinstance(block.get("resource"), dict):
            return {**self._clean(block), "type": kind, "resource": self._resource(block["resource"])}
        return {
            name: value if name in (binary, "type") else self._clean(value) for name, value in block.items()
        }

    def _resource(self, contents: dict[str, Any]) -> dict[str, Any]:
        """Redact the contents of a resource. Its blob is base64 and stays."""
        return {name: value if name == "blob" else self._clean(value) for name, value in contents.items()}

    def _clean(self, value: Any) -> Any:
        """Redact every string in JSON data."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self._clean(one) for key, one in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [self._clean(one) for one in cast("list[Any]", value)]
        return value

    def _text(self, text: str) -> str:
        for name, pattern in self._patterns.items():
            text, count = pattern.subn(MASK, text)
            if count:
                self.masked[name] = self.masked.get(name, 0) + count
        return text

    def _clean_error(self, error: DovetailError) -> None:
        error.message = self._text(error.message)
        data: Any = getattr(error, "data", UNSET)
        if data is not UNSET:
            cast("Any", error).data = self._clean(msgspec.to_builtins(data))


class _RedactedChannel(ChannelWrapper, eq=False):
    """The channel of a call that redacts what is sent on it."""

    clean: Callable[[Struct | None], Any]

    def notify(self, method: str, params: Struct | None) -> None:
        self.channel.notify(method, self.clean(params))

    async def request(self, method: str, params: Struct) -> Any:
        return await self.channel.request(method, self.clean(params))


class _RedactedInput:
    """The input requests of a task's handler, redacted before they are sent."""

    def __init__(self, asking: Any, clean: Callable[[Struct | None], Any]) -> None:
        self._asking, self._clean_params = asking, clean

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asking, name)

    def _cleaned(self, question: Any) -> Any:
        return question.rewritten(self._clean_params)

    async def ask(self, questions: Sequence[Any]) -> list[Any]:
        return await self._asking.ask([self._cleaned(one) for one in questions])

    def ask_one(self, question: Any) -> Coroutine[Any, Any, Any]:
        return self._asking.ask_one(self._cleaned(question))
