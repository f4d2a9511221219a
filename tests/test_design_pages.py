"""Every path and module that a design page names exists."""

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
FIRST_CELL = re.compile(r"^\|[^|]*", re.MULTILINE)
PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|txt|in|sh|svg)|(?:[\w-]+/)+")
NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")
PLACES = ("src", "tests", "bench", "attacks", "scripts", "examples", "docs", "requirements")


def spans(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text())
    if page.name == "renames.md":
        text = FIRST_CELL.sub("", text)  # the old names
    return set(SPAN.findall(text))


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page: Path) -> None:
    named = {span.removeprefix("../") for span in spans(page) if PATH.fullmatch(span)}
    assert named - paths() == set()


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
