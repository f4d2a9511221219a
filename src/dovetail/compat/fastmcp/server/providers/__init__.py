"""Where a server has its components from."""

from .base import Provider
from .fastmcp_provider import FastMCPProvider
from .local import LocalProvider

__all__ = ["FastMCPProvider", "LocalProvider", "Provider"]
