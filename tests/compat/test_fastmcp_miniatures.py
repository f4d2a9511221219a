"""Miniatures of FastMCP servers say the same on ours as on the original, for the generation they were written for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dovetail.compat.fastmcp.generation import generation

from .miniature import HERE, answers, check, load, recorded

FILES = sorted((HERE / "miniatures" / "fastmcp").glob("*.py"))


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_miniature_says_what_the_original_says(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_FASTMCP", str(number))
    generation.cache_clear()
    try:
        check(asyncio.run(answers(load(path))), recorded(f"fastmcp{number}", path.stem))
    finally:
        monkeypatch.undo()
        generation.cache_clear()
