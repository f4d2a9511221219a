"""Regular expressions that are compiled when they are first used: compiling takes a tenth of the start."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile` later."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, pattern: Any, flags: int) -> None:
        self._given = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        # Found here at the next use: a hot path pays for an attribute, as with a compiled pattern.
        found = self.__dict__[name] = getattr(re.compile(*self._given), name)
        return found
