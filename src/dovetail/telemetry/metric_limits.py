"""Bounds of what is counted. However many names a client makes up, the tables keep their size."""

from typing import Final

CELLS: Final = 32_768
"""Numbers one process can hold; 8 bytes each, in a file that is as large as what was written to it."""
NAMES: Final = 1000
"""Tools, prompts and resources with numbers of their own; the rest are counted together."""
SERIES: Final = 256
"""Sets of labels of any other metric; the rest are counted together."""
NAME_LENGTH: Final = 128
"""Characters of a label."""
BUCKETS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""The upper ends of the buckets of every histogram, in seconds."""
OTHER: Final = "(other)"
"""The label of everything that is counted together."""
URI_LENGTH: Final = 1024
"""Characters of an address in a span."""
LOCK_TRIES: Final = 50
LOCK_PAUSE: Final = 0.002
"""How often, and after how many seconds each time, the lock of the folder is tried for."""
