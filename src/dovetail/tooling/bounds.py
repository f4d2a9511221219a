"""How much of files and of servers under examination is looked at, and for how long."""

from typing import Final

SLOW_PING: Final = 0.5
PINGS: Final = 5
EXAMINED_SECONDS: Final = 10.0
"""Seconds from which on a server is called slow, how often it is asked, and seconds that one look may take."""
METRICS_BYTES: Final = 1 << 20
"""Bytes that are read of a page of metrics."""
CONFIG_BYTES: Final = 16 << 20
"""Bytes of a configuration of a client."""
CONFIG_DEPTH: Final = 200
"""Levels of one."""
CHECK_SECONDS: Final = 30.0
"""Seconds a server has to start before `dovetail install` writes it down."""
