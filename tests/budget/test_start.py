"""What is imported before anything is done: as much as 0.1.0 did, and no more."""

import subprocess
import sys

import pytest

LOADED = """
import sys
before = set(sys.modules)
{code}
sys.stderr.write(" ".join(set(sys.modules) - before))
"""
HELP = "from dovetail.cli.main import main; main(['--help'])"


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(code=code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(("code", "ours", "all_of_them"), [("import dovetail", 1, 30), (HELP, 5, 68)])
def test_importing_the_package_and_asking_for_help_load_little(
    code: str, ours: int, all_of_them: int
) -> None:
    found = loaded(code)
    assert sum(name.partition(".")[0] == "dovetail" for name in found) <= ours, sorted(found)
    strangers = {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"dovetail"}
    assert strangers <= {"msgspec", "typing_extensions"}
    if sys.version_info[:2] == (3, 11):  # the standard library of another one loads more or less of itself
        assert len(found) <= all_of_them, sorted(found)
