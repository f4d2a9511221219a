"""A new project runs, and so do its own tests."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from dovetail import Client
from dovetail.cli.main import main
from dovetail.cli.new import TARGETS
from tests.support.aio import run

FILES = {
    "docker": {"Dockerfile", "compose.yaml", ".dockerignore"},
    "kubernetes": {"Dockerfile", "kubernetes/server.yaml", "kubernetes/autoscaler.yaml"},
    "lambda": {"handler.py", "requirements.txt", "template.yaml", "web-adapter.Dockerfile"},
    "cloud-run": {"Dockerfile", "service.yaml"},
    "workers": {"src/entry.py", "src/server.py", "wrangler.jsonc"},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my-notes", "--owner", "ada"]) == 0
    return tmp_path / "my-notes"


def test_the_tests_of_a_new_project_pass(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_every_file_of_it_can_be_read_and_names_the_same(project: Path) -> None:
    made = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    registry = json.loads((project / "server.json").read_text())
    manifest = json.loads((project / "manifest.json").read_text())
    assert made["name"] == manifest["name"] == registry["packages"][0]["identifier"] == "my-notes"
    assert registry["name"] == "io.github.ada/my-notes"
    assert made["version"] == registry["version"] == manifest["version"] == registry["packages"][0]["version"]
    steps = yaml.safe_load((project / ".github/workflows/release.yml").read_text())["jobs"]["release"][
        "steps"
    ]
    assert any("dovetail diff" in step.get("run", "") for step in steps)
    for path in project.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert "@NAME@" not in path.read_text()


@run
async def test_it_is_served_and_its_bundle_starts_it(project: Path) -> None:
    manifest = json.loads((project / "manifest.json").read_text())["server"]["mcp_config"]
    command = [word.replace("${__dirname}", str(project)) for word in (sys.executable, *manifest["args"])]
    async with Client(command) as client:
        assert {tool.name for tool in await client.list_tools()} == {"add_note", "find_notes", "delete_note"}


@pytest.mark.parametrize("target", TARGETS)
def test_a_project_with_a_target_has_its_files_and_passes_its_tests(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my-notes", "--target", target, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {*said["files"]} >= FILES[target]
    assert {
        path.relative_to("my-notes").as_posix() for path in Path("my-notes").rglob("*") if path.is_file()
    } == {*said["files"]}
    assert TARGETS[target].deploy.replace("@NAME@", "my-notes") == said["next"][-1]
    assert said["next"][-1] in Path("my-notes/README.md").read_text()
    words = [
        word for path in said["files"] for word in re.findall("@[A-Z]+@", Path("my-notes", path).read_text())
    ]
    assert words == []
    tomllib.loads(Path("my-notes/pyproject.toml").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd="my-notes", capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_nothing_is_overwritten_and_names_are_checked(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chdir(project.parent)
    assert main(["new", "my-notes"]) == 1
    for name in ("../x", "A", "a b", "a;b", "-", "1a", "a" * 65):
        assert main(["new", "--", name]) == 2
    assert sorted(path.name for path in project.parent.iterdir()) == ["my-notes"]
