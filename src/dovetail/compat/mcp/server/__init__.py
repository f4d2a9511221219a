"""The servers of SDK 1.x over ours: `lowlevel`, and `fastmcp` on top."""

from typing import TYPE_CHECKING

from ...later import later
from .lowlevel import NotificationOptions, Server

if TYPE_CHECKING:
    from .models import InitializationOptions

__getattr__ = later(__name__, {"FastMCP": ".fastmcp", "InitializationOptions": ".models"})
__all__ = ["InitializationOptions", "NotificationOptions", "Server"]
