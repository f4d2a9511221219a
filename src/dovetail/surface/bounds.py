"""How much of files, folders and schemas is looked at."""

from typing import Final

LOCK_BYTES: Final = 64 << 20
"""Bytes of a lock file that is read."""
FILE_BYTES: Final = 16 << 20
"""What is read of one file or URL by default."""
NAMES_SHOWN: Final = 1000
"""Names shown of one folder."""
COMPARED_DEPTH: Final = 64
COMPARED_STEPS: Final = 20_000
"""Levels and comparisons of one pair of schemas; what takes more is not proven."""
