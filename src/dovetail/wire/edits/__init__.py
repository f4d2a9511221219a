"""What each revision does not know, as tables, and the sieve made of them."""

import functools

from ..revisions import Revision
from . import y2024_11, y2025_03, y2025_06, y2025_11, y2026_07
from .plans import Edits, Sieve

__all__ = ["Edits", "Sieve", "sieve_for"]

_OLDER = {4: y2025_11.EDITS, 3: y2025_06.EDITS, 2: y2025_03.EDITS, 1: y2024_11.EDITS}


@functools.cache
def sieve_for(revision: Revision) -> Sieve:
    """The sieve of this revision: its own table and those of the revisions after it."""
    if revision.modern:
        return Sieve(y2026_07.EDITS)
    return Sieve(*(edits for index, edits in _OLDER.items() if index >= revision.index))
