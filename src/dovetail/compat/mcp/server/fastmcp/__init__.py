"""`FastMCP` of SDK 1.x."""

from ...types import Icon
from .server import Context, FastMCP
from .utilities.types import Audio, Image

__version__ = "1.30.0"
__all__ = ["Audio", "Context", "FastMCP", "Icon", "Image"]
