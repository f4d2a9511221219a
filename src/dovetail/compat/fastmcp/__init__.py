"""The module tree of FastMCP 2 and 3 (``fastmcp``) over ours."""

from typing import TYPE_CHECKING

from ..later import later
from .exceptions import FastMCPDeprecationWarning
from .generation import generation as _generation
from .server.context import Context
from .server.server import VERSIONS, FastMCP
from .settings import settings
from .utilities.types import Audio, File, Image

if TYPE_CHECKING:
    from .client import Client

__version__ = VERSIONS[_generation()]
__getattr__ = later(__name__, {"Client": ".client"})
__all__ = ["Audio", "Client", "Context", "FastMCP", "FastMCPDeprecationWarning", "File", "Image", "settings"]
