"""Where FastMCP 2 and 3 keep `TaskConfig`."""

from ...utilities.tasks import DEFAULT_POLL_INTERVAL, TaskConfig, TaskMode

__all__ = ["DEFAULT_POLL_INTERVAL", "TaskConfig", "TaskMode"]
