"""`Caching`: cache results of read-only tools and resources per client."""

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
from ..settings import check_kinds
from ..settings.parameter_kinds import CLOCK, NAMES, SECONDS, WHOLE, or_none
from ..stores.quotas import client_key
from .call_outcome import of_result

CACHE_ENTRIES: Final = 1024
"""Responses that are cached."""
CACHE_BYTES: Final = 64 << 20
"""Bytes of cached responses."""


_Key = tuple[Hashable, str, tuple[str, bytes], str, bytes, frozenset[str]]
"""Cache key: client, method, component and arguments, client capabilities, and scopes."""


class _InputTracking(ChannelWrapper):
    """Records whether the call needed input from the client."""

    input_requested: bool = False

    async def request(self, method: str, params: Struct) -> Any:
        self.input_requested = True
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
        check_kinds(
            {
                "ttl": SECONDS,
                "tools": or_none(NAMES),
                "max_entries": WHOLE,
                "max_bytes": WHOLE,
                "clock": CLOCK,
            },
            locals(),
        )
        if ttl <= 0:
            raise ValueError(f"ttl must be more than 0 seconds, not {ttl}")
        self._ttl, self._most, self._size, self._clock = ttl, max_entries, max_bytes, clock
        self._tools = None if tools is None else frozenset(tools)
        self._entries: OrderedDict[_Key, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._server: Server | None = None
        self.hits = self.misses = 0

    def attach(self, service: Any) -> None:
        self._server = service if isinstance(service, Server) else None
        if (
            self._server is not None
            and self._invalidate not in self._server.subscriptions.hub.on_resource_updated
        ):
            self._server.subscriptions.hub.on_resource_updated.append(self._invalidate)

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        return [
            ("dovetail_cache_hits_total", (), self.hits),
            ("dovetail_cache_misses_total", (), self.misses),
        ]

    def __len__(self) -> int:
        return len(self._entries)

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        params = request.params
        if _is_answer(params) or not self._is_cacheable(request):
            return await call_next(request)
        given = b"{}" if params.arguments is UNSET else bytes(params.arguments)
        try:  # argument order does not matter
            given = msgspec.json.encode(msgspec.json.decode(given), order="sorted")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return await call_next(request)
        what = (joined(params.name, asked_for(request.meta)), given)
        return await self._cached(what, CallToolResult, request, call_next)

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        if _is_answer(request.params):
            return await call_next(request)
        return await self._cached((request.name, b""), ReadResourceResult, request, call_next)

    async def _cached(
        self, what: tuple[str, bytes], kind: type[Struct], request: Request, call_next: Next
    ) -> Struct | Raw:
        call, channel = request.call, request.channel
        if request.run is not None or not self._is_permitted(request):
            return await call_next(request)  # refused, or not answered by a handler
        # The answer may depend on what the handler sees of the client: the revision and capabilities are part
        # of the key.
        said = msgspec.json.encode(call.capabilities, order="sorted")
        scopes = frozenset[str]() if call.principal is None else call.principal.scopes
        key = (client_key(call), call.method, what, call.revision.name, said, scopes)
        found = self._entries.get(key)
        if found is not None and 0 <= found[0] - self._clock() <= self._ttl:
            self.hits += 1
            self._entries.move_to_end(key)
            return msgspec.json.decode(found[1], type=kind)
        self.misses += 1
        watched = _InputTracking(channel, channel.asking)
        result = await call_next(replace(request, channel=watched))
        asked = watched.input_requested or call.scope.get("asked")
        if type(result) is kind and not asked and of_result(result) == "ok":
            self._store(key, result)
        return result

    def _is_permitted(self, request: Request) -> bool:
        """Return whether the caller may use the component now: permissions may have changed since it was
        cached.
        """
        server, call = self._server, request.call
        if server is None:
            return True
        if call.method == "tools/call":
            entry = server.registry.tools.get(call.params.name)
            rights = () if entry is None else entry.rights
        else:
            rights = server.dispatcher.pipeline.rights_to(request.name)
        return not rights or visible(rights, call.principal)

    def _store(self, key: _Key, result: Struct | Raw) -> None:
        data = msgspec.json.encode(result)
        self._evict(key)
        self._entries[key] = (self._clock() + self._ttl, data)
        self._bytes += len(data)
        while len(self._entries) > self._most or self._bytes > self._size:
            self._evict(next(iter(self._entries)))

    def _invalidate(self, uri: str) -> None:
        """Remove a changed resource from the cache."""
        for key in [key for key in self._entries if key[1:3] == ("resources/read", (uri, b""))]:
            self._evict(key)

    def _evict(self, key: _Key) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self._bytes -= len(found[1])

    def _is_cacheable(self, request: Request) -> bool:
        if self._tools is not None:
            return request.name in self._tools
        definition = request.component.definition
        notes = UNSET if definition is None else definition.annotations
        return notes is not UNSET and notes.get("readOnlyHint") is True


def _is_answer(params: Any) -> bool:
    return params.request_state is not UNSET or params.input_responses is not UNSET
