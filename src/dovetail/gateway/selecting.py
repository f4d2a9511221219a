"""Which tools are meant: by name, tag or version, in a word that also stands in a file.

``add`` is a tool with all its versions, ``add@1.0`` one version of it, ``tag:admin`` everything with that tag,
``version:2`` or ``version:>=2`` (also ``<=``, ``<``, ``>``) everything of such a version. A tool without a version is
meant by none of the last.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from ..errors import RegistrationError
from ..model import Tool
from ..server.registering.versions import Order, order, split, tags_of, version_of

TAG: Final = "tag:"
_VERSION: Final = re.compile(r"version:(>=|<=|==|<|>|)(\S+)")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "": operator.eq,
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}


class Traits(Struct, frozen=True):
    """One version of a tool, as far as a choice may depend on it."""

    key: str
    """Its name, with its version where there is a newer one."""
    version: str | None = None
    tags: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tool: Tool) -> Traits:
        return cls(tool.name, version_of(tool), tags_of(tool))


class Selection:
    """The tools that some words mean."""

    __slots__ = ("_compared", "_names", "_pinned", "_tags", "by_traits", "words")

    def __init__(self, words: Iterable[str]) -> None:
        if isinstance(words, str):
            raise RegistrationError(f"a list of names is wanted, not the text {words!r}")
        self.words = frozenset(words)
        self._tags = frozenset(word.removeprefix(TAG) for word in self.words if word.startswith(TAG))
        compared = [(word, _VERSION.fullmatch(word)) for word in self.words if word.startswith("version:")]
        if wrong := [word for word, found in compared if found is None]:
            raise RegistrationError(f"{wrong[0]!r} is no choice of versions: write version:2 or version:>=2")
        self._compared = [(_COMPARE[found[1]], order(found[2])) for _, found in compared if found is not None]
        others = [word for word in self.words if not word.startswith((TAG, "version:"))]
        self._names = frozenset(others)
        self._pinned: dict[str, list[Order]] = {}
        for base, version in map(split, others):
            if version is not None:
                self._pinned.setdefault(base, []).append(order(version))
        self.by_traits = bool(self._tags or self._compared or self._pinned)
        """Whether more than the name decides."""

    def has(self, name: str, traits: Traits) -> bool:
        """Whether the tool that is called ``name`` here is meant."""
        if name in self._names or not self._tags.isdisjoint(traits.tags):
            return True
        if traits.version is None or not (self._compared or self._pinned):
            return False
        version = order(traits.version)
        return version in self._pinned.get(name, ()) or any(
            test(version, wanted) for test, wanted in self._compared
        )
