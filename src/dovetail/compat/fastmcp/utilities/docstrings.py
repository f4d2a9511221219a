"""How FastMCP 3 reads docstrings: a tool's description is what comes before the first section, and what is said of
parameters goes to where they stand. Lines stay lines; ours join them.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

_PARAMETERS: Final = frozenset(
    {"args", "arguments", "params", "parameters", "keyword args", "other parameters"}
)
_HEADING: Final = re.compile(r"([A-Za-z][\w ]*):\s*$")
_GOOGLE: Final = re.compile(r"(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_NUMPY: Final = re.compile(r"(\w+)\s*(?::.*)?$")
_SPHINX: Final = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")
_FIELD: Final = re.compile(r":\w+[^:]*:")
_UNDERLINE: Final = re.compile(r"-{3,}\s*$")


def parse(doc: str) -> tuple[str | None, dict[str, str]]:
    """The description, and what is said of each parameter; ``doc`` has its margin removed."""
    lines = doc.splitlines()
    first, said = len(lines), dict[str, str]()
    for number, line in enumerate(lines):
        kind = _section(lines, number)
        if kind is None:
            continue
        first = min(first, number)
        if kind == "google":
            margin = len(following := lines[number + 1]) - len(following.lstrip())
            said |= _entries(_below(lines, number + 1), _GOOGLE, margin)
        elif kind == "numpy":
            said |= _entries(_until_underlined(lines, number + 2), _NUMPY)
        elif kind == "sphinx" and (found := _SPHINX.match(line)):
            said[found[1]] = "\n".join([found[2], *_below(lines, number + 1)]).strip()
    if not said:
        return doc, {}
    return "\n".join(lines[:first]).strip() or None, said


def _section(lines: list[str], number: int) -> str | None:
    """What begins at this line; "other" is a section that is not about parameters."""
    line = lines[number]
    if not line or line[0].isspace():
        return None
    following = lines[number + 1] if number + 1 < len(lines) else ""
    if _UNDERLINE.match(following):
        return "numpy" if line.strip().lower() in _PARAMETERS else "other"
    if _FIELD.match(line):
        return "sphinx"
    heading = _HEADING.match(line)
    if heading is None or not following[:1].isspace() or (number and lines[number - 1].strip()):
        return None
    return "google" if heading[1].lower() in _PARAMETERS else "other"


def _below(lines: list[str], start: int, margin: int = 0) -> list[str]:
    """The lines that are indented, from ``start`` on, without their own margin or the one that is usual there."""
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    if margin:
        usual = " " * margin
        return [
            line.removeprefix(usual) if line.startswith(usual) else line.lstrip() for line in lines[start:end]
        ]
    return textwrap.dedent("\n".join(lines[start:end])).splitlines()


def _until_underlined(lines: list[str], start: int) -> list[str]:
    end = start
    while end < len(lines) and not (end + 1 < len(lines) and _UNDERLINE.match(lines[end + 1])):
        end += 1
    return lines[start:end]


def _entries(lines: list[str], pattern: re.Pattern[str], margin: int = 0) -> dict[str, str]:
    """What is said of each name; lines that go on lose one ``margin``, and all of theirs where none is known."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        entry = pattern.match(line) if line and not line[0].isspace() else None
        if entry is not None:
            words = entry[2] if pattern.groups > 1 else ""
            said = "\n".join([words, *_below(lines, number + 1, margin)])
            found[entry[1]] = said.rstrip("\n") if margin else said.strip()
    return found
