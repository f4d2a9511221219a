"""Tools that run as tasks."""

from ...utilities.tasks import TaskConfig

__all__ = ["TaskConfig"]
