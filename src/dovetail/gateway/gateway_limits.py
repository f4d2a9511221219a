"""The bounds of the gateway that nobody turns."""

from typing import Final

LISTINGS_KEPT: Final = 256
"""Lists put together for different callers, and collisions that are reported."""
RULES_KEPT: Final = 100
"""Rules about what one session or principal sees."""
RULES_LENGTH: Final = 10_000
"""Characters of all of them together."""
ROUTES_KEPT: Final = 10_000
"""Tools of which it is remembered whose they are."""

HELD_CALLS: Final = 1_000
"""Calls behind that wait for an answer of a modern client, of all clients together."""
HELD_CALLS_EACH: Final = 100
"""Those of one principal."""
HELD_SECONDS: Final = 600.0
"""How long a modern client may take to come back with its answers."""
HELD_SIGN: Final = 5.0
"""Seconds between two signs of life while a call is held in one process and its client waits in another."""
UPSTREAMS_KEPT: Final = 256
"""Connections of one proxy, one for each principal, or half of them where it has one for each session; the one idle
longest makes room, and if none is, one more is refused."""
UPSTREAM_RETRY: Final = (0.5, 30.0)
"""Seconds between attempts to reach a server that is down: the first pause, and the longest."""
START_PATIENCE: Final = 10.0
"""How long a gateway waits for a server before it serves the others; that one is there when it is ready."""
LIST_PATIENCE: Final = 10.0
"""How long a list waits for what one server has to say to it."""
MEETING_SECONDS: Final = 5.0
"""How long a client that says hello waits to be told what a server offers that is there for each caller anew."""
RETIRED_SECONDS: Final = 30.0
"""How long calls may go on at a server that was replaced."""
LONGEST_CHAIN: Final = 8
"""Proxies one behind the other, and gateways that start each other."""
LONGEST_NAME: Final = 1_000
"""Characters of a name or URI of a server behind; what has more is left out."""
SKILL_PAGES: Final = 100
"""Pages of skills, or of a directory of them, that are taken from one server behind."""
FILE_LOOK: Final = 1.0
"""Seconds between looks at a gateway's file."""

SEARCHED_TEXT: Final = 4_000
"""Characters of a tool's words that are searched."""
SEARCH_RESULTS: Final = 50
"""Tools that one search finds at most."""
INDEXES_KEPT: Final = 16
"""Indexes of tools, for callers who see different ones."""
PREFIX_LENGTH: Final = 64
"""Characters of a prefix."""
