"""Which FastMCP a server was written for: 2 and 3 differ in schemas, in texts, in what decorators return.

``DOVETAIL_FASTMCP=2`` (or 3) says it. Otherwise the distribution that is installed tells, or what the project of the
program demands (``fastmcp<3`` in its pyproject.toml or requirements.txt); 3 where nobody says.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final

from ..hook import installed

VARIABLE: Final = "DOVETAIL_FASTMCP"
_DEMAND: Final = re.compile(
    r"""^\s*["']?fastmcp(?:\[[^\]]*\])?\s*([^"'#;\n]*)""", re.MULTILINE | re.IGNORECASE
)
_BELOW_3: Final = re.compile(r"<\s*3|<=\s*2|(?:==|~=|===)\s*2|\^\s*2")
_FILES: Final = ("pyproject.toml", "requirements.txt")
_LEVELS: Final = 4
"""Folders above the program that are looked into."""


@cache
def generation() -> int:
    """2 or 3."""
    said = os.environ.get(VARIABLE, "")
    if said[:1] in ("2", "3"):
        return int(said[0])
    version = installed("fastmcp")
    if version is None:
        return _demanded()
    return 2 if version.startswith("2.") else 3


def _demanded() -> int:
    start = Path(sys.argv[0]).resolve().parent if sys.argv and sys.argv[0] else Path.cwd()
    for folder in (start, *start.parents[:_LEVELS]):
        for name in _FILES:
            try:
                text = (folder / name).read_text("utf-8", "replace")
            except OSError:
                continue
            if demand := _DEMAND.search(text):
                return 2 if _BELOW_3.search(demand[1]) else 3
    return 3
