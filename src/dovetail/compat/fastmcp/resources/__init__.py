"""Resources and templates."""

from typing import TYPE_CHECKING

from ...later import later
from . import resource as _module  # before the decorator of that name
from .base import FunctionResource, Resource, ResourceContent, ResourceResult
from .decorator import ResourceMeta, resource
from .template import FunctionResourceTemplate, ResourceTemplate

if TYPE_CHECKING:
    from .types import BinaryResource, DirectoryResource, FileResource, TextResource

del _module
_READY = ["BinaryResource", "DirectoryResource", "FileResource", "TextResource"]
__getattr__ = later(__name__, dict.fromkeys(_READY, ".types"))
__all__ = [
    "BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "FunctionResourceTemplate", "Resource",
    "ResourceContent", "ResourceMeta", "ResourceResult", "ResourceTemplate", "TextResource", "resource",
]  # fmt: skip
