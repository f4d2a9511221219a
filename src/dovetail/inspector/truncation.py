"""Truncate large results for the page, and report each cut with the full size."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import Struct

NAME_SIZE: Final = 1_000
"""Characters of a method, an id, a header or a URI of a server."""
SHOWN_TEXT: Final = 100_000
"""Characters of one text that the page receives, unless it requests all."""
SHOWN_MEDIA: Final = 16 << 20
"""Characters of one image or audio content."""
SHOWN_ITEMS: Final = 1_000
"""Items of one array, or members of one object."""
SHOWN_TOTAL: Final = 2 << 20
"""Characters of one value that the page gets, media aside."""
SHOWN_DEPTH: Final = 60
"""Levels of nested values that the page gets."""


class Truncated(Struct):
    """A truncated value, and its cuts: the path and the full size of each."""

    value: Any
    cut: list[dict[str, Any]]


def truncated(value: Any) -> Truncated:
    """Return ``value`` without parts that are too large for the page."""
    work = _Truncation()
    return Truncated(work.run(value, (), SHOWN_DEPTH), work.cut)


class _Truncation:
    def __init__(self) -> None:
        self.left = SHOWN_TOTAL
        self.cut: list[dict[str, Any]] = []

    def run(self, value: Any, path: tuple[str | int, ...], depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, path, SHOWN_TEXT)
        self.left -= 8
        if isinstance(value, dict):
            return self._members(cast("dict[str, Any]", value), path, depth)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            kept = self._kept(len(items), path, depth)
            return [self.run(items[index], (*path, index), depth - 1) for index in range(kept)]
        return value

    def _members(self, members: dict[str, Any], path: tuple[str | int, ...], depth: int) -> dict[str, Any]:
        kept = self._kept(len(members), path, depth)
        medium = str(members.get("mimeType", "")).startswith(("image/", "audio/", "video/"))
        found: dict[str, Any] = {}
        for name in list(members)[:kept]:
            member = members[name]
            if medium and name in ("data", "blob") and isinstance(member, str):
                found[name] = member if len(member) <= SHOWN_MEDIA else self._text(member, (*path, name), 0)
            else:
                found[name] = self.run(member, (*path, name), depth - 1)
        return found

    def _kept(self, count: int, path: tuple[str | int, ...], depth: int) -> int:
        kept = 0 if depth <= 0 or self.left <= 0 else min(count, SHOWN_ITEMS)
        if kept < count:
            self._note(path, count)
        return kept

    def _text(self, text: str, path: tuple[str | int, ...], most: int) -> str:
        most = min(most, max(self.left, 0))
        self.left -= min(len(text), most)
        if len(text) <= most:
            return text
        self._note(path, len(text))
        return text[:most]

    def _note(self, path: tuple[str | int, ...], size: int) -> None:
        if len(self.cut) < SHOWN_ITEMS:
            self.cut.append({"path": list(path), "size": size})
