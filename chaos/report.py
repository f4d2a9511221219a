"""What came of a scenario, in erlmcp's own words."""

from __future__ import annotations

from dataclasses import dataclass


class Broken(Exception):
    """The server did not do what it must; the text says what."""


@dataclass
class Found:
    """What the one who causes the trouble saw."""

    detection_time_ms: float
    recovery_time_ms: float
    refusal: int | None
    """The code that was seen on the wire; None where nothing is refused."""
    note: str = ""


@dataclass
class Report:
    scenario: str
    transport: str
    found: Found | None
    data_loss: int
    """Words that were acknowledged and are gone."""
    cascading_failures: int
    """Failed calls of the bystander."""
    problem: str = ""

    @property
    def held(self) -> bool:
        return not self.problem and not self.data_loss and not self.cascading_failures

    def line(self) -> str:
        found = self.found
        seen = (
            "-"
            if found is None
            else f"detection_time_ms={found.detection_time_ms:.0f} recovery_time_ms={found.recovery_time_ms:.0f} "
            f"refusal={found.refusal if found.refusal is not None else 'none'}"
        )
        more = " ".join(part for part in (found.note if found else "", self.problem) if part)
        return (
            f"{'ok    ' if self.held else 'BROKEN'} {self.transport:5} {self.scenario:18} {seen} "
            f"data_loss={self.data_loss} cascading_failures={self.cascading_failures} {more}".rstrip()
        )
