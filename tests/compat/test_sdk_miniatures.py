"""Miniatures of servers of the SDK's FastMCP say the same on ours as on the original."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .miniature import HERE, answers, check, load, recorded

FILES = sorted((HERE / "miniatures" / "sdk").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_miniature_says_what_the_original_says(path: Path) -> None:
    check(asyncio.run(answers(load(path))), recorded("sdk", path.stem))
