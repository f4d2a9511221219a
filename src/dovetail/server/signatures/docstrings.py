"""Parses docstrings: the first paragraph, and the description of each parameter.

Three styles are read: Google (``Args:`` with indented entries), NumPy (``Parameters`` underlined with dashes)
and Sphinx (``:param name: …``). Any other docstring describes no parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_NUMPY: Final = frozenset({"Parameters", "Other Parameters", "Attributes"})
_GOOGLE: Final = frozenset(
    {*(f"{name}:" for name in _NUMPY), "Args:", "Arguments:", "Params:", "Keyword Args:"}
)
# Compiled when the first docstring needs them.
_GOOGLE_ENTRY: Final = r"\*{0,2}(\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:\s*(.*)$"
_NUMPY_ENTRY: Final = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_SPHINX_ENTRY: Final = r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$"
_SECTION: Final = r"[A-Z][A-Za-z ]*:\s*$"


class Docstring(Struct, frozen=True):
    """The parts of a docstring that clients see."""

    summary: str | None
    parameters: dict[str, str]


NOTHING = Docstring(None, {})


def parse(text: str | None) -> Docstring:
    """Read ``text``, the raw ``__doc__`` of a function or class."""
    if not text:
        return NOTHING
    begins_with_section = text.partition("\n")[0].strip() in _GOOGLE
    # The first line does not count for the margin, unless the following entries stay indented relative to it.
    lines = inspect.cleandoc("\n" + text.lstrip() if begins_with_section else text).splitlines()
    parameters = {name: " ".join(words.split()) for name, words in _entries(lines)}
    return Docstring(_summary(lines), {name: words for name, words in parameters.items() if words})


def _summary(lines: list[str]) -> str | None:
    paragraph: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or _starts_section(lines, number):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph) or None


def _starts_section(lines: list[str], number: int) -> bool:
    line = lines[number]
    if line.startswith((":param", ":arg", ":key", ":return", ":rtype", ":raise", ":type")):
        return True
    return line.rstrip() in _GOOGLE or _is_underlined(lines, number)


def _is_underlined(lines: list[str], number: int) -> bool:
    following = lines[number + 1].strip() if number + 1 < len(lines) else ""
    return len(following) >= 3 and set(following) <= {"-", "="}


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if line.rstrip() in _GOOGLE:
            yield from _google(lines[number + 1 :])
        elif line.rstrip() in _NUMPY and _is_underlined(lines, number):
            yield from _numpy(lines[number + 2 :])
        elif line.startswith(":") and (found := re.match(_SPHINX_ENTRY, line)):
            yield found[1], " ".join((found[2], *_indented(lines[number + 1 :])))


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Entries have the indentation of the first; a deeper indentation continues an entry."""
    depth = 0
    name, words = "", ""
    for line in lines:
        if not line.strip():
            continue
        indentation = _indentation(line)
        if indentation == 0 or indentation < depth:
            break
        depth = depth or indentation
        found = re.match(_GOOGLE_ENTRY, line.strip()) if indentation == depth else None
        if found:
            if name:
                yield name, words
            name, words = found[1], found[2]
        else:
            words += " " + line.strip()
    if name:
        yield name, words


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if not line.strip() or _indentation(line):
            continue
        if _is_underlined(lines, number) or re.match(_SECTION, line):
            return
        if found := re.match(_NUMPY_ENTRY, line):
            words = " ".join(_indented(lines[number + 1 :]))
            for name in found[1].split(","):
                yield name.strip().lstrip("*"), words


def _indented(lines: list[str]) -> Iterator[str]:
    """The indented lines that follow directly."""
    for line in lines:
        if not line.strip() or not _indentation(line):
            return
        yield line.strip()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
