"""Tools that are found, not listed: ``search_tools`` and ``call_tool`` in place of hundreds.

What is searched is what the caller would be shown otherwise, so nobody finds what they may not call; and a call goes
the way of every call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call
from ..errors import RegistrationError, ToolError
from ..model import CallToolResult, TextContent, Tool
from .bounds import INDEXES_KEPT, SEARCH_RESULTS
from .ranking import Index
from .selecting import Selection, Traits

if TYPE_CHECKING:
    from ..server.server import Server

FIND: Final = "search_tools"
CALL: Final = "call_tool"


class Wish(Struct, forbid_unknown_fields=True):
    """The arguments of ``search_tools``."""

    query: str = ""
    limit: int | None = None


class Named(Struct, forbid_unknown_fields=True):
    """The arguments of ``call_tool``."""

    name: str
    arguments: Raw = Raw(b"null")


def _definitions(limit: int) -> tuple[Tool, Tool]:
    text: dict[str, Any] = {"type": "string"}
    find = Tool(
        FIND,
        {
            "type": "object",
            "properties": {
                "query": {**text, "description": "What you want to do, in a few words."},
                "limit": {"type": "integer", "minimum": 1, "maximum": SEARCH_RESULTS, "default": limit},
            },
            "additionalProperties": False,
        },
        description="Find tools: most of them are not listed. Call what you find with call_tool.",
        annotations={"readOnlyHint": True, "idempotentHint": True},
    )
    call = Tool(
        CALL,
        {
            "type": "object",
            "properties": {
                "name": {**text, "description": "The name of a tool that search_tools found."},
                "arguments": {"type": "object", "description": "Its arguments, as its inputSchema has them."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        description="Call a tool that search_tools found.",
    )
    return find, call


class Search:
    """The two tools of one server, and what is listed beside them."""

    names: Final = frozenset({FIND, CALL})

    def __init__(self, server: Server, always: Iterable[str], limit: int) -> None:
        if not 1 <= limit <= SEARCH_RESULTS:
            raise RegistrationError(f"a search finds 1 to {SEARCH_RESULTS} tools, not {limit}")
        for name in self.names & server.register.tools.entries.keys():
            raise RegistrationError(f"the tool {name!r} is registered already: rename it to search for tools")
        self._server, self._limit = server, limit
        self._always = Selection(always)
        self._tools = _definitions(limit)
        self._indexes: OrderedDict[int, Index] = OrderedDict()

    def listed(self, tools: Sequence[Tool]) -> list[Tool]:
        """What the list shows of these."""
        shown = [
            tool
            for tool in tools
            if tool.name not in self.names and self._always.has(tool.name, Traits.of(tool))
        ]
        return [*shown, *self._tools]

    async def find(self, call: Call, tools: Sequence[Tool]) -> CallToolResult:
        """``search_tools`` among ``tools``."""
        try:
            wish = msgspec.json.decode(_given(call), type=Wish)
            limit = min(max(wish.limit or self._limit, 1), SEARCH_RESULTS)
        except msgspec.ValidationError as error:
            return self._server.failures.of_tool(ToolError(str(error)), FIND, call)
        found = self._index(tools).best(wish.query) if wish.query else tools
        shown = [
            {"name": tool.name, "description": tool.description or "", "inputSchema": tool.input_schema}
            for tool in found[:limit]
        ]
        result: dict[str, Any] = {"tools": shown, "found": len(found)}
        return CallToolResult([TextContent(msgspec.json.encode(result).decode())], structured_content=result)

    def _index(self, tools: Sequence[Tool]) -> Index:
        index = self._indexes.get(id(tools))
        if index is None or index.tools is not tools:
            index = Index(tools)
            self._indexes[id(tools)] = index
            if len(self._indexes) > INDEXES_KEPT:
                self._indexes.popitem(last=False)
        return index

    def unwrapped(self, call: Call) -> Call | CallToolResult:
        """The call that ``call_tool`` stands for; or what is wrong with it."""
        try:
            named = msgspec.json.decode(_given(call), type=Named)
        except msgspec.ValidationError as error:
            return self._server.failures.of_tool(ToolError(str(error)), CALL, call)
        if named.name in self.names:
            return self._server.failures.of_tool(
                ToolError(f"{named.name} cannot be called with {CALL}"), CALL, call
            )
        arguments = UNSET if bytes(named.arguments) == b"null" else Raw(bytes(named.arguments))
        return call.instead(replace(call.params, name=named.name, arguments=arguments))


def _given(call: Call) -> bytes:
    arguments = call.params.arguments
    return b"{}" if arguments is UNSET else bytes(arguments)
