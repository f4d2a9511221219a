"""`ResponseLimit`: split a large result into pages of whole items.

The result contains the first items that fit, and a link to the remainder: a temporary resource that only this
client can read, in pages as well. Items are content blocks, or the entries of a list in the structured
result. JSON is never truncated.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call
from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import URI_ECHO, ProtocolError
from ..model import CallToolResult, ReadResourceResult, ResourceContents, ResourceLink, TextContent
from ..server import Server
from ..settings import check_kinds
from ..settings.parameter_kinds import CLOCK, WHOLE
from ..stores.quotas import client_key
from ..wire.methods import METHODS
from .caching import CACHE_BYTES

STORED_RESULTS: Final = 1000
"""Results whose rest is stored."""
STORED_SECONDS: Final = 3600.0
"""Seconds for which the rest of a result is stored."""
LINK_BYTES: Final = 300
"""Bytes that the link to the rest may take."""


_CALL: Final = METHODS["tools/call"]
REST: Final = "dovetail://rest/"


class Remainder(Struct, frozen=True):
    """The remainder of a result: its owner, its expiry, and the items."""

    owner: Hashable
    until: float
    items: list[bytes]
    size: int


class ResponseLimit(Middleware):
    """Keep results of tools below ``max_bytes``. Belongs to a server."""

    def __init__(self, max_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the limit.

        Args:
            max_bytes: The largest result of a tool, in bytes. The rest of a longer result is served as a
                resource.
        """
        check_kinds(
            {
                "max_bytes": WHOLE,
                "clock": CLOCK,
            },
            locals(),
        )
        if max_bytes < 2 * LINK_BYTES:
            raise ValueError(f"max_bytes must be at least {2 * LINK_BYTES}, not {max_bytes}")
        self._bytes, self._clock = max_bytes, clock
        self._remainders: OrderedDict[str, Remainder] = OrderedDict()
        self._size = 0

    def attach(self, service: Any) -> None:
        if not isinstance(service, Server):
            raise ValueError("ResponseLimit works on servers only")
        if "resources" not in service.dispatcher.capabilities:
            # The remainder is read as a resource, so the server declares the resources capability from the
            # start.
            service.dispatcher.add_capability("resources", {"subscribe": True, "listChanged": True})
        self._server = service

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        call, result = request.call, await call_next(request)
        if type(result) is Raw and len(bytes(result)) > self._bytes:
            result = call.codec.decode_result(_CALL, result)  # a proxy forwarded it undecoded
        if type(result) is not CallToolResult or len(msgspec.json.encode(result)) <= self._bytes:
            return result
        entries = _entries(result.structured_content)
        if entries is not None:
            return self._list(call, result, entries)
        if result.structured_content is not UNSET and self._has_schema(call.params.name):
            text = f"the result of {call.params.name!r} exceeds {self._bytes} bytes; request less data"
            return self._server.dispatcher.failures.of_tool(
                ProtocolError("tool_result_too_large", text), call.params.name, call
            )
        blocks = [msgspec.json.encode(block) for block in result.content]
        kept, rest = self._fitting(blocks)
        content = [*result.content[:kept], self._link(call, rest, len(blocks))]
        return replace(result, content=content, structured_content=UNSET)

    def _list(self, call: Call, result: CallToolResult, entries: list[Any]) -> CallToolResult:
        """Keep the first entries of a list. They are repeated in the text content, so they count twice."""
        items = [msgspec.json.encode(entry) for entry in entries]
        kept, rest = self._fitting(items, times=2)
        text = TextContent(msgspec.json.encode(entries[:kept]).decode())
        link = self._link(call, rest, len(items))
        wrapped = isinstance(result.structured_content, dict)
        shorter: Any = {"result": entries[:kept]} if wrapped else entries[:kept]
        return replace(result, content=[text, link], structured_content=shorter)

    def _has_schema(self, name: str) -> bool:
        """Return whether the tool has an output schema. Unknown for tools of other servers."""
        tool = self._server.registry.tools.get(name)
        return tool is None or tool.definition.output_schema is not UNSET

    def _fitting(self, items: list[bytes], times: int = 1) -> tuple[int, list[bytes]]:
        left, kept = self._bytes - LINK_BYTES, 0
        for item in items:
            left -= times * (len(item) + 1)
            if left < 0:
                break
            kept += 1
        return kept, items[kept:]

    # --- remainder
    # ----------------------------------------------------------------------------------------------------

    def _link(self, call: Call, rest: list[bytes], whole: int) -> ResourceLink:
        uri = REST + secrets.token_urlsafe(18)
        size = sum(map(len, rest))
        self._remainders[uri] = Remainder(client_key(call), self._clock() + STORED_SECONDS, rest, size)
        self._size += size
        while len(self._remainders) > STORED_RESULTS or self._size > CACHE_BYTES:
            self._remove_page(next(iter(self._remainders)))
        text = f"{len(rest)} of {whole} items did not fit; read this resource for the others"
        return ResourceLink(uri=uri, name="rest", description=text, mime_type="application/json")

    def _remove_page(self, uri: str) -> None:
        found = self._remainders.pop(uri, None)
        self._size -= 0 if found is None else found.size

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        call, uri = request.call, request.name
        address, _, start = uri.partition("?from=")
        found = self._remainders.get(address)
        if found is None:  # an ordinary resource, or a remainder of another ResponseLimit
            return await call_next(request)
        begin = int(start) if start.isdecimal() and len(start) < 10 else 0
        if found.owner != client_key(call) or not 0 < found.until - self._clock() <= STORED_SECONDS:
            raise ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})
        items = found.items[begin:]
        kept = self._fitting(items)[0]
        kept = max(kept, min(1, len(items)))  # an item that never fits is sent as the only one
        page: dict[str, Any] = {"items": [msgspec.Raw(item) for item in items[:kept]]}
        if len(items) > kept:
            page["next"] = f"{address}?from={begin + kept}"
        text = msgspec.json.encode(page).decode()
        contents = ResourceContents(uri, text=text, mime_type="application/json")
        return ReadResourceResult([contents], ttl_ms=0, cache_scope="private")


def _entries(structured: Any) -> list[Any] | None:
    """Return the list in a structured result: the result itself, or its single member."""
    if isinstance(structured, dict):
        members = cast("dict[str, Any]", structured)
        structured = members["result"] if members.keys() == {"result"} else None
    return cast("list[Any]", structured) if isinstance(structured, list) else None
