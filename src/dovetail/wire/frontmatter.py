"""The YAML between the two ``---`` lines of a SKILL.md, read without a YAML library.

The part of YAML that frontmatter uses: mappings and lists by indentation, flow lists and mappings, plain and quoted
scalars, block scalars (``|`` and ``>``), comments. What lies outside it (anchors, tags, several documents) raises, and
a skill whose frontmatter cannot be read is not loaded: guessing would defeat the comparison it is read for.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..settings import DEEPEST_FRONTMATTER, FRONTMATTER_FLOW, FRONTMATTER_SIZE

# Possessive throughout: a long line that is no key must not be tried over and over.
_KEY = re.compile(
    r"""^("(?:[^"\\]|\\.)*+"\s*+|'(?:[^']|'')*+'\s*+|[^\s#:,\[\]{}&*!|>'"%@`][^#:]*+):(?:\s++(.*))?$"""
)
_INTEGER = re.compile(r"[-+]?[0-9]+$")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


class FrontmatterError(ValueError):
    """The frontmatter is missing, or uses YAML that frontmatter does not need."""


def read_frontmatter(text: str) -> dict[str, Any]:
    """The mapping at the head of ``text``.

    Raises:
        FrontmatterError: there is none, or it cannot be read for certain.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if not lines or lines[0].rstrip() != "---":
        raise FrontmatterError("the file does not begin with ---")
    size = 0
    for number, line in enumerate(lines[1:], 1):
        size += len(line) + 1
        if size > FRONTMATTER_SIZE:
            raise FrontmatterError(f"the frontmatter is longer than {FRONTMATTER_SIZE} characters")
        if line.rstrip() in ("---", "..."):
            value = _Reader(lines[1:number]).read()
            if not isinstance(value, dict):
                raise FrontmatterError("the frontmatter is no mapping")
            return value  # pyright: ignore[reportUnknownVariableType]
    raise FrontmatterError("the frontmatter has no end")


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> Any:
        value = self._block(0, 0)
        if self._peek() is not None:
            raise FrontmatterError(f"unexpected indentation in line {self._at + 2}")
        return value

    def _peek(self) -> tuple[int, str] | None:
        """Indentation and text of the next line that says something."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip()
            if text and not text.startswith("#"):
                if "\t" in line[: len(line) - len(line.lstrip())]:
                    raise FrontmatterError("tabs cannot indent")
                return len(line) - len(line.lstrip(" ")), text
            self._at += 1
        return None

    def _block(self, indent: int, depth: int) -> Any:
        if depth > DEEPEST_FRONTMATTER:
            raise FrontmatterError("nested too deeply")
        here = self._peek()
        if here is None or here[0] < indent:
            return None
        if here[1] == "-" or here[1].startswith("- "):
            return self._list(here[0], depth)
        return self._mapping(here[0], depth)

    def _list(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (here := self._peek()) and here[0] == indent and (here[1] == "-" or here[1].startswith("- ")):
            rest = here[1][1:].strip()
            if rest.startswith("#"):
                rest = ""
            if rest and _KEY.match(_uncommented(rest)) and rest[0] not in "\"'[{":
                # "- name: x" opens a mapping whose other keys stand below the first one.
                self._lines[self._at] = " " * (indent + 2) + rest
                found.append(self._block(indent + 1, depth + 1))
                continue
            self._at += 1
            found.append(self._scalar(rest, indent, depth) if rest else self._block(indent + 1, depth + 1))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (here := self._peek()) and here[0] == indent:
            match = _KEY.match(here[1])
            if match is None:
                raise FrontmatterError(f"line {self._at + 2} is no `key: value`")
            name = match[1].rstrip()
            key = str(_plain(name) if name[0] in "\"'" else name)
            if key in found:
                raise FrontmatterError(f"the key {key!r} stands there twice")
            self._at += 1
            rest = _uncommented(match[2] or "")
            found[key] = self._scalar(rest, indent, depth) if rest else self._value_below(indent, depth)
        return found

    def _value_below(self, indent: int, depth: int) -> Any:
        here = self._peek()
        if here is not None and here[0] == indent and here[1].startswith("-"):
            return self._list(indent, depth + 1)  # a list may stand at the indentation of its key
        return self._block(indent + 1, depth + 1)

    def _scalar(self, text: str, indent: int, depth: int) -> Any:
        if text[0] in "|>":
            return self._literal(text, indent)
        if text[0] in "&*!%@`?" or text == "-" or text.startswith("- "):
            raise FrontmatterError(f"{text[0]!r} is not used in frontmatter")
        if text[0] in "[{":
            if len(text) > FRONTMATTER_FLOW:
                raise FrontmatterError(
                    f"a list or mapping in brackets is longer than {FRONTMATTER_FLOW} characters"
                )
            value, rest = _flow(text, depth)
            if rest.strip():
                raise FrontmatterError("text after a closing bracket")
            return value
        # A plain or quoted scalar may go on in the lines below that are indented further.
        while (here := self._peek()) and here[0] > indent:
            text += " " + here[1]
            self._at += 1
        return _plain(_uncommented(text))

    def _literal(self, head: str, indent: int) -> str:
        lines: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            lines.append(line)
            self._at += 1
        inner = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
        body = [line[inner:] for line in lines]
        text = "\n".join(body) if head[0] == "|" else _folded(body)
        if "+" in head:
            return text + "\n"
        text = text.rstrip("\n")
        return text if "-" in head or not text else text + "\n"


def _folded(lines: list[str]) -> str:
    paragraphs = "\n".join(lines).split("\n\n")
    return "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def _uncommented(text: str) -> str:
    """Without a trailing comment, which begins with " #" outside quotes."""
    if text.startswith("#"):
        return ""  # nothing but a comment: the value stands in the lines below, or there is none
    if text.startswith(('"', "'")):
        end = _quoted_end(text)
        return text[:end] if end else text
    cut = text.find(" #")
    return (text[:cut] if cut >= 0 else text).strip()


def _quoted_end(text: str) -> int:
    quote, at = text[0], 1
    while at < len(text):
        if quote == '"' and text[at] == "\\":
            at += 2
            continue
        if text[at] == quote:
            if quote == "'" and text[at + 1 : at + 2] == "'":
                at += 2
                continue
            return at + 1
        at += 1
    return 0


def _plain(text: str) -> Any:
    if text.startswith(("'", '"')):
        end = _quoted_end(text)
        if not end or text[end:].strip():
            raise FrontmatterError("a quoted text does not end")
        if text[0] == "'":
            return text[1:-1].replace("''", "'")
        try:
            return msgspec.json.decode(text[:end])
        except msgspec.MsgspecError:
            raise FrontmatterError("a quoted text has an escape that is not JSON's") from None
    if ": " in text or text.endswith(":"):
        raise FrontmatterError("a text with a colon and a space in it has to be quoted")
    lower = text.lower()
    if lower in _WORDS:
        return _WORDS[lower]
    if _INTEGER.match(text):
        return int(text) if len(text) < 20 else text
    if _NUMBER.match(text):
        return float(text)
    return text


def _flow(text: str, depth: int) -> tuple[Any, str]:
    """One flow value at the start of ``text``, and what follows it."""
    if depth > DEEPEST_FRONTMATTER:
        raise FrontmatterError("nested too deeply")
    if text[:1] == "[":
        return _flow_list(text[1:].lstrip(), depth)
    if text[:1] == "{":
        return _flow_mapping(text[1:].lstrip(), depth)
    if text.startswith(("'", '"')):
        end = _quoted_end(text)
        if not end:
            raise FrontmatterError("a quoted text does not end")
        return _plain(text[:end]), text[end:].lstrip()
    match = re.match(r"[^,\[\]{}]*", text)
    word = match[0] if match else ""
    return _plain(word.strip()), text[len(word) :]


def _flow_list(text: str, depth: int) -> tuple[list[Any], str]:
    found: list[Any] = []
    while text[:1] != "]":
        if not text:
            raise FrontmatterError("a list does not end")
        value, text = _flow(text, depth + 1)
        found.append(value)
        text = _after_comma(text, "]")
    return found, text[1:].lstrip()


def _flow_mapping(text: str, depth: int) -> tuple[dict[str, Any], str]:
    found: dict[str, Any] = {}
    while text[:1] != "}":
        key, separator, text = text.partition(":")
        if not separator:
            raise FrontmatterError("a mapping does not end")
        value, text = _flow(text.lstrip(), depth + 1)
        found[str(_plain(key.strip()))] = value
        text = _after_comma(text, "}")
    return found, text[1:].lstrip()


def _after_comma(text: str, closing: str) -> str:
    text = text.lstrip()
    if text[:1] == ",":
        return text[1:].lstrip()
    if text[:1] != closing:
        raise FrontmatterError(f"{closing!r} is missing")
    return text
