"""The pages show the files that ``dovetail new --target`` writes, and every target has a page."""

from pathlib import Path

import pytest

from dovetail.cli import new
from tests.deploy.projects import PAGES, files

COMMON = {
    *(".gitignore", ".github/workflows/release.yml", "README.md", "pyproject.toml"),
    *("server.py", "server.json", "manifest.json", "tests/test_server.py"),
}
"""Files of every project, which the pages do not show."""


@pytest.mark.parametrize("target", new.TARGETS)
def test_a_page_shows_each_file_of_its_target_as_it_is_written(target: str, tmp_path: Path) -> None:
    project = tmp_path / "my-notes"
    written = new.write(project, "my-notes", "you", target)
    shown = files(target)
    assert shown
    for path, text in shown.items():
        assert (project / path).read_text() == text, path
    added = {*written} - COMMON - {"src/server.py"}
    assert added - {*files("docker")} <= {*shown} <= added


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md")))
def test_every_page_shows_files_and_begins_with_the_command_for_the_project(page: str) -> None:
    assert files(page)
    target = f" --target {page}" if page in new.TARGETS else ""
    assert f"dovetail new my-notes{target}\n" in (PAGES / f"{page}.md").read_text()
