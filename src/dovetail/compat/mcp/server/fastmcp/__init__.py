"""`FastMCP` of SDK 1.x."""

from typing import TYPE_CHECKING

from ....later import later
from .server import Context, FastMCP
from .utilities.types import Audio, Image

if TYPE_CHECKING:
    from ...types import Icon

__getattr__ = later(__name__, {"Icon": "...types.base"})
__version__ = "1.30.0"
__all__ = ["Audio", "Context", "FastMCP", "Icon", "Image"]
