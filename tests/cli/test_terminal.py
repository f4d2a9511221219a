"""Bars and colour: on a terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG

SERVER = """
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

@server.resource("slow://page")
async def page(ctx: Context) -> str:
    await ctx.report_progress(1, 4, "reading")
    return "read"
"""


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


def test_titles_stand_out_unless_nobody_wants_colour(folder: Path) -> None:
    assert "\x1b[1mtools\x1b[0m" in at_a_terminal(["list", "server.py"], folder)
    assert "\x1b[" not in at_a_terminal(["list", "server.py"], folder, NO_COLOR="1")


def test_a_list_is_a_table_that_fits_and_lines_elsewhere(folder: Path) -> None:
    shown = at_a_terminal(["list", "server.py"], folder, NO_COLOR="1").replace("\r", "").splitlines()
    assert "  work()" in shown
    assert any(line.startswith("  think(question)  Think about") and line.endswith("…") for line in shown)
    assert max(map(len, shown)) < 80
    piped = subprocess.run(
        [sys.executable, "-m", "dovetail.cli.main", "list", "server.py"],
        cwd=folder, capture_output=True, timeout=60, check=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    at = piped.index("  think(question)")
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
    assert "\x1b[" not in at_a_terminal(["doctor", "server.py"], folder, NO_COLOR="1")


def test_a_pipe_gets_neither(folder: Path) -> None:
    for words in (["call", "server.py", "work"], ["list", "server.py"]):
        done = subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", *words],
            cwd=folder, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert b"\x1b" not in done.stdout + done.stderr
