"""How much of a description is read, and how much of what an API says is passed on."""

from typing import Final

SPEC_BYTES: Final = 64 << 20
"""The largest description; those of the largest public APIs have 12 MB."""
SPEC_NODES: Final = 3_000_000
"""Values a description may be made of, what several places share counted each time."""
SPEC_DEPTH: Final = 128
SPEC_SECONDS: Final = 30.0
"""How long a description is waited for that lies behind a URL."""
OPERATIONS: Final = 5_000
PARAMETERS: Final = 200
"""Parameters of one operation."""
REFERENCE_HOPS: Final = 32
"""References that lead to references."""
SCHEMA_SIZE: Final = 10_000
"""Values one schema of a tool is made of; what would be larger is shown as anything."""
MAX_REFERENCE_CHAIN: Final = 256
"""Definitions that speak about one and the same value."""
NAME_LENGTH: Final = 64
"""Characters of the names of tools and arguments: some models take no longer ones."""
MEMBER_DEPTH: Final = 8
"""Levels of members in a query parameter of the style ``deepObject``."""
REQUEST_SECONDS: Final = 30.0
"""How long an API may take to answer, unless told otherwise."""
ERROR_TEXT: Final = 2_000
"""Characters of an answer that says what went wrong."""
FLAT_DEPTH: Final = 8
"""Levels of ``allOf`` in which the members of a body are looked for."""
PIECES_AHEAD: Final = 16
"""Pieces of an answer that wait to be read."""
ESCAPES_UNFOLDED: Final = 4
"""How often an escape within an escape is looked into."""
