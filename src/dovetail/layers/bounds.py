"""The bounds of layers that nobody needs to turn."""

from __future__ import annotations

from typing import Final

REFUSALS_AT_ONCE: Final = 100
"""Refusals that one client is told at once, in a second; each further one waits `REFUSAL_PAUSE` and for its turn."""
REFUSAL_PAUSE: Final = 0.05
"""Seconds that a refusal waits for a client that goes on all the same."""
REFUSAL_TURN: Final = 1.0
"""Seconds at most until it is the turn of a refusal that waits."""
REFUSALS_HELD: Final = 1000
"""Refusals that wait, of all clients together; one more is told at once."""
LONGEST_SECRET: Final = 32 << 10
"""Characters of whatever the patterns of `redaction.SECRETS` find; none of them finds more."""
