"""The YAML frontmatter of a SKILL.md, between two ``---`` lines."""

from __future__ import annotations

from typing import Any, Final

from ..safe_yaml import YamlError, load_yaml

SKILL_FILES: Final = 512
"""Files of one skill (SEP-2640)."""
SKILL_BYTES: Final = 16 << 20
"""Bytes of one skill (SEP-2640)."""


MAX_CHARACTERS: Final = 64 << 10
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 10_000


class FrontmatterError(ValueError):
    """The frontmatter is missing or invalid."""


def read_frontmatter(text: str) -> dict[str, Any]:
    """Return the frontmatter of ``text`` as a mapping. It needs PyYAML.

    Raises:
        FrontmatterError: it is missing or invalid.
        DovetailError: PyYAML is not installed.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise FrontmatterError("the file must begin with a frontmatter block: a line with ---")
    size = 0
    for number, line in enumerate(lines[1:], 1):
        size += len(line) + 1
        if size > MAX_CHARACTERS:
            raise FrontmatterError(f"the frontmatter is longer than {MAX_CHARACTERS} characters")
        if line.rstrip() in ("---", "..."):
            return _mapping(["", *lines[1:number]])
    raise FrontmatterError("the frontmatter is not closed: add a line with --- after it")


def _mapping(lines: list[str]) -> dict[str, Any]:
    # The empty first line replaces the ---, so that line numbers in messages match the file.
    try:
        found = load_yaml(
            "\n".join(lines),
            max_depth=MAX_DEPTH,
            max_nodes=MAX_VALUES,
            aliases=False,
            purpose="reading the frontmatter of a skill",
            extra="skills",
        )
    except YamlError as error:
        raise FrontmatterError(str(error)) from None
    if not isinstance(found, dict):
        raise FrontmatterError("the frontmatter is not a mapping")
    return found  # pyright: ignore[reportUnknownVariableType]
