"""What clients learn about an upstream that cannot be used: its name or address, and the cause in a few fixed words.

Messages of the original errors stay in the log: they may quote paths, commands, the stderr of a process, or text that
the upstream chose.
"""

from __future__ import annotations

import errno
from typing import Final

from ..auth.core.auth_errors import AuthError
from ..client.connecting.targets import Target
from ..client.http_client import StatusError
from ..errors import DovetailError, ProtocolError, RequestTimeout, StateError, TransportError
from ..transports.http.client.url_parts import displayed

_CAUSES: Final = {
    "refused": "connection refused",
    "unresolved": "unknown host name",
    "tls": "TLS failed",
    "proxy": "the HTTP proxy refused the connection",
    "timeout": "timed out",
    "idle": "timed out",
    "eof": "connection closed",
    "closed": "connection closed",
    "reset": "connection reset",
    "redirect": "the redirect is not allowed",
    "blocked": "the address is not allowed",
    "protocol": "no valid MCP response",
    "session": "the session was lost",
}
"""By the cause of a `TransportError`."""
_NO_WAY: Final = {
    errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "network unreachable",
    errno.ETIMEDOUT: "timed out",
    errno.ENOENT: "no such socket",
    errno.EACCES: "permission denied",
}
"""By the number of the error of the system, where it says more than that the connection was refused."""


def displayed_target(target: Target) -> str:
    """Return the target for clients: a URL has no user, path and query; a command is the base name of its program."""
    match target.kind:
        case "child":
            return target.command[0].replace("\\", "/").rpartition("/")[2]
        case "unix":
            return "at a Unix socket"
        case "memory" | "opener":
            return "in this process"
        case _:
            return displayed(target.url)


def cause_of(error: DovetailError, target: Target) -> str:
    """Return the category of a failure, such as "connection refused" or "exited with status 3"."""
    if isinstance(error, RequestTimeout):
        return "timed out"
    if isinstance(error, AuthError):
        return "authorization failed"
    if isinstance(error, StatusError):
        return f"HTTP status {error.status}"
    if isinstance(error, TransportError):
        if error.exit_status:
            return error.exit_status
        if error.cause == "refused" and target.kind == "child":
            return "the command cannot be started"
        known = _CAUSES.get(error.cause, "connection failed")
        return (error.cause == "refused" and _said_by_system(error)) or known
    if isinstance(error, StateError):
        return "not connected"
    if isinstance(error, ProtocolError) and error.kind == "unsupported_protocol_version":
        return "no common protocol revision"
    return "the server answered with an error"


def _said_by_system(error: TransportError) -> str | None:
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in _NO_WAY:
            return _NO_WAY[found.errno]
        found = found.__cause__ or found.__context__
    return None
