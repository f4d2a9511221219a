"""Where a server has its components from."""

from typing import TYPE_CHECKING

from ....later import later
from .base import Provider
from .local import LocalProvider

if TYPE_CHECKING:
    from .fastmcp_provider import FastMCPProvider

__getattr__ = later(__name__, {"FastMCPProvider": ".fastmcp_provider"})
__all__ = ["FastMCPProvider", "LocalProvider", "Provider"]
