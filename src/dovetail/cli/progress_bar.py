"""Progress bars on a terminal: of one call, and of a command that has several steps."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Final, TextIO

from ..telemetry.terminal_sanitizer import printable

_BAR: Final = 24
"""Characters of a progress bar."""


class Bar:
    """A progress bar on a terminal; elsewhere it prints nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if not self._stream.isatty():
            return
        text = printable(message or "").replace("\n", " ")
        if total:
            done = min(max(progress / total, 0.0), 1.0)
            marks = "#" * round(done * _BAR)
            text = f"[{marks:-<{_BAR}}] {done:4.0%} {text}"
        else:
            text = f"[{progress:g}] {text}"
        self._stream.write(f"\r\x1b[K{text[: get_terminal_size().columns - 1]}")
        self._stream.flush()
        self._shown = True

    @classmethod
    @contextmanager
    def of(cls, options: Namespace) -> Generator[Bar | None]:
        """Show a bar during one call and remove it afterwards; None with ``--json``."""
        bar = None if options.json else cls(sys.stderr)
        try:
            yield bar
        finally:
            if bar is not None:
                bar.clear()

    def clear(self) -> None:
        """Remove the bar from the terminal; the next progress shows it again."""
        if self._shown:
            self._shown = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class ProgressSteps:
    """The progress of a command: how many of its ``total`` steps have ended, and what it does now."""

    def __init__(self, bar: Bar | None, total: int) -> None:
        self._bar = bar
        self._total = total
        self._begun = 0

    def begin(self, step: str) -> None:
        """Show that the next step has begun."""
        if self._bar is not None:
            self._bar(self._begun, self._total, step)
        self._begun += 1

    def line(self, text: str) -> None:
        """Write a line to stderr, above the bar."""
        if self._bar is not None:
            self._bar.clear()
        sys.stderr.write(f"{printable(text)}\n")

    @classmethod
    @contextmanager
    def of(cls, options: Namespace, total: int) -> Generator[ProgressSteps]:
        """Show the steps of one command and remove the bar afterwards; nothing is shown with ``--json``."""
        with Bar.of(options) as bar:
            yield cls(bar, total)
