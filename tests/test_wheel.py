"""The wheel under its name on the index, in an environment with nothing else, and the hints it gives there."""

import os
import re
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from dovetail.extras import DISTRIBUTION, EXTRAS, install

ROOT = Path(__file__).resolve().parents[1]
HINT = re.compile(r"pip install '(dovetail-mcp\[\w+\])'")

CONNECT = """
import asyncio, dovetail
async def main():
    async with dovetail.Client({target!r}): pass
asyncio.run(main())
"""
VALIDATE = """
import dovetail
schema = {'type': 'object', 'unevaluatedProperties': False}
dovetail.Server('x').add_tool(lambda arguments: None, name='t', description='d', input_schema=schema)
"""
KEEP = """
import asyncio
from dovetail.stores import RedisStore
asyncio.run(RedisStore("redis://127.0.0.1:9").get("a"))
"""
SPREAD = """
import asyncio
from dovetail.stores import RedisStore
from dovetail.cluster.task_dispatch import DocketQueue
asyncio.run(DocketQueue(RedisStore("redis://127.0.0.1:9"), "x").add("a"))
"""
WANTING = {
    "httptools": CONNECT.format(target="http://127.0.0.1:9/mcp"),
    "websockets": CONNECT.format(target="ws://127.0.0.1:9/mcp"),
    "jsonschema_rs": VALIDATE,
    "redis": KEEP,
    "docket": SPREAD,
    "joserfc": "from dovetail.auth import DPoP",
    "keyring": "from dovetail.auth import KeyringStore; KeyringStore()",
    "opentelemetry": "from dovetail.middleware import Tracing",
    "yaml": "from dovetail.wire.frontmatter import read_frontmatter; read_frontmatter('---\\na: 1\\n---')",
    "tomlkit": "from dovetail.cli.toml_files import put; put('', ('a', 'b'), {})",
    "ruamel.yaml": "from dovetail.cli.yaml_files import put; put('', ('a', 'b'), {})",
    "libcst": "from dovetail.cli.migrate import migrated; migrated(b'import fastmcp')",
}
"""Module → a program that wants it, and says so where it is not there."""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that does not see our sources."""
    without = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # many programs load the same modules
    environment = {name: value for name, value in os.environ.items() if name not in without}
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=240, env=environment
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", folder, ROOT),
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


MODULES = {
    "opentelemetry_api": "opentelemetry",
    "pydocket": "docket",
    "pyyaml": "yaml",
    "ruamel_yaml": "ruamel.yaml",
}
"""Packages that are called otherwise than what one imports of them."""


def brought(wheel: Path) -> dict[str, set[str]]:
    """Extra → the modules of the packages it asks for, as the wheel's metadata say."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    found: dict[str, set[str]] = {extra: set() for extra in metadata.get_all("Provides-Extra", [])}
    for requirement in metadata.get_all("Requires-Dist", []):
        package = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        if package is not None and extra is not None:
            name = package[0].replace("-", "_")
            found[extra[1]].add(MODULES.get(name, name))
    return found


def test_the_wheel_has_the_distribution_name(wheel: Path) -> None:
    assert wheel.name.startswith("dovetail_mcp-")


def test_the_page_of_the_inspector_is_in_the_wheel(wheel: Path) -> None:
    page = ROOT / "src" / "dovetail" / "inspector" / "page"
    wanted = {f"dovetail/inspector/page/{path.relative_to(page)}" for path in page.rglob("*.*")}
    with ZipFile(wheel) as archive:
        assert wanted <= set(archive.namelist())
    assert len(wanted) > 10


def test_every_hinted_extra_is_one_of_the_wheel_and_brings_its_module(wheel: Path) -> None:
    extras = brought(wheel)
    assert {module: module in extras.get(extra, ()) for module, extra in EXTRAS.items()} == dict.fromkeys(
        EXTRAS, True
    )


def test_only_one_place_says_what_to_install() -> None:
    hints = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if "pip install" in path.read_text()
    ]
    assert hints == ["src/dovetail/extras.py"]


def test_the_extras_that_are_promised_are_there(wheel: Path) -> None:
    assert {"http", "ws", "redis", "auth", "otel", "cli", "all"} <= brought(wheel).keys()


def test_install_hints_in_the_docs_name_existing_extras(wheel: Path) -> None:
    extras = brought(wheel)
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    for page in pages:
        for name, asked in re.findall(r"\b(dovetail[\w-]*)\[([\w,]+)\]", page.read_text()):
            assert name == DISTRIBUTION, page
            assert set(asked.split(",")) <= set(extras), page


def test_the_installation_page_lists_every_extra(wheel: Path) -> None:
    page = (ROOT / "docs" / "installation.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(brought(wheel))


BARE = """
import importlib, sys
from dovetail.cli.main import COMMANDS
from dovetail.extras import EXTRAS

for module, extra in EXTRAS.items():
    if extra != "http":
        sys.modules[module] = None  # nobody has installed it
for name in {*sys.argv[1:], *(module for module, _ in COMMANDS.values())}:
    importlib.import_module(name)
"""


def test_every_command_and_every_room_needs_nothing_but_http_until_it_is_asked_for_more() -> None:
    rooms = [
        "auth",
        "gateway",
        "inspector",
        "middleware",
        "openapi",
        "stores",
        "sync",
        "telemetry",
        "testing",
        "cluster",
    ]
    done = run(sys.executable, "-c", BARE, *[f"dovetail.{room}" for room in rooms])
    assert done.returncode == 0, done.stderr


@pytest.fixture
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it cannot do without."""
    folder = tmp_path_factory.mktemp("empty")
    assert run(sys.executable, "-m", "venv", "--without-pip", folder).returncode == 0
    done = run(*pip(folder), f"{DISTRIBUTION} @ {wheel.as_uri()}")
    assert done.returncode == 0, done.stderr
    return folder


def pip(folder: Path) -> list[str | Path]:
    words = ["--python", folder / "bin" / "python", "install", "--quiet", "--no-compile"]
    return [sys.executable, "-m", "pip", *words]


@pytest.mark.slow  # it installs packages from the index
def test_each_hint_is_given_in_an_empty_environment(empty: Path) -> None:
    assert set(WANTING) == set(EXTRAS), "a new hint needs a program that makes it appear"
    assert run(empty / "bin" / "dovetail", "--version").stdout.startswith("dovetail ")
    for module, program in WANTING.items():
        said = run(empty / "bin" / "python", "-c", program)
        found = HINT.search(said.stderr)
        assert found is not None, (module, said.stderr)
        assert found[0] == install(module)


@pytest.mark.slow  # it installs packages from the index
def test_each_hint_is_followed(wheel: Path, empty: Path) -> None:
    python, extras = empty / "bin" / "python", sorted(set(EXTRAS.values()))
    done = run(*pip(empty), *(f"{DISTRIBUTION}[{extra}] @ {wheel.as_uri()}" for extra in extras))
    assert done.returncode == 0, done.stderr
    done = run(python, "-c", "\n".join(f"import {module}" for module in WANTING))
    assert done.returncode == 0, done.stderr
    for module, program in WANTING.items():
        assert HINT.search(run(python, "-c", program).stderr) is None, module
