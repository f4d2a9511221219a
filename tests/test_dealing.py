"""Tests of one file, and of files that belong together, run one after the other in one process."""

import subprocess
import sys
from pathlib import Path

from tests.support.dealing import LONGEST, TOGETHER, piece
from tests.support.waiting import HANG

ROOT = Path(__file__).resolve().parent.parent
HOOKS = """
from tests.support.dealing import longest_first, pytest_xdist_make_scheduler

def pytest_collection_modifyitems(items):
    longest_first(items)
"""
TESTS = """
import os
import pytest

@pytest.mark.parametrize("number", range(4))
def test(number):
    with open("told", "a") as told:
        told.write(f"{{os.environ['PYTEST_XDIST_WORKER']}} {name}\\n")
"""


def test_what_belongs_together_is_run_by_one_process_and_the_longest_first(tmp_path: Path) -> None:
    for file in ("tests/core/test_a.py", "tests/core/test_b.py", *TOGETHER):
        path = tmp_path / file if file.endswith(".py") else tmp_path / file / "test_any.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TESTS.format(name=piece(path.relative_to(tmp_path).as_posix())))
    (tmp_path / "conftest.py").write_text(HOOKS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2", "--dist", "loadgroup", "--rootdir", ".", "--import-mode", "importlib", "tests"]  # noqa: E501  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True, text=True, timeout=HANG, check=False)  # noqa: E501  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split(" ", 1) for line in (tmp_path / "told").read_text().splitlines()]
    by_piece: dict[str, set[str]] = {}
    for worker, name in told:
        by_piece.setdefault(name, set()).add(worker)
    assert set(by_piece) == {"tests/core/test_a.py", "tests/core/test_b.py", *TOGETHER.values()}
    assert {name for name, workers in by_piece.items() if len(workers) > 1} == set()
    assert {told[0][1], told[1][1]} <= set(LONGEST)


def test_whatever_is_named_is_there() -> None:
    for name in (*TOGETHER, *(name for name in LONGEST if name not in TOGETHER.values())):
        assert (ROOT / name).exists(), name
