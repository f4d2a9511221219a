"""The originals' own tests of their servers pass on ours, as many as the floor of each suite says."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KNOWN = json.loads((Path(__file__).parent / "suites.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN["suites"])
def test_as_much_of_a_suite_passes_as_before(name: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "compat_suites.py"), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


SOURCE = (Path(__file__).parent / "sample.txt").read_text()
"""A file of tests, each of which is public or private in another way."""


def test_a_test_that_looks_below_the_public_api_is_told_by_reading_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "server.mdx").write_text("Write `FastMCP` and give it tools.")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("compat_suites", ROOT / "scripts" / "compat_suites.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite = module.Suite(tmp_path, "fastmcp")
    for name in ("test_plain", "test_environment", "test_meta"):
        # A fixture that everybody gets counts for its class alone.
        assert suite.reason("tests.test_it", name) is None, name
    assert suite.reason("tests.test_it.TestOwn", "test_own") is None
    for name in (
        "private",
        "private_by_name",
        "fixture",
        "helper",
        "undocumented",
        "imports_undocumented",
        "log",
    ):
        assert suite.reason("tests.test_it", f"test_{name}[1]") is not None, name
    assert "replaces" in suite.reason("tests.test_it", "test_patches")
    assert "replaces" in suite.reason("tests.test_it.TestGroup", "test_inside")
    good = {"tests.test_it.test_plain", "tests.test_it.test_private"}
    every = [f"tests/test_it.py::test_{one}" for one in ("plain", "private", "environment", "log")]
    found = module.sorted_out(every, good, suite, {"tests.test_it.test_environment": "fails there, too"})
    assert (found["tests"], found["passed"], found["public"], found["public passed"]) == (4, 2, 1, 1)
