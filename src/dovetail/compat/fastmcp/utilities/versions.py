"""Versions of components, and what is asked of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


def version_key(version: str | None) -> Any:
    """What versions are compared by: numbers as numbers; without one comes first."""
    if version is None:
        return ()
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"[.\-+]", version)
    )


@dataclass(frozen=True)
class VersionSpec:
    """Which versions are wanted."""

    gte: str | None = None
    lt: str | None = None
    eq: str | None = None

    def matches(self, version: str | None, *, match_none: bool = True) -> bool:
        """Whether ``version`` is one of them; components without a version are, unless told otherwise."""
        if version is None:
            return match_none
        key = version_key(version)
        return (
            (self.eq is None or version == self.eq)
            and (self.gte is None or key >= version_key(self.gte))
            and (self.lt is None or key < version_key(self.lt))
        )

    def intersect(self, other: VersionSpec | None) -> VersionSpec:
        """What both want."""
        if other is None:
            return self
        lowest = max((one for one in (self.gte, other.gte) if one), key=version_key, default=None)
        highest = min((one for one in (self.lt, other.lt) if one), key=version_key, default=None)
        return VersionSpec(lowest, highest, self.eq or other.eq)
