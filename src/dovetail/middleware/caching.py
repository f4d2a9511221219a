"""`Caching`: what a read-only tool said to the same client about the same arguments, for a while."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import ChannelWrapper
from ..core.rights import visible
from ..drivers.middleware_chain import Middleware, Next, Request
from ..model import CallToolResult, ReadResourceResult
from ..server import Server
from ..server.registry.tool_versions import asked_for, joined
from ..stores.quotas import client_key
from .call_outcome import of_result

CACHE_ENTRIES: Final = 1024
"""Responses that are cached."""
CACHE_BYTES: Final = 64 << 20
"""Bytes of cached responses."""


_Key = tuple[Hashable, str, tuple[str, bytes], str, bytes, frozenset[str]]
"""The client, the method, what it is about, what the handler can see of the client, and its scopes."""


class _Watched(ChannelWrapper):
    """Takes note of whether the client was asked something."""

    asked: bool = False

    async def request(self, method: str, params: Struct) -> Any:
        self.asked = True
        return await self.channel.request(method, params)


class Caching(Middleware):
    """Cache results of tools and contents of resources, for each principal.

    A cached resource is removed when the server reports that it has changed. Results that failed or that needed input
    of the client are not cached.
    """

    def __init__(
        self,
        ttl: float,
        *,
        tools: Collection[str] | None = None,
        max_entries: int = CACHE_ENTRIES,
        max_bytes: int = CACHE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set what to cache and for how long.

        Args:
            ttl: Seconds for which a result is cached.
            tools: Names of the tools to cache; by default the tools that are declared read-only.
            max_entries: Results in the cache; the oldest is removed to make room.
            max_bytes: Bytes in the cache; the oldest results are removed to make room.
        """
        if ttl <= 0:
            raise ValueError(f"a time to live is more than 0 seconds, not {ttl}")
        self._ttl, self._most, self._size, self._clock = ttl, max_entries, max_bytes, clock
        self._tools = None if tools is None else frozenset(tools)
        self._kept: OrderedDict[_Key, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._server: Server | None = None
        self.hits = self.misses = 0

    def attach(self, service: Any) -> None:
        self._server = service if isinstance(service, Server) else None
        if self._server is not None and self._forget not in self._server.hub.on_resource_updated:
            self._server.hub.on_resource_updated.append(self._forget)

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        return [
            ("dovetail_cache_hits_total", (), self.hits),
            ("dovetail_cache_misses_total", (), self.misses),
        ]

    def __len__(self) -> int:
        return len(self._kept)

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        params = request.params
        if _is_answer(params) or not self._is_kept(request):
            return await call_next(request)
        given = b"{}" if params.arguments is UNSET else bytes(params.arguments)
        try:  # the same arguments in another order are the same
            given = msgspec.json.encode(msgspec.json.decode(given), order="sorted")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return await call_next(request)
        what = (joined(params.name, asked_for(request.meta)), given)
        return await self._answer(what, CallToolResult, request, call_next)

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        if _is_answer(request.params):
            return await call_next(request)
        return await self._answer((request.name, b""), ReadResourceResult, request, call_next)

    async def _answer(
        self, what: tuple[str, bytes], kind: type[Struct], request: Request, call_next: Next
    ) -> Struct | Raw:
        call, channel = request.call, request.channel
        if request.run is not None or not self._may(request):
            return await call_next(request)  # it is refused, or answered by no handler
        # What a handler can see of a client may change its answer: revision and capabilities are part of the key.
        said = msgspec.json.encode(call.capabilities, order="sorted")
        scopes = frozenset[str]() if call.principal is None else call.principal.scopes
        key = (client_key(call), call.method, what, call.revision.name, said, scopes)
        found = self._kept.get(key)
        if found is not None and 0 <= found[0] - self._clock() <= self._ttl:
            self.hits += 1
            self._kept.move_to_end(key)
            return msgspec.json.decode(found[1], type=kind)
        self.misses += 1
        watched = _Watched(channel, channel.asking)
        result = await call_next(replace(request, channel=watched))
        asked = watched.asked or call.scope.get("asked")
        if type(result) is kind and not asked and of_result(result) == "ok":
            self._keep(key, result)
        return result

    def _may(self, request: Request) -> bool:
        """Whether the caller may use the component now: what was answered before they lost a right is not repeated."""
        server, call = self._server, request.call
        if server is None:
            return True
        if call.method == "tools/call":
            entry = server.tools.get(call.params.name)
            rights = () if entry is None else entry.rights
        else:
            rights = server.pipeline.rights_to(request.name)
        return not rights or visible(rights, call.principal)

    def _keep(self, key: _Key, result: Struct | Raw) -> None:
        data = msgspec.json.encode(result)
        self._drop(key)
        self._kept[key] = (self._clock() + self._ttl, data)
        self._bytes += len(data)
        while len(self._kept) > self._most or self._bytes > self._size:
            self._drop(next(iter(self._kept)))

    def _forget(self, uri: str) -> None:
        """A resource has changed: whoever reads it now reads it anew."""
        for key in [key for key in self._kept if key[1:3] == ("resources/read", (uri, b""))]:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= len(found[1])

    def _is_kept(self, request: Request) -> bool:
        if self._tools is not None:
            return request.name in self._tools
        definition = request.component.definition
        notes = UNSET if definition is None else definition.annotations
        return notes is not UNSET and notes.get("readOnlyHint") is True


def _is_answer(params: Any) -> bool:
    return params.request_state is not UNSET or params.input_responses is not UNSET
