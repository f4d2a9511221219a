"""Which tools a few words mean: BM25 over the words of their names, descriptions and arguments."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from ..model import Tool
from .bounds import SEARCHED_TEXT

_K1: Final = 1.2
"""How soon a word that is said again counts no more."""
_B: Final = 0.75
"""How much longer texts count less."""
_NAME: Final = 3
"""A word of the name counts as if it were said so often."""
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS: Final = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a text or a name, in small letters, without the s of a plural."""
    found = (word.lower() for word in _WORDS.findall(_HUMPS.sub(" ", text)))
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    ]


def texts(tool: Tool) -> Iterator[str]:
    """All that is said of a tool: its name first, then its title, description and arguments."""
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


def whole_text(tool: Tool) -> str:
    """All that is said of a tool, as one text, up to a bound."""
    return "\n".join(texts(tool))[:SEARCHED_TEXT]


class Index:
    """The words of some tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self._lengths: list[int] = []
        self._said: dict[str, list[tuple[int, int]]] = {}
        """By word: which tools say it, and how often."""
        for place, tool in enumerate(self.tools):
            counted = Counter(words(whole_text(tool)))
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
