"""The bounds of middleware that nobody needs to turn."""

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
RATE_KEYS: Final = 20_000
"""Clients, principals, sessions, addresses or tools one rate is kept for at once; those not seen for long go first."""
RATE_RESERVED_PART: Final = 0.02
"""The part of the tokens left in the store that one process reserves at once."""
RATE_RETURN_SECONDS: Final = 1.0
"""Seconds after which a process returns reserved tokens that it has not used."""
RATE_REFUSED_SECONDS: Final = 0.1
"""Seconds in which a process refuses without asking the store again: other processes may return tokens."""
RATE_STORE_SECONDS: Final = 1.0
"""Seconds the store may take to answer; and seconds a process then limits alone before it asks the store again."""
RATE_BLOCK: Final = 300.0
RATE_VIOLATIONS: Final = 100
RATE_VIOLATION_SECONDS: Final = 60.0
"""erlmcp: seconds a client is refused altogether after so many refusals in so many seconds."""
SHORTEST_WAIT: Final = 0.001
"""Seconds a refused client is told to wait at least."""
CLOCK_SLIP: Final = 1.0
"""Seconds by which a clock must have gone back before it is noticed."""
LAYER_QUEUE: Final = 100
"""Calls that may wait for one of a limited number of places."""
LAYER_KEYS: Final = 10_000
"""Names a guard or a memory of results keeps something for."""
HEALTH_EVERY: Final = 30.0
HEALTH_LIMIT: Final = 5.0
HEALTH_FAILURES: Final = 3
HEALTH_THREADS: Final = 8
"""erlmcp: seconds between two looks at a component, seconds one may take, failures in a row until it is not ok; and
threads for checks that are plain functions."""
HEALTH_URI: Final = "health://server"
VITALS_EVERY: Final = 1.0
"""Seconds between two looks at the event loop and the memory."""
LOOP_BEAT: Final = 0.1
LOOP_BLOCKED: Final = 0.25
LOOP_LOGGED: Final = 1.0
LOOP_STACK: Final = 30
"""Seconds between two beats of an event loop, seconds without an answer until it is blocked, seconds between two lines
of the log about that, calls of its stack that are shown."""
LOOP_LATE: Final = 3
"""Looks in a row at a loop that is late until the server is not ready."""
MEMORY_TIGHT: Final = 0.85
MEMORY_FULL: Final = 0.95
"""Parts of the memory there may be, from which on a server is not ready, and refuses calls."""
MEMORY_RELEASED: Final = 5
"""Looks at a memory that is short between two attempts to give some back."""
RETRY_ATTEMPTS: Final = 3
RETRY_FIRST: Final = 0.1
RETRY_LONGEST: Final = 5.0
"""Attempts of one call, and seconds between them at first and at most."""
LOGGED_DEPTH: Final = 6
LOGGED_ITEMS: Final = 50
LOGGED_TEXT: Final = 500
"""Levels, members and characters of arguments that are logged."""
TIMING_NAMES: Final = 500
TIMING_SAMPLES: Final = 1000
"""Names that are timed apart, and how many of the latest of each."""
BUDGET_PAGES: Final = 1000
BUDGET_SECONDS: Final = 3600.0
"""Results whose rest is kept to be read, and for how long."""
AUDIT_CHECKPOINT: Final = 1000
AUDIT_ROTATE: Final = 256 << 20
AUDIT_LINE: Final = 1 << 20
AUDIT_WRITERS: Final = 1000
"""Lines between two signatures, bytes of one file, bytes of one line, processes that write beside each other."""
BREAKER_FAILURES: Final = 5
BREAKER_RESET: Final = 60.0
BREAKER_SUCCESSES: Final = 2
"""erlmcp: failures that open a circuit, seconds it stays open, successes that close it again."""
BUDGET_LINK: Final = 300
"""Bytes a link to the rest may take."""
