"""The originals' own tests of their servers, run on ours: the share of each suite that passes.

    python scripts/compat_suites.py [NAME …] [--home FOLDER] [--write FILE]

A suite of ``tests/compat/suites/suites.json`` comes from the source distribution in the package registry. Its tests
are counted with the originals and run with ours, all files but those that are excluded with a reason. The share that
passes is said twice: of all, and of those that use the public API only, which `Suite` decides by reading them.
``fails`` names tests that fail with the original, too.
"""

from __future__ import annotations

import argparse
import ast
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
        line = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
        subprocess.run([*line, "-d", str(home), f"{name}=={version}"], check=True, timeout=600)
        with tarfile.open(home / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(home / "src", filter="data")
    return folder


# --- which tests use the public API only -----------------------------------------------------------------------------

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
REPLACES = {
    "patch": "replaces parts of the original",
    "mocker": "replaces parts of the original",
    "httpx_mock": "replaces the HTTP library inside of the original",
    "caplog": "reads the log",
    "capsys": "reads the log",
    "capfd": "reads the log",
}
"""Words whose use says that a test looks below the public API."""
BY_NAME = {"hasattr", "getattr", "setattr", "delattr"}
PROTOCOL = {"_meta"}
"""Names with an underscore that the protocol itself has."""


def documented(source: Path, family: str) -> frozenset[str] | None:
    """All words of the pages that the original's authors wrote by hand; None where the distribution has no pages."""
    pages = [
        page
        for page in (source / "docs").rglob("*.md*")
        if "python-sdk" not in page.parts and page.stem not in ("changelog", "updates")
    ]
    if family != "fastmcp" or not pages:
        return None
    return frozenset(word for page in pages for word in re.findall(r"\w+", page.read_text()))


class Suite:
    """The tests of a suite, and why one of them does not count as a user of the public API.

    A test does count unless it, a fixture it asks for, or a function of its file that it calls

    - uses an attribute with a leading underscore that is not of its own class (by name too: ``getattr(x, "_y")``),
    - imports such a name, or one of ``fastmcp`` that no page of its documentation mentions,
    - patches the original or the HTTP library inside of it, or reads its log.
    """

    def __init__(self, source: Path, family: str) -> None:
        self._source, self._known = source, documented(source, family)
        self._files: dict[Path, dict[str, Any]] = {}

    def reason(self, classname: str, name: str) -> str | None:
        """Why this test looks below the public API; None where it does not."""
        parts = classname.split(".")
        for size in range(len(parts), 0, -1):
            file = self._source.joinpath(*parts[:size]).with_suffix(".py")
            if file.exists():
                return self._look(self._read(file), parts[size:], name.partition("[")[0])
        return "its file cannot be read"

    def _read(self, file: Path) -> dict[str, Any]:
        if file not in self._files:
            tree = _Environment().visit(ast.parse(file.read_text()))
            heads = [one for one in tree.body if isinstance(one, ast.ImportFrom)]
            hidden = {
                alias.asname or alias.name: f"{one.module}.{alias.name}"
                for one in heads
                for alias in one.names
                if self._hidden(one.module or "", alias.name)
            }
            self._files[file] = {"body": tree.body, "hidden": hidden}
        return self._files[file]

    def _hidden(self, module: str, name: str) -> bool:
        parts = [*module.split("."), name]
        if parts[0] not in ("fastmcp", "mcp") or module == "fastmcp.utilities.tests":
            return False
        if any(_private(part) for part in parts):
            return True
        return parts[0] == "fastmcp" and self._known is not None and name not in self._known

    def _look(self, file: dict[str, Any], classes: list[str], name: str) -> str | None:
        known = _definitions(file["body"])
        scope = file["body"]
        for one in classes:
            scope = _definitions(scope)[one].body
            known |= _definitions(scope)
        every = [one for one in known.values() if not isinstance(one, ast.ClassDef)]
        waiting = [known[name], *(one for one in every if _automatic(one))]
        seen: set[int] = set()
        while waiting:
            definition = waiting.pop()
            if id(definition) in seen:
                continue
            seen.add(id(definition))
            for node in ast.walk(definition):
                if (found := self._fault(node, file["hidden"])) is not None:
                    return found
                word = _word(node)
                if word in known:
                    waiting.append(known[word])
        return None

    def _fault(self, node: ast.AST, hidden: dict[str, str]) -> str | None:
        word = _word(node)
        if word in hidden and not isinstance(node, ast.Attribute):
            return f"uses {hidden[word]}"
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if self._hidden(node.module or "", alias.name):
                    return f"uses {node.module}.{alias.name}"
        if (
            isinstance(node, ast.Attribute)
            and _private(node.attr)
            and _name(node.value) not in ("self", "cls")
        ):
            return f"uses {node.attr}"
        if isinstance(node, ast.Call) and _name(node.func) in BY_NAME and len(node.args) > 1:
            asked = node.args[1]
            if isinstance(asked, ast.Constant) and _private(str(asked.value)):
                return f"uses {asked.value}"
        if isinstance(node, ast.Call) and _name(node.func) == "monkeypatch.setattr":
            return REPLACES["patch"]
        if isinstance(node, ast.Name) and node.id == "patch":
            return REPLACES["patch"]
        return REPLACES.get(word) if isinstance(node, ast.arg) else None


class _Environment(ast.NodeTransformer):
    """Takes out ``patch.dict(os.environ, …)``: the environment is how a program is configured."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        given = _name(node.args[0]) if node.args else ""
        if _name(node.func) == "patch.dict" and given in ("os.environ", ""):
            return ast.Constant(None)
        return self.generic_visit(node)


def _definitions(body: list[Any]) -> dict[str, Any]:
    return {one.name: one for one in body if isinstance(one, Definition)}


def _automatic(definition: Any) -> bool:
    """Whether this is a fixture that every test gets."""
    return any("autouse=True" in ast.unparse(one) for one in definition.decorator_list)


def _private(word: str) -> bool:
    return word.startswith("_") and not word.startswith("__") and word.isidentifier() and word not in PROTOCOL


def _name(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.attr if isinstance(node, ast.Attribute) and _name(node.value) in ("self", "cls") else ""


# --- running ---------------------------------------------------------------------------------------------------------


def measured(name: str, suite: dict[str, Any], home: Path, python: Path) -> dict[str, Any]:
    """How many tests there are, how many of them use the public API only, and how many pass on ours."""
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
    every = [one for one in counted.stdout.splitlines() if "::" in one]
    if not every:
        raise SystemExit(
            f"the tests of {name} cannot be counted:\n{counted.stdout[-2000:]}{counted.stderr[-2000:]}"
        )
    report = home / f"{name}.xml"
    ours = plain | {"PYTHONPATH": f"{FOLDER / 'site'}:{ROOT / 'src'}", "DOVETAIL_SUITE": name}
    subprocess.run(
        [*line, "-n", "2", "--tb=short", f"--junitxml={report}"],
        cwd=source, env=ours, capture_output=True, timeout=LIMIT,
    )  # fmt: skip
    cases = ElementTree.parse(report).iter("testcase")
    good = {f"{one.get('classname')}.{one.get('name')}" for one in cases if _passed(one)}
    return sorted_out(every, good, Suite(source, name), suite.get("fails", {}))


def sorted_out(every: list[str], good: set[str], suite: Suite, fails: dict[str, str]) -> dict[str, Any]:
    """Each test that was collected, by what became of it and by whether it counts."""
    below: dict[str, str] = {}
    bad: list[str] = []
    public = passed = 0
    for one in every:
        path, *inner = one.split("::")
        place = path.removesuffix(".py").replace("/", ".")
        classname, name = ".".join([place, *inner[:-1]]), inner[-1]
        full = f"{classname}.{name}"
        why = fails.get(full.partition("[")[0]) or suite.reason(classname, name)
        if full not in good:
            bad.append(full)
        if why is not None:
            below[full] = why
        else:
            public += 1
            passed += full in good
    return {
        "tests": len(every), "passed": len(every) - len(bad), "public": public, "public passed": passed,
        "not public": below, "not passed": sorted(bad),
    }  # fmt: skip


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
        whole = 100 * found["passed"] / found["tests"]
        share = 100 * found["public passed"] / found["public"]
        low = low or whole < suite["floor"] or share < suite["public floor"]
        print(f"{name} {suite['version']}: {found['passed']} of {found['tests']} tests pass, {whole:.1f} %;")
        print(
            f"  of those that use the public API only {found['public passed']} of {found['public']}, {share:.1f} %"
        )
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(json.dumps(outcome, indent=2) + "\n")
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
