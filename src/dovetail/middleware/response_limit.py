"""`ResponseLimit`: a result that is too large is given in pages of whole items; JSON is never cut.

The first items of a tool's result that fit are sent, and a link to the rest: a resource that this client alone can
read, for a while, again in pages. Items are the blocks of the content, or the entries of a list that is the structured
result.
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


class Rest(Struct, frozen=True):
    """What was left over: for whom, until when, which items."""

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
        if max_bytes < 2 * LINK_BYTES:
            raise ValueError(f"max_bytes is {2 * LINK_BYTES} bytes or more, not {max_bytes}")
        self._bytes, self._clock = max_bytes, clock
        self._rest: OrderedDict[str, Rest] = OrderedDict()
        self._size = 0

    def attach(self, service: Any) -> None:
        if not isinstance(service, Server):
            raise ValueError("a ResponseLimit belongs to a server")
        if "resources" not in service.capabilities:
            # The rest is read as one. With all that is declared with a resource: what is declared once stays so.
            service.add_capability("resources", {"subscribe": True, "listChanged": True})
        self._server = service

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        call, result = request.call, await call_next(request)
        if type(result) is Raw and len(bytes(result)) > self._bytes:
            result = call.codec.decode_result(_CALL, result)  # it came through a proxy as it was
        if type(result) is not CallToolResult or len(msgspec.json.encode(result)) <= self._bytes:
            return result
        entries = _entries(result.structured_content)
        if entries is not None:
            return self._list(call, result, entries)
        if result.structured_content is not UNSET and self._has_schema(call.params.name):
            text = f"the result of {call.params.name!r} is larger than {self._bytes} bytes: ask for less"
            return self._server.failures.of_tool(
                ProtocolError("tool_result_too_large", text), call.params.name, call
            )
        blocks = [msgspec.json.encode(block) for block in result.content]
        kept, rest = self._fitting(blocks)
        content = [*result.content[:kept], self._link(call, rest, len(blocks))]
        return replace(result, content=content, structured_content=UNSET)

    def _list(self, call: Call, result: CallToolResult, entries: list[Any]) -> CallToolResult:
        """A list keeps its first entries. They stand in the text as well, so they count twice."""
        items = [msgspec.json.encode(entry) for entry in entries]
        kept, rest = self._fitting(items, times=2)
        text = TextContent(msgspec.json.encode(entries[:kept]).decode())
        link = self._link(call, rest, len(items))
        wrapped = isinstance(result.structured_content, dict)
        shorter: Any = {"result": entries[:kept]} if wrapped else entries[:kept]
        return replace(result, content=[text, link], structured_content=shorter)

    def _has_schema(self, name: str) -> bool:
        """Whether its structured result may be missing; of the tools of other servers that is not known."""
        tool = self._server.tools.get(name)
        return tool is None or tool.definition.output_schema is not UNSET

    def _fitting(self, items: list[bytes], times: int = 1) -> tuple[int, list[bytes]]:
        left, kept = self._bytes - LINK_BYTES, 0
        for item in items:
            left -= times * (len(item) + 1)
            if left < 0:
                break
            kept += 1
        return kept, items[kept:]

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _link(self, call: Call, rest: list[bytes], whole: int) -> ResourceLink:
        uri = REST + secrets.token_urlsafe(18)
        size = sum(map(len, rest))
        self._rest[uri] = Rest(client_key(call), self._clock() + STORED_SECONDS, rest, size)
        self._size += size
        while len(self._rest) > STORED_RESULTS or self._size > CACHE_BYTES:
            self._forget(next(iter(self._rest)))
        text = f"{len(rest)} of {whole} items did not fit: read this resource for the next ones"
        return ResourceLink(uri=uri, name="rest", description=text, mime_type="application/json")

    def _forget(self, uri: str) -> None:
        found = self._rest.pop(uri, None)
        self._size -= 0 if found is None else found.size

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        call, uri = request.call, request.name
        address, _, start = uri.partition("?from=")
        found = self._rest.get(address)
        if found is None:  # a resource like any other, or what another budget keeps
            return await call_next(request)
        begin = int(start) if start.isdecimal() and len(start) < 10 else 0
        if found.owner != client_key(call) or not 0 < found.until - self._clock() <= STORED_SECONDS:
            raise ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})
        items = found.items[begin:]
        kept = self._fitting(items)[0]
        kept = max(kept, min(1, len(items)))  # one that never fits is given alone
        page: dict[str, Any] = {"items": [msgspec.Raw(item) for item in items[:kept]]}
        if len(items) > kept:
            page["next"] = f"{address}?from={begin + kept}"
        text = msgspec.json.encode(page).decode()
        contents = ResourceContents(uri, text=text, mime_type="application/json")
        return ReadResourceResult([contents], ttl_ms=0, cache_scope="private")


def _entries(structured: Any) -> list[Any] | None:
    """The list that a structured result is, or wraps."""
    if isinstance(structured, dict):
        members = cast("dict[str, Any]", structured)
        structured = members["result"] if members.keys() == {"result"} else None
    return cast("list[Any]", structured) if isinstance(structured, list) else None
