"""Every Python block of the README and the guides runs, top to bottom, one file after the other."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterable
from pathlib import Path

import pytest

from dovetail import App, Server
from dovetail.server import current_call
from dovetail.server.input_requests.request_kinds import SampleOptions
from dovetail.server.registry.component_options import ResourceOptions, SharedOptions, ToolOptions
from tests.peers.environment import need
from tests.support.waiting import HANG

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if DOCS / "design" not in page.parents),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    text = page.read_text()
    return [
        (text[: match.start()].count("\n") + 1, match[2])
        for match in BLOCK.finditer(text)
        if match[1] == language
    ]


@pytest.mark.parametrize(
    "page",
    # These are run by test_tutorial.py, frameworks/test_frameworks.py, and the tests in deploy/.
    [
        page
        for page in PAGES
        if page.name not in ("tutorial.md", "frameworks.md", "going-to-production.md")
        and page.parent.name != "deploy"
    ],
    ids=lambda page: page.name,
)
def test_every_python_block_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(current_call, "wanted", "get_context" in page.read_text())
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    # A real module, so that annotations of the examples can be resolved as in a file of the reader's.
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    for line, source in blocks(page, "python"):
        code = compile(
            "\n" * line + source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        value = eval(code, module.__dict__)
        if inspect.iscoroutine(value):
            asyncio.run(asyncio.wait_for(value, HANG))


def test_the_commands_of_the_readme_exist() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    for page in PAGES:
        for _, source in blocks(page, "console"):
            for command in re.findall(r"^make ([a-z-]+)", source, re.MULTILINE):
                assert command in targets, f"{page.name} names `make {command}`"


def test_every_link_of_the_docs_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(
                "reference/"
            ):  # scripts/site.py makes these pages, and follows the links
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize(
    ("page", "heading", "options"),
    [
        ("tools.md", "## Options of a tool", ToolOptions.__annotations__),
        ("resources.md", "## Options of a resource", ResourceOptions.__annotations__),
        ("prompts.md", "## Options of a prompt", SharedOptions.__annotations__),
        ("sampling.md", "## Options", [*SampleOptions.__annotations__, "messages"]),
        ("apps.md", "## Options", App.__struct_fields__),
        ("quickstart.md", "## Options of a server", [*inspect.signature(Server).parameters]),
    ],
)
def test_the_table_has_every_option(page: str, heading: str, options: Iterable[str]) -> None:
    text = (DOCS / page).read_text().partition(f"{heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \| [^\n]* \|$", text, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(
        {*options} - {"annotations" if page == "prompts.md" else ""}
    )


def test_every_page_is_reached_from_another() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")]
    linked = {
        (page.parent / target).resolve()
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if (page.parent / target).resolve() != page
    }
    assert sorted(page.name for page in DOCS.rglob("*.md") if page not in linked) == []


FIND = """
import importlib, sys

for path in sys.argv[1:]:
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
            break
        except ImportError:
            continue
    for name in parts[cut:]:
        found = getattr(found, name)
"""


@pytest.mark.parametrize(
    "family",
    [
        "dovetail",
        pytest.param("fastmcp", marks=pytest.mark.peer),
        pytest.param("mcp", marks=pytest.mark.peer),
    ],
)
def test_every_name_in_the_migration_tables_exists(family: str) -> None:
    """The names of the newest majors, in the environments of the peers."""
    peer = {"dovetail": "", "fastmcp": "fastmcp", "mcp": "sdk"}[family]
    python = ROOT / ".peers" / peer / "bin" / "python" if peer else Path(sys.executable)
    need(peer)
    _, _, table = (DOCS / "migrate.md").read_text().partition("## From FastMCP 4 and SDK 2")
    names = re.findall(rf"`({family}\.[\w.]+)`", table.partition("\n## ")[0])
    assert len(names) > 20
    done = subprocess.run(
        [python, "-c", FIND, *names], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
