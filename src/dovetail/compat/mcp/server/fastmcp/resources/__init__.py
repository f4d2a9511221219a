"""Resources and templates."""

from typing import TYPE_CHECKING

from .....later import later
from .resource_manager import ResourceManager

if TYPE_CHECKING:
    from .base import (
        BinaryResource,
        DirectoryResource,
        FileResource,
        FunctionResource,
        Resource,
        TextResource,
    )
    from .templates import ResourceTemplate

_BASE = [
    "BinaryResource",
    "DirectoryResource",
    "FileResource",
    "FunctionResource",
    "Resource",
    "TextResource",
]
__getattr__ = later(__name__, {**dict.fromkeys(_BASE, ".base"), "ResourceTemplate": ".templates"})
__all__ = [
    "BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "Resource", "ResourceManager",
    "ResourceTemplate", "TextResource",
]  # fmt: skip
