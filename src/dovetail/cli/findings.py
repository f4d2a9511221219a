"""The findings of ``dovetail doctor`` and ``dovetail doctor auth``, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ..auth.core.auth_errors import Fault
from .output import Bad, Doubtful, Good, Printer

State = Literal["ok", "note", "broken"]


class Finding(Struct, omit_defaults=True):
    """The result of one check; ``advice`` says what to do."""

    check: str
    state: State
    detail: str
    advice: str = ""
    fault: Fault | None = None
    """The side that must change something, if it is known."""


def ok(check: str, detail: str, advice: str = "") -> Finding:
    return Finding(check, "ok", detail, advice)


def note(check: str, detail: str, advice: str = "") -> Finding:
    return Finding(check, "note", detail, advice)


def broken(check: str, detail: str, advice: str, fault: Fault | None = None) -> Finding:
    return Finding(check, "broken", detail, advice, fault)


def lines_of(finding: Finding) -> list[str]:
    """Return the lines of a finding."""
    mark, style = {"ok": ("ok    ", Good), "note": ("note  ", Doubtful), "broken": ("BROKEN", Bad)}[
        finding.state
    ]
    found: list[str] = [style(f"{mark} {finding.check}: {finding.detail}".replace("\n", "\\n"))]
    if finding.fault is not None:
        found.append(f"         fault: the {finding.fault}")
    return [*found, f"         → {finding.advice}"] if finding.advice else found


def conclude(found: Sequence[Finding], printer: Printer, lines: Sequence[str] = ()) -> int:
    """Print ``lines`` and a summary, or everything as JSON; return the exit status."""
    count = sum(one.state == "broken" for one in found)
    summary = f"{count} broken, {sum(one.state == 'note' for one in found)} to check"
    printer.show({"ok": not count, "findings": found}, [*lines, summary])
    return 1 if count else 0
