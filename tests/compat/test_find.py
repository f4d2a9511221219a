"""Which programs use an original library, and the messages where it is not installed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.compat import versions
from dovetail.compat.find import Program, imports, is_original
from dovetail.compat.versions import CompatError, installed
from tests.support.process import CLI


@pytest.mark.parametrize(
    ("source", "original"),
    [
        ("from fastmcp import FastMCP", True),
        ("import os, mcp.server.lowlevel", True),
        ("def main():\n    from mcp.server.fastmcp import FastMCP", True),
        ("from dovetail import Server", False),
        ("from dovetail import Server\nfrom mcp import types", False),
        ("from .mcp import server", False),
        ("import mcphub", False),
        ("text = 'import mcp'", False),
        ("not python", False),
    ],
)
def test_the_import_statements_decide_whether_a_file_uses_an_original(
    tmp_path: Path, source: str, original: bool
) -> None:
    path = tmp_path / "server.py"
    path.write_text(source)
    assert is_original(Program(file=str(path))) is original


def test_all_files_of_a_package_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "compat_things"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('nothing is run')")
    (package / "__main__.py").write_text("from .server import mcp")
    (package / "server.py").write_text("from fastmcp import FastMCP")
    monkeypatch.syspath_prepend(tmp_path)
    assert imports(Program(module="compat_things")) == {"fastmcp"}


def test_a_missing_library_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text("from fastmcp import FastMCP\nmcp = FastMCP('x')\n")
    done = subprocess.run([*CLI, "run", str(path)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 3
    assert done.stderr == (
        f"dovetail run: {path} needs fastmcp, which is not installed: pip install fastmcp\n"
    )
    assert done.stdout == ""


@pytest.mark.parametrize(
    "words", [["--ws"], ["--http", "--workers", "2"], ["--http", "--client-ca", "ca.pem"]]
)
def test_an_option_that_means_nothing_here_is_refused(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "server.py"
    path.write_text("import mcp\n")
    done = subprocess.run([*CLI, "run", str(path), *words], capture_output=True, text=True)
    assert done.returncode == 3
    assert words[-2 if len(words) > 1 else 0] in done.stderr


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "is_installed", lambda package: True)
    monkeypatch.setattr(importlib.metadata, "version", {"mcp": "1.30.0", "fastmcp": "9.1"}.__getitem__)
    assert installed(["mcp"], "x").sdk is versions.SDKS[1]
    with pytest.raises(CompatError, match=r"fastmcp 9\.1 is not supported: .* fastmcp 2, 3, 4"):
        installed(["fastmcp"], "x")


def test_a_name_that_an_installed_version_lacks_is_reported_with_the_version() -> None:
    version = importlib.metadata.version("msgspec")
    with pytest.raises(
        CompatError, match=f"msgspec {version} has no msgspec.json.nothing, which Dovetail needs"
    ):
        versions.load("msgspec.json:nothing")


def test_a_library_that_cannot_be_imported_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "compat_broken.py").write_text("import compat_absent")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", {"compat_broken": "1.2"}.__getitem__)
    with pytest.raises(CompatError, match=r"compat_broken 1\.2 cannot be imported: .*compat_absent"):
        versions.load("compat_broken:Server")
    (tmp_path / "compat_broken.py").write_text("")
    with pytest.raises(CompatError, match=r"compat_broken 1\.2 has no compat_broken.server.Server"):
        versions.load("compat_broken.server:Server")


def test_run_requires_a_file_or_a_module() -> None:
    for words in ([], ["server.py", "-m", "package"]):
        done = subprocess.run([sys.executable, *CLI[1:], "run", *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert "FILE" in done.stderr


def test_no_extra_is_needed() -> None:
    """The environment of an original library has msgspec and what the library needs, nothing else of Dovetail's."""
    extras = (
        "joserfc httptools jsonschema_rs yaml tomlkit ruamel redis docket opentelemetry cryptography libcst"
    )
    code = f"""
import sys
sys.modules.update(dict.fromkeys({extras.split()}))
import dovetail.compat.command, dovetail.cli.run_compat
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
