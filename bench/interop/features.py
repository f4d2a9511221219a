"""The features that are tested in every pairing."""

from __future__ import annotations

from typing import NamedTuple

FEATURES = ("list", "call", "read", "prompt", "complete", "subscribe", "sample", "elicit")
OK = "ok"


class Case(NamedTuple):
    """One pairing: whose client, whose server, which way, which era."""

    client: str
    server: str
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.client} → {self.server}, {self.transport}, {self.era}"


class Row(NamedTuple):
    """What came of a case: a feature's value is "ok", why it is not offered, or what went wrong."""

    case: Case
    revision: str
    outcome: dict[str, str]
    absent: dict[str, str]

    def failures(self) -> list[str]:
        wrong = {
            feature: self.outcome.get(feature, "no outcome")
            for feature in FEATURES
            if feature not in self.absent and self.outcome.get(feature) != OK
        }
        if len(wrong) > 1 and len(set(wrong.values())) == 1:  # it never came to the features
            return [f"{self.case}: {next(iter(wrong.values()))}"]
        return [f"{self.case}: {feature}: {why}" for feature, why in wrong.items()]
