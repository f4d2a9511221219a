"""What functions may have put in."""

from .injection import Dependency, Depends
from .server.dependencies import (
    CurrentAccessToken,
    CurrentContext,
    CurrentFastMCP,
    CurrentHeaders,
    CurrentRequest,
    Progress,
    TokenClaim,
)

__all__ = [
    "CurrentAccessToken", "CurrentContext", "CurrentFastMCP", "CurrentHeaders", "CurrentRequest", "Dependency",
    "Depends", "Progress", "TokenClaim",
]  # fmt: skip
