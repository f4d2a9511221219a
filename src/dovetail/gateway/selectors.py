"""Selectors: text that selects components by name, tag or version.

``add`` is a tool with all its versions, or a prompt; ``add@1.0`` one version of a tool; ``city://oslo`` or
``city://{name}`` a resource or a template; ``tag:admin`` everything with that tag; ``version:2`` or
``version:>=2`` (also ``<=``, ``<``, ``>``) all tools with such a version. The prefixes ``tool:``,
``prompt:``, ``resource:`` and ``template:`` restrict a name to that kind.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from ..errors import RegistrationError
from ..server.composition import ListName
from ..server.registry.tool_versions import Order, order, split, tags_of, version_of

TAG: Final = "tag:"
KINDS: Final[dict[ListName, str]] = {
    "tools": "tool:",
    "prompts": "prompt:",
    "resources": "resource:",
    "templates": "template:",
}
_ADDRESSES: Final = frozenset({"resources", "templates"})
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
    """The properties of a component, or of one tool version, that a selector can use."""

    key: str
    """Its name or URI; for an older version of a tool, name and version."""
    version: str | None = None
    tags: frozenset[str] = frozenset()
    kind: ListName = "tools"

    @classmethod
    def of(cls, definition: Any, kind: ListName = "tools") -> Traits:
        if kind == "tools":
            return cls(definition.name, version_of(definition), tags_of(definition))
        return cls(key_of_definition(kind, definition), None, tags_of(definition), kind)


def key_of_definition(kind: ListName, definition: Any) -> str:
    """Return the name or URI of a component."""
    if kind == "resources":
        return definition.uri
    return definition.uri_template if kind == "templates" else definition.name


def named(word: str, kind: ListName) -> str | None:
    """Return the name or URI that a selector means for ``kind``; None for another kind."""
    own = KINDS[kind]
    if word.startswith(own):
        return word.removeprefix(own)
    return None if word.startswith(tuple(KINDS.values())) else word


def speaks_of(words: Iterable[str], kind: ListName) -> bool:
    """Return whether ``include`` with these selectors limits ``kind``: names are tools, URIs are the rest.

    Resources and templates are limited together: otherwise everything could be read through a template.
    """
    for word in words:
        if word.startswith(TAG):
            return True
        prefix = next((each for each, start in KINDS.items() if word.startswith(start)), None)
        spoken = prefix or ("resources" if "://" in word else "tools")
        if spoken == kind or {spoken, kind} <= _ADDRESSES:
            return True
    return False


def may_mean(words: Iterable[str], kind: ListName) -> bool:
    """Return whether a selector may select something of ``kind``."""
    if kind == "tools" and any(word.startswith("version:") for word in words):
        return True
    names = [
        named(word, each) for word in words for each in KINDS if each == kind or {each, kind} <= _ADDRESSES
    ]
    found = [name for name in names if name is not None and not name.startswith("version:")]
    return any(kind in ("tools", "prompts") or ":" in name for name in found)


class Selection:
    """The components that some selectors select."""

    __slots__ = ("_compared", "_names", "_pinned", "_tags", "by_traits", "words")

    def __init__(self, words: Iterable[str]) -> None:
        if isinstance(words, str):
            raise RegistrationError(f"expected a list of names, not the string {words!r}")
        self.words = frozenset(words)
        self._tags = frozenset(word.removeprefix(TAG) for word in self.words if word.startswith(TAG))
        compared = [(word, _VERSION.fullmatch(word)) for word in self.words if word.startswith("version:")]
        if wrong := [word for word, found in compared if found is None]:
            raise RegistrationError(
                f"{wrong[0]!r} is not a valid version selector; write version:2 or version:>=2"
            )
        self._compared = [(_COMPARE[found[1]], order(found[2])) for _, found in compared if found is not None]
        others = [word for word in self.words if not word.startswith((TAG, "version:"))]
        self._names = {kind: frozenset(filter(None, (named(one, kind) for one in others))) for kind in KINDS}
        self._pinned: dict[str, list[Order]] = {}
        for base, version in map(split, self._names["tools"]):
            if version is not None:
                self._pinned.setdefault(base, []).append(order(version))
        self.by_traits = bool(self._tags or self._compared or self._pinned)
        """Whether tags or versions are used."""

    def names(self, kind: ListName) -> frozenset[str]:
        """Return the selected names and URIs of ``kind``."""
        return self._names[kind]

    def has(self, name: str, traits: Traits) -> bool:
        """Return whether the component with this name is selected."""
        if name in self._names[traits.kind] or not self._tags.isdisjoint(traits.tags):
            return True
        if traits.version is None or not (self._compared or self._pinned):
            return False
        version = order(traits.version)
        return version in self._pinned.get(name, ()) or any(
            test(version, wanted) for test, wanted in self._compared
        )
