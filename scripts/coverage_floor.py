"""Say how much of each package the tests reach, lines and branches together, and hold the floor.

usage: coverage_floor.py [--inner] — after `make coverage` (or, with --inner, `make coverage-inner`), whose data it
reads; fails if a package lies below its floor.

A floor is what was measured, less a point for what depends on the machine's timing. Raise it with the tests;
lower it only with a reason in the commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "dovetail"
FLOOR = {
    "dovetail": 92.5,  # the modules of the package itself: errors, settings, sync
    "dovetail.auth": 85.0,
    "dovetail.cli": 91.5,
    "dovetail.client": 91.0,
    "dovetail.core": 97.5,
    "dovetail.drivers": 88.5,  # the inside of a worker process is killed before it can tell what it ran
    "dovetail.gateway": 85.0,
    "dovetail.inspector": 80.0,
    "dovetail.json_schema": 95.5,
    "dovetail.layers": 85.0,
    "dovetail.model": 97.5,
    "dovetail.openapi": 85.0,
    "dovetail.server": 94.0,
    "dovetail.settings": 95.0,
    "dovetail.stores": 85.0,
    "dovetail.surface": 85.0,
    "dovetail.telemetry": 85.0,
    "dovetail.testing": 89.0,
    "dovetail.tooling": 80.0,
    "dovetail.transports": 92.0,
    "dovetail.wire": 96.0,
    "dovetail.workers": 85.0,
}
INNER = {
    "dovetail.core": 88.0,
    "dovetail.drivers": 77.5,
    "dovetail.json_schema": 94.5,
    "dovetail.model": 95.5,
    "dovetail.wire": 93.5,
}
"""What the tests of these rooms reach by themselves: `make coverage-inner`, which CI can afford."""
RAISE = 2.0
"""Points above its floor from which a package is said to have outgrown it."""


def package_of(path: Path) -> str:
    """The package with a floor that the module ``path`` belongs to."""
    parts = path.resolve().relative_to(PACKAGE).parts
    return "dovetail" if len(parts) == 1 else f"dovetail.{parts[0]}"


def measured() -> dict[str, float]:
    """Percentage of lines and branches reached, by package."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(found)]
        subprocess.run(command, cwd=ROOT, check=True)
        files = json.loads(found.read_bytes())["files"]
    reached: dict[str, list[int]] = {}
    for name, file in files.items():
        summary, sums = file["summary"], reached.setdefault(package_of(ROOT / name), [0, 0])
        sums[0] += summary["covered_lines"] + summary["covered_branches"]
        sums[1] += summary["num_statements"] + summary["num_branches"]
    return {name: 100 * covered / max(1, of) for name, (covered, of) in sorted(reached.items())}


def verdict(found: dict[str, float], floor: dict[str, float]) -> list[str]:
    """What is wrong: packages below their floor, without one, or gone."""
    faults = [f"{name}: {share:.1f} % is below {floor[name]} %" for name, share in found.items()
              if name in floor and share < floor[name]]  # fmt: skip
    faults += [f"{name} has no floor yet: it has {found[name]:.1f} %" for name in found if name not in floor]
    return faults + [f"{name} has a floor and was not measured" for name in floor if name not in found]


def main() -> int:
    inner = sys.argv[1:] == ["--inner"]
    floor = INNER if inner else FLOOR
    found = {name: share for name, share in measured().items() if not inner or name in floor}
    for name, share in found.items():
        outgrown = "  (its floor may rise)" if share > floor.get(name, 100.0) + RAISE else ""
        print(f"{name:22}{share:6.1f} %   floor {floor.get(name, 0.0):5.1f} %{outgrown}")
    faults = verdict(found, floor)
    print("\n".join(faults), file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
