"""What changes components on their way from a provider to a client."""

from ...utilities.versions import VersionSpec
from .base import GetPromptNext, GetResourceNext, GetResourceTemplateNext, GetToolNext, Transform
from .namespace import Namespace
from .tool_transform import ToolTransform
from .visibility import Visibility, is_enabled

__all__ = [
    "GetPromptNext", "GetResourceNext", "GetResourceTemplateNext", "GetToolNext", "Namespace", "ToolTransform",
    "Transform", "VersionSpec", "Visibility", "is_enabled",
]  # fmt: skip
