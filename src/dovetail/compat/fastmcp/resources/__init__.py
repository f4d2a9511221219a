"""Resources and templates."""

from . import resource as _module  # before the decorator of that name
from .base import FunctionResource, Resource, ResourceContent, ResourceResult
from .decorator import ResourceMeta, resource
from .template import FunctionResourceTemplate, ResourceTemplate
from .types import BinaryResource, DirectoryResource, FileResource, TextResource

del _module
__all__ = [
    "BinaryResource", "DirectoryResource", "FileResource", "FunctionResource", "FunctionResourceTemplate", "Resource",
    "ResourceContent", "ResourceMeta", "ResourceResult", "ResourceTemplate", "TextResource", "resource",
]  # fmt: skip
