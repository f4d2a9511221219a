"""The documentation site is built, loads nothing from other sites, and has no broken links."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dovetail

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "site.py"


def loaded(site: Path) -> Any:
    """The script as a module that works below ``site``."""
    spec = importlib.util.spec_from_file_location("site_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HTML = site
    return module


def test_the_site_is_built_and_every_link_leads_somewhere() -> None:
    built = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    html = ROOT / "results" / "site" / "html"
    reference = (html / "reference" / "dovetail.html").read_text()
    assert [
        name for name in dovetail.__all__ if name[0] != "_" and f'id="{name.lower()}"' not in reference
    ] == []
    assert (html / "tutorial.html").exists()
    assert (html / "tools.md").read_text() == (ROOT / "docs" / "tools.md").read_text()
    pages = re.findall(r"^- \[.+\]\((.+)\)$", (html / "llms.txt").read_text(), re.MULTILINE)
    assert len(pages) > 50
    assert [page for page in pages if not (html / page).is_file()] == []
    assert ".cursor/mcp.json" in (html / "clients" / "cursor.html").read_text()
    assert "env_vars" in (html / "clients" / "codex.html").read_text()


def test_a_published_version_is_listed_first_and_replaces_itself(tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "pages"
    site.mkdir()
    script = loaded(site)
    for version, text in (("1.0", "old"), ("2.0", "other"), ("1.0", "new")):
        (site / "index.html").write_text(text)
        script.publish(folder, version)
    assert [one["version"] for one in json.loads((folder / "versions.json").read_text())] == ["1.0", "2.0"]
    assert (folder / "1.0" / "index.html").read_text() == "new"
    assert (folder / "2.0" / "index.html").read_text() == "other"
    assert "url=1.0/index.html" in (folder / "index.html").read_text()


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="nothing.html">', "links to nothing.html, which is not there"),
        ('<a href="index.html#nowhere">', "links to index.html#nowhere, which has no such place"),
        ('<a href="#nowhere">', "links to #nowhere, which has no such place"),
        ('<script src="https://cdn.example/x.js">', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "loads //fonts.example/x.css"),
    ],
)
def test_what_is_wrong_with_a_page_is_said(tmp_path: Path, link: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(f'<h1 id="top">Start</h1>{link}<a href="#top">')
    assert list(loaded(tmp_path).faults()) == [f"index.html {fault}"]


def test_every_guide_is_in_the_navigation() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text())
    text = str(config["project"]["nav"])
    guides = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "design"]
    names = [page.relative_to(ROOT / "docs").as_posix() for page in guides]
    assert [name for name in names if f"'{name}'" not in text] == []


def test_every_picture_of_the_inspector_stands_where_it_is_spoken_of() -> None:
    pages = [(ROOT / "docs" / name).read_text() for name in ("inspector.md", "quickstart.md")]
    spoken = [name for page in pages for name in re.findall(r"<!-- picture (\w+): [^>]+ -->", page)]
    tests = [
        *(ROOT / "tests" / "inspector").glob("test_*.py"),
        ROOT / "tests" / "cli" / "test_newcomer.py",
    ]
    taken = [name for path in tests for name in re.findall(r'picture\(page, "(\w+)"\)', path.read_text())]
    assert sorted(spoken) == sorted(taken)
    assert not any(page.rstrip().endswith("-->") for page in pages)


def test_a_picture_that_was_taken_replaces_its_place_and_another_leaves_none(tmp_path: Path) -> None:
    script = loaded(tmp_path)
    script.PICTURES = tmp_path / "taken"
    script.PICTURES.mkdir()
    (script.PICTURES / "tools.png").write_bytes(b"png")
    page = tmp_path / "inspector.md"
    page.write_text("A\n\n<!-- picture tools: A form -->\n\n<!-- picture wire: Frames -->\n")
    script.add_pictures(page)
    assert page.read_text().split() == ["A", "![A", "form](pictures/tools.png)"]
