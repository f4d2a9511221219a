"""Authorization, both sides: who may call a server, and how a client logs in.

`core` holds the decisions, without I/O; `server` what verifies tokens and guards components.
"""

from ..core.principal import Principal

__all__ = ["Principal"]
