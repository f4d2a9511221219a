"""Resources and templates."""

from .base import BinaryResource, DirectoryResource, FileResource, FunctionResource, Resource, TextResource
from .resource_manager import ResourceManager
from .templates import ResourceTemplate

__all__ = [
    "BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "Resource", "ResourceManager",
    "ResourceTemplate", "TextResource",
]  # fmt: skip
