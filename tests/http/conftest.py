"""Fixtures of the HTTP tests."""

from pathlib import Path

import pytest

from tests.http.children import SLOW


@pytest.fixture
def slow(tmp_path: Path) -> str:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)
