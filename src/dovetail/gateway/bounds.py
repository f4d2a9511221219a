"""The bounds of the gateway that nobody turns."""

from typing import Final

LISTINGS_KEPT: Final = 256
"""Lists put together for different callers, and collisions that are reported."""
ROUTES_KEPT: Final = 10_000
"""Tools of which it is remembered whose they are."""
