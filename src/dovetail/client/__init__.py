"""The client: one object that talks to every server. Import what you need from `dovetail` itself."""

from .cache import ResponseCache
from .client import Client
from .fetch import StatusError
from .results import ToolResult
from .skills import LoadedSkill, SkillError
from .tasks import TaskHandle

__all__ = ["Client", "LoadedSkill", "ResponseCache", "SkillError", "StatusError", "TaskHandle", "ToolResult"]
