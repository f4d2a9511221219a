"""The server. Its parts are needed by what they stand on, too, so none is loaded here."""

from typing import TYPE_CHECKING

from ...later import later

if TYPE_CHECKING:
    from .context import Context
    from .proxy import create_proxy
    from .server import FastMCP

__getattr__ = later(__name__, {"Context": ".context", "FastMCP": ".server", "create_proxy": ".proxy"})
__all__ = ["Context", "FastMCP", "create_proxy"]
