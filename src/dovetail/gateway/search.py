"""Tools that are found, not listed: ``search_tools`` and ``call_tool`` in place of hundreds.

The search covers the tools that the caller would otherwise see in the list, and ranks them with BM25 over the words of
their names, descriptions and arguments. A call of a tool that was found goes the way of every call.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call
from ..errors import RegistrationError, ToolError
from ..model import CallToolResult, TextContent, Tool
from .providers import CALL
from .selectors import Selection, Traits

if TYPE_CHECKING:
    from ..server.server import Server

SEARCHED_TEXT: Final = 4_000
"""Characters of a tool's words that are searched."""
SEARCH_RESULTS: Final = 50
"""Tools that one search finds at most."""
INDEXES_KEPT: Final = 16
"""Indexes of tools, for callers who see different ones."""


FIND: Final = "search_tools"

_K1: Final = 1.2
"""How soon a word that is said again counts no more."""
_B: Final = 0.75
"""How much longer texts count less."""
_NAME: Final = 3
"""A word of the name counts as if it were said so often."""
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS: Final = re.compile(r"[^\W_]+")


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
        return call.with_params(replace(call.params, name=named.name, arguments=arguments))


def _given(call: Call) -> bytes:
    arguments = call.params.arguments
    return b"{}" if arguments is UNSET else bytes(arguments)


def words(text: str) -> list[str]:
    """The words of a text or a name, in small letters, without the s of a plural."""
    found = (word.lower() for word in _WORDS.findall(_HUMPS.sub(" ", text)))
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    ]


def _texts(tool: Tool) -> Iterator[str]:
    """The name of a tool, its title, its description and its arguments."""
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
    """The words of some tools, ranked with BM25."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self._lengths: list[int] = []
        self._said: dict[str, list[tuple[int, int]]] = {}
        """By word: which tools say it, and how often."""
        for place, tool in enumerate(self.tools):
            counted = Counter(words("\n".join(_texts(tool))[:SEARCHED_TEXT]))
            for word in words(tool.name):
                counted[word] += _NAME - 1
            self._lengths.append(sum(counted.values()))
            for word, count in counted.items():
                self._said.setdefault(word, []).append((place, count))
        self._usual = sum(self._lengths) / max(1, len(self.tools))

    def best(self, query: str) -> list[Tool]:
        """The tools that say any word of ``query``, those first that are most likely meant."""
        scores: Counter[int] = Counter()
        for word in dict.fromkeys(words(query[:SEARCHED_TEXT])):
            for said in self._like(word):
                rarity = math.log(1 + (len(self.tools) - len(said) + 0.5) / (len(said) + 0.5))
                for place, count in said:
                    length = 1 - _B + _B * self._lengths[place] / self._usual
                    scores[place] += cast("int", rarity * count * (_K1 + 1) / (count + _K1 * length))
        return [self.tools[place] for place, _ in sorted(scores.items(), key=lambda one: (-one[1], one[0]))]

    def _like(self, word: str) -> list[list[tuple[int, int]]]:
        """Who says a word; where nobody does, who says one that begins with it."""
        found = self._said.get(word)
        if found is not None or len(word) < 3:
            return [] if found is None else [found]
        return [said for other, said in self._said.items() if other.startswith(word)]
