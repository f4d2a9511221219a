"""Bars and colour: on a terminal, and nowhere else."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.cli.output import JsonText
from tests.support.waiting import HANG

SERVER = """
from typing import Literal
from dovetail import Context, Server
server = Server("slow")

@server.tool
async def work(ctx: Context) -> str:
    for step in range(1, 5):
        await ctx.report_progress(step, 4, f"step {step}\\x1b[31m")
    return "done"

@server.tool
async def think(question: str) -> str:
    "Think about a question for so long that the words about it do not fit into one line of a terminal at all."
    return "42"

@server.tool
async def found() -> dict[str, list[int]]:
    "Return JSON."
    return {"items": [1, 2]}

@server.tool
async def almost() -> str:
    "Return text."
    return "[note] {not json}"

@server.tool
async def search(
    query: str, limit: int = 10, kind: Literal["file", "folder"] | None = None, tags: list[str] = []
) -> dict[str, int]:
    "Search everything."
    return {}

@server.resource("slow://json", mime_type="application/json")
async def data() -> str:
    return '{"page":1}'

@server.resource("slow://page")
async def page(ctx: Context) -> str:
    await ctx.report_progress(1, 4, "reading")
    return "read"
"""


COLOUR = re.compile(r"\x1b\[[\d;]*m")


def at_a_terminal(words: list[str], folder: Path, **environ: str) -> str:
    """What a terminal of 80 columns shows."""
    main, end = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "dovetail.cli.main", *words],
        stdin=subprocess.DEVNULL, stdout=end, stderr=end, cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environ},
    )  # fmt: skip
    os.close(end)
    found = b""
    try:
        while data := os.read(main, 65536):
            found += data
    except OSError:
        pass  # so Linux says that the other end is closed
    assert child.wait(HANG) == 0
    os.close(main)
    return found.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def test_a_long_call_shows_a_bar_that_goes_away(folder: Path) -> None:
    shown = at_a_terminal(["call", "server.py", "work"], folder)
    assert "[############------------]  50% step 2" in shown
    assert "\x1b[31m" not in shown
    assert shown.rstrip().endswith("\r\x1b[Kdone")


def test_titles_are_coloured_unless_colour_is_disabled(folder: Path) -> None:
    assert "\x1b[1mtools\x1b[0m" in at_a_terminal(["list", "server.py"], folder)
    assert "\x1b[" not in at_a_terminal(["list", "server.py"], folder, NO_COLOR="1")


def test_a_list_is_a_table_that_fits_and_lines_elsewhere(folder: Path) -> None:
    shown = at_a_terminal(["list", "server.py"], folder, NO_COLOR="1").replace("\r", "").splitlines()
    assert "  work() -> str" in shown
    start = "  think(question: str) -> str  "
    assert any(line.startswith(start) and "  Think about" in line and line.endswith("…") for line in shown)
    assert max(map(len, shown)) < 80
    piped = subprocess.run(
        [sys.executable, "-m", "dovetail.cli.main", "list", "server.py"],
        cwd=folder, capture_output=True, timeout=60, check=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    at = piped.index("  think(question: str) -> str")
    assert piped[at + 1].startswith("      Think about")
    assert piped[at + 1].endswith("at all.")


def test_reading_shows_a_bar_too(folder: Path) -> None:
    assert "[######------------------]  25% reading" in at_a_terminal(
        ["read", "server.py", "slow://page"], folder
    )


def test_the_findings_of_the_doctor_have_colours(folder: Path) -> None:
    shown = at_a_terminal(["doctor", "server.py"], folder)
    assert "\x1b[32mok     connection" in shown
    assert "\x1b[33mnote   tool work" in shown
    assert not COLOUR.search(at_a_terminal(["doctor", "server.py"], folder, NO_COLOR="1"))


def test_the_doctor_shows_which_check_runs(folder: Path) -> None:
    shown = at_a_terminal(["doctor", "server.py"], folder)
    assert "[------------------------]   0% connection" in shown
    assert (
        shown.index("12% tools and latency")
        < shown.index("revision 2024-11-05")
        < shown.index("ok     connection")
    )
    assert "\r\x1b[K\x1b[32mok " in shown, "the bar is removed before the findings"


def test_exports_and_migrations_show_a_bar(folder: Path) -> None:
    (folder / "old").mkdir()
    for name in ("one", "two"):
        (folder / "old" / f"{name}.py").write_text("from fastmcp import FastMCP\nmcp = FastMCP('old')\n")
    (folder / "old" / "other.py").write_text("print('no server')\n")
    assert "50% resources" in at_a_terminal(["lock", "server.py"], folder)
    assert "50% prompts" in at_a_terminal(["stub", "server.py", "-o", "client.py"], folder)
    migrated = at_a_terminal(["migrate", "old", "--write"], folder)
    assert "50% old/two.py" in migrated
    assert "old/one.py: written" in migrated
    assert "other.py" not in migrated


def test_json_is_indented_on_a_terminal_and_unchanged_elsewhere(folder: Path) -> None:
    shown = at_a_terminal(["call", "server.py", "found"], folder).replace("\r", "")
    assert '{\n  "items": [\n    1,\n    2\n  ]\n}\n' in shown
    assert '{\n  "page": 1\n}\n' in at_a_terminal(["read", "server.py", "slow://json"], folder).replace(
        "\r", ""
    )
    piped = subprocess.run(
        [sys.executable, "-m", "dovetail.cli.main", "call", "server.py", "found"],
        cwd=folder, capture_output=True, timeout=HANG, check=True, text=True,
    ).stdout  # fmt: skip
    assert piped == '{"items":[1,2]}\n'


def test_text_that_only_begins_like_json_stays_as_it_is(folder: Path) -> None:
    shown = at_a_terminal(["call", "server.py", "almost"], folder)
    assert "[note] {not json}" in shown


def test_text_that_is_nested_too_deep_stays_as_it_is() -> None:
    text = JsonText("[" * 100_000 + "]" * 100_000)
    assert text.indented() == text


def test_a_long_signature_is_broken_between_its_parameters(folder: Path) -> None:
    shown = at_a_terminal(["list", "server.py"], folder, NO_COLOR="1").replace("\r", "").splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("  search("))
    assert shown[at : at + 3] == [
        "  search(query: str, limit: int = 10, kind: 'file' | 'folder' | None = None,",
        "        tags: list[str] = []) -> dict[str, int]",
        "      Search everything.",
    ]


def test_a_pipe_gets_neither(folder: Path) -> None:
    for words in (["call", "server.py", "work"], ["list", "server.py"]):
        done = subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", *words],
            cwd=folder, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert b"\x1b" not in done.stdout + done.stderr
