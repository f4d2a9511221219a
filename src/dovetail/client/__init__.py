"""The client: connects to MCP servers of any revision over any transport. Import public names from
`dovetail`.
"""

from .calling.cache import ResponseCache
from .calling.results import ToolResult
from .calling.skill_calls import LoadedSkill, SkillError
from .calling.task_handles import TaskHandle
from .client import Client
from .http_client import StatusError

__all__ = ["Client", "LoadedSkill", "ResponseCache", "SkillError", "StatusError", "TaskHandle", "ToolResult"]
