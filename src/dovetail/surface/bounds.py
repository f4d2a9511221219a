"""How much of files and folders is looked at."""

from typing import Final

LOCK_BYTES: Final = 64 << 20
"""Bytes of a lock file that is read."""
FILE_BYTES: Final = 16 << 20
"""What is read of one file or URL by default."""
NAMES_SHOWN: Final = 1000
"""Names shown of one folder."""
