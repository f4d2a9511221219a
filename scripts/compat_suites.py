"""The originals' own tests of their servers, run on ours: the share of each suite that passes.

    python scripts/compat_suites.py [NAME …] [--home FOLDER] [--write FILE]

A suite of ``tests/compat/suites/suites.json`` comes from the source distribution in the package registry. Its tests
are counted with the originals and run with ours, all files but those that are excluded with a reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "compat" / "suites"
LIMIT = 1500


def installed(home: Path, packages: list[str]) -> Path:
    """The Python of the environment with the originals and what their suites use."""
    python = home / "bin" / "python"
    wanted = "\n".join(packages)
    ready = home / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        venv.create(home, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True, timeout=900)
        ready.write_text(wanted)
    return python


def unpacked(home: Path, python: Path, name: str, version: str) -> Path:
    """The source distribution."""
    folder = home / "src" / f"{name}-{version}"
    if not folder.exists():
        line = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*line, "-d", str(home), f"{name}=={version}"], check=True, timeout=600)
        with tarfile.open(home / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(home / "src", filter="data")
    return folder


def measured(name: str, suite: dict[str, Any], home: Path, python: Path) -> dict[str, Any]:
    """How many tests there are, and how many pass on ours."""
    source = unpacked(home, python, name, suite["version"])
    excluded = [f"--ignore={one}" for one in suite["excluded"]]
    line = [str(python), "-m", "pytest", suite["tests"], *excluded, "-q", "-p", "no:cacheprovider"]
    line += [
        "-o",
        "log_cli=false",
        "-o",
        "filterwarnings=",
        "-o",
        "timeout=30",
        "--continue-on-collection-errors",
    ]
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    counted = subprocess.run(
        [*line, "-n", "0", "--collect-only"],
        cwd=source,
        env=plain,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    total = re.search(r"(\d+)(?:/\d+)? tests? collected", counted.stdout)
    if total is None:
        raise SystemExit(
            f"the tests of {name} cannot be counted:\n{counted.stdout[-2000:]}{counted.stderr[-2000:]}"
        )
    report = home / f"{name}.xml"
    ours = plain | {"PYTHONPATH": f"{FOLDER / 'site'}:{ROOT / 'src'}", "DOVETAIL_SUITE": name}
    subprocess.run(
        [*line, "-n", "2", "--tb=short", f"--junitxml={report}"],
        cwd=source, env=ours, capture_output=True, timeout=LIMIT,
    )  # fmt: skip
    cases = list(ElementTree.parse(report).iter("testcase"))
    bad = [f"{one.get('classname')}.{one.get('name')}" for one in cases if not _passed(one)]
    return {"tests": int(total[1]), "passed": len(cases) - len(bad), "not passed": sorted(bad)}


def _passed(case: ElementTree.Element) -> bool:
    return all(case.find(kind) is None for kind in ("failure", "error", "skipped"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only these suites")
    parser.add_argument("--home", type=Path, default=ROOT / ".peers" / "suites", help="where they are kept")
    parser.add_argument("--write", type=Path, help="where the outcome is written")
    options = parser.parse_args()
    known: dict[str, Any] = json.loads((FOLDER / "suites.json").read_text())
    home = options.home.resolve()
    python = installed(home, known["packages"])
    outcome: dict[str, Any] = {}
    low = False
    for name in options.names or known["suites"]:
        suite = known["suites"][name]
        found = outcome[name] = measured(name, suite, home, python)
        share = 100 * found["passed"] / found["tests"]
        low = low or share < suite["floor"]
        print(f"{name} {suite['version']}: {found['passed']} of {found['tests']} pass, {share:.1f} %")
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(json.dumps(outcome, indent=2) + "\n")
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
