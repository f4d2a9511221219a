"""The stderr output of a server process is grouped: a log line and its traceback are one entry."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.inspector.stderr_entries import ENTRY_LINES, StderrEntries
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LINE = "2026-11-19T20:00:00.000Z"
TRACEBACK = f"""{LINE} ERROR incident 45e633214bea: tool 'fail' failed
Traceback (most recent call last):
  File "server.py", line 6, in fail
    raise ValueError("no")
ValueError: no

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "server.py", line 8, in fail
    raise KeyError("other")
KeyError: 'other'
"""


async def entries(*parts: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    made = StderrEntries(lambda level, text: found.append((level, text)))
    for part in parts:
        made.feed(part.encode())
    made.flush()
    return found


async def test_each_line_is_an_entry_with_its_level() -> None:
    assert await entries(f"{LINE} WARNING slow\nplain\n{LINE} INFO done\n") == [
        ("warning", f"{LINE} WARNING slow"), ("stderr", "plain"), ("info", f"{LINE} INFO done"),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_traceback_belongs_to_its_log_line_wherever_the_output_is_cut(size: int) -> None:
    text = f"before\n{TRACEBACK}{LINE} INFO after\n"
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    assert await entries(*parts) == [
        ("stderr", "before"), ("error", TRACEBACK.rstrip()), ("info", f"{LINE} INFO after"),
    ]  # fmt: skip


async def test_a_traceback_without_a_log_line_is_an_error() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no'
    assert await entries(text) == [("error", text)]


async def test_indented_lines_continue_an_entry_up_to_a_limit() -> None:
    found = await entries("first\n" + "  more\n" * ENTRY_LINES)
    assert [text.count("\n") for _, text in found] == [ENTRY_LINES - 1, 0]


async def test_the_last_entry_is_complete_after_a_pause() -> None:
    found: list[str] = []
    made = StderrEntries(lambda level, text: found.append(text))
    made.feed(b"no end")
    async with asyncio.timeout(30):
        await until(lambda: found == ["no end"])
