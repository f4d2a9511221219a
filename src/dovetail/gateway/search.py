"""Tool search: ``search_tools`` and ``call_tool`` replace a long tool list.

The search covers the tools that the caller could list. It ranks them with BM25 over the words of their names,
descriptions and arguments. A found tool is called like any other.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call
from ..errors import RegistrationError, ToolError
from ..model import CallToolResult, TextContent, Tool
from ..server.server import Server
from .providers import CALL
from .selectors import Selection, Traits

SEARCHED_TEXT: Final = 4_000
"""Characters of a tool's text that are indexed."""
SEARCH_RESULTS: Final = 50
"""Tools in one search result."""
INDEXES_KEPT: Final = 16
"""Search indexes, for callers with different tools."""


FIND: Final = "search_tools"

_K1: Final = 1.2
"""BM25 k1: saturation of repeated words."""
_B: Final = 0.75
"""BM25 b: penalty for long texts."""
_NAME: Final = 3
"""Weight of a word in the name."""
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS: Final = re.compile(r"[^\W_]+")


class SearchArguments(Struct, forbid_unknown_fields=True):
    """The arguments of ``search_tools``."""

    query: str = ""
    limit: int | None = None


class CallArguments(Struct, forbid_unknown_fields=True):
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
    """The two search tools of one server, and the tools that are always listed."""

    names: Final = frozenset({FIND, CALL})

    def __init__(self, server: Server, always: Iterable[str], limit: int) -> None:
        if not 1 <= limit <= SEARCH_RESULTS:
            raise RegistrationError(f"the search limit must be 1 to {SEARCH_RESULTS}, not {limit}")
        for name in self.names & server.registry.tools.entries.keys():
            raise RegistrationError(
                f"the search needs the tool name {name!r}, which is already registered; rename that tool"
            )
        self._server, self._limit = server, limit
        self._always = Selection(always)
        self._tools = _definitions(limit)
        self._indexes: OrderedDict[int, Index] = OrderedDict()

    def listed(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools that are listed."""
        shown = [
            tool
            for tool in tools
            if tool.name not in self.names and self._always.has(tool.name, Traits.of(tool))
        ]
        return [*shown, *self._tools]

    async def find(self, call: Call, tools: Sequence[Tool]) -> CallToolResult:
        """Run ``search_tools`` on ``tools``."""
        try:
            wish = msgspec.json.decode(_given(call), type=SearchArguments)
            limit = min(max(wish.limit or self._limit, 1), SEARCH_RESULTS)
        except msgspec.ValidationError as error:
            return self._server.dispatcher.failures.of_tool(ToolError(str(error)), FIND, call)
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
        """Return the tool call inside ``call_tool``, or an error result."""
        try:
            named = msgspec.json.decode(_given(call), type=CallArguments)
        except msgspec.ValidationError as error:
            return self._server.dispatcher.failures.of_tool(ToolError(str(error)), CALL, call)
        if named.name in self.names:
            return self._server.dispatcher.failures.of_tool(
                ToolError(f"{named.name} cannot be called with {CALL}"), CALL, call
            )
        arguments = UNSET if bytes(named.arguments) == b"null" else Raw(bytes(named.arguments))
        return call.with_params(replace(call.params, name=named.name, arguments=arguments))


def _given(call: Call) -> bytes:
    arguments = call.params.arguments
    return b"{}" if arguments is UNSET else bytes(arguments)


def words(text: str) -> list[str]:
    """Split a text or a name into lower-case words without plural s."""
    found = (word.lower() for word in _WORDS.findall(_HUMPS.sub(" ", text)))
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    ]


def _texts(tool: Tool) -> Iterator[str]:
    """Yield the name, title, description and arguments of a tool."""
    yield tool.name
    for text in (tool.title, tool.description):
        if isinstance(text, str):
            yield text
    members: Any = tool.input_schema.get("properties")
    for name, schema in cast("Mapping[str, Any]", members).items() if isinstance(members, Mapping) else ():
        yield name
        said: Any = (
            cast("Mapping[str, Any]", schema).get("description") if isinstance(schema, Mapping) else None
        )
        if isinstance(said, str):
            yield said


class Index:
    """A BM25 index of tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self._lengths: list[int] = []
        self._said: dict[str, list[tuple[int, int]]] = {}
        """By word: the tools that contain it, and how often."""
        for place, tool in enumerate(self.tools):
            counted = Counter(words("\n".join(_texts(tool))[:SEARCHED_TEXT]))
            for word in words(tool.name):
                counted[word] += _NAME - 1
            self._lengths.append(sum(counted.values()))
            for word, count in counted.items():
                self._said.setdefault(word, []).append((place, count))
        self._usual = sum(self._lengths) / max(1, len(self.tools))

    def best(self, query: str) -> list[Tool]:
        """Return the tools that contain a word of ``query``, best match first."""
        scores: Counter[int] = Counter()
        for word in dict.fromkeys(words(query[:SEARCHED_TEXT])):
            for said in self._like(word):
                rarity = math.log(1 + (len(self.tools) - len(said) + 0.5) / (len(said) + 0.5))
                for place, count in said:
                    length = 1 - _B + _B * self._lengths[place] / self._usual
                    scores[place] += cast("int", rarity * count * (_K1 + 1) / (count + _K1 * length))
        return [self.tools[place] for place, _ in sorted(scores.items(), key=lambda one: (-one[1], one[0]))]

    def _like(self, word: str) -> list[list[tuple[int, int]]]:
        """Return the entries of a word or, without any, of words that start with it."""
        found = self._said.get(word)
        if found is not None or len(word) < 3:
            return [] if found is None else [found]
        return [said for other, said in self._said.items() if other.startswith(word)]
