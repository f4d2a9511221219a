"""The client: one object that talks to every server. Import what you need from `dovetail` itself."""

from .calling.cache import ResponseCache
from .calling.results import ToolResult
from .calling.skill_calls import LoadedSkill, SkillError
from .calling.task_handles import TaskHandle
from .client import Client
from .http_client import StatusError

__all__ = ["Client", "LoadedSkill", "ResponseCache", "SkillError", "StatusError", "TaskHandle", "ToolResult"]
