"""The module tree of FastMCP 2 and 3 (``fastmcp``) over ours."""

from .exceptions import FastMCPDeprecationWarning
from .settings import Settings

settings = Settings()
"""What the environment says; assigned before the rest is imported, since servers read it."""

from .client import Client  # noqa: E402
from .generation import generation  # noqa: E402
from .server.context import Context  # noqa: E402
from .server.server import VERSIONS, FastMCP  # noqa: E402
from .utilities.types import Audio, File, Image  # noqa: E402

__version__ = VERSIONS[generation()]
__all__ = ["Audio", "Client", "Context", "FastMCP", "FastMCPDeprecationWarning", "File", "Image", "settings"]
