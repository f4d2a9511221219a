"""Bars and colour: on a terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """
from dovetail import Context, Server
server = Server("slow")

@server.tool
async def work(ctx: Context) -> str:
    for step in range(1, 5):
        await ctx.report_progress(step, 4, f"step {step}\\x1b[31m")
    return "done"
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
    assert child.wait(30) == 0
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


def test_a_pipe_gets_neither(folder: Path) -> None:
    for words in (["call", "server.py", "work"], ["list", "server.py"]):
        done = subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", *words],
            cwd=folder, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert b"\x1b" not in done.stdout + done.stderr
