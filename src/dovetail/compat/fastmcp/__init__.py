"""The module tree of FastMCP 2 and 3 (``fastmcp``) over ours."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .exceptions import FastMCPDeprecationWarning
from .generation import generation as _generation
from .server.context import Context
from .server.server import VERSIONS, FastMCP
from .settings import settings
from .utilities.types import Audio, File, Image

if TYPE_CHECKING:
    from .client import Client

__version__ = VERSIONS[_generation()]


def __getattr__(name: str) -> Any:
    """Few servers are clients, too."""
    if name == "Client":
        return vars(import_module(".client", __name__))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Audio", "Client", "Context", "FastMCP", "FastMCPDeprecationWarning", "File", "Image", "settings"]
