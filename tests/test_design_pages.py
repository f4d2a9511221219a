"""The design pages name what exists: every path, every module, every name in backticks."""

import re
from functools import cache
from pathlib import Path

import pytest

import dovetail

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dovetail"
PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|txt|in|sh|svg)|(?:[\w-]+/)+")
NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")
MEMBER = re.compile(r"([A-Z]\w*)\.([a-z_]\w*)")
PLACES = ("src", "tests", "bench", "attacks", "scripts", "examples", "docs", "requirements", "changes")
ELSEWHERE = frozenset({"CAME_2027_01", "WENT_2027_01", "malloc_trim"})
"""Names of a revision that is made up, and of the C library."""


def spans(page: Path) -> set[str]:
    return set(SPAN.findall(FENCE.sub("", page.read_text())))


@cache
def paths() -> frozenset[str]:
    """Every file and folder of the project; those of the package by any tail of their path, as `admit.py`."""
    found = {path.name for path in ROOT.iterdir() if path.is_file()}
    for place in PLACES:
        for path in [ROOT / place, *(ROOT / place).rglob("*")]:
            if "__pycache__" not in path.parts:
                parts = path.relative_to(ROOT).parts
                end = "/" if path.is_dir() else ""
                tails = len(parts) if place in ("src", "docs") else 1
                found |= {"/".join(parts[start:]) + end for start in range(tails)}
    return frozenset(found)


@cache
def words() -> frozenset[str]:
    """Every word of the code."""
    files = [path for place in PLACES[:6] for path in (ROOT / place).rglob("*.py")]
    text = "\n".join(path.read_text() for path in [*files, ROOT / "pyproject.toml", ROOT / "Makefile"])
    modules = {path.stem for path in files} | {path.parent.name for path in files}
    return frozenset(re.findall(r"\w+", text)) | modules


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page: Path) -> None:
    named = {span.removeprefix("../") for span in spans(page) if PATH.fullmatch(span)}
    assert named - paths() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_exists(page: Path) -> None:
    named = {match[1] for span in spans(page) if (match := NAME.fullmatch(span)) and not PATH.fullmatch(span)}
    unknown = {name for name in named if not set(name.split(".")) <= words()}
    assert unknown - ELSEWHERE == set()


@cache
def classes() -> dict[str, list[str]]:
    """The texts of every class of the package by its name: from its first line to what follows it."""
    found: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for text in re.split(r"^(?=class )", path.read_text(), flags=re.MULTILINE)[1:]:
            own = re.split(r"^(?=(?:async )?def |@|[A-Za-z_]\w* = )", text, maxsplit=1, flags=re.MULTILINE)[0]
            found.setdefault(re.findall(r"\w+", own)[1], []).append(own)
    return found


def has(name: str, member: str) -> bool:
    """Whether a class of this name, or one it inherits from, speaks of ``member``."""
    for text in classes().get(name, ()):
        bases = re.findall(r"\w+", text.partition(":\n")[0])[2:]
        if re.search(rf"\b{member}\b", text) or any(has(base, member) for base in bases):
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_member_belongs_to_its_class(page: Path) -> None:
    named = [match.groups() for span in spans(page) if (match := MEMBER.match(span))]
    assert [f"{name}.{member}" for name, member in named if name in classes() and not has(name, member)] == []
    assert has("HttpApp", "identity")
    assert not has("HttpApp", "_principal")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_with_its_package_exists(page: Path) -> None:
    """`core.admit.Admission` must have a module `core/admit.py`, whatever it has inside."""
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    objects = {"server": dovetail.Server, "client": dovetail.Client}
    for span in spans(page):
        match = NAME.fullmatch(span.removeprefix("dovetail."))
        if match is None or PATH.fullmatch(span):
            continue
        package, _, rest = match[1].partition(".")
        module = rest.partition(".")[0]
        if package in packages and module and module.islower() and not hasattr(objects.get(package), module):
            inside = (SOURCE / package / "__init__.py").read_text()
            there = (SOURCE / package / f"{module}.py").exists() or (SOURCE / package / module).is_dir()
            assert there or re.search(rf"\b{module}\b", inside), f"{page.name} names {span}"


def test_the_tests_that_prove_the_session_life_are_there() -> None:
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs/design/sessions.md").read_text())
    written = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in written] == []
    assert len(named) >= 16
