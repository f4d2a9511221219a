"""`TaskConfig`: whether a tool may, must or cannot run as a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from ...common.signatures import is_async

TaskMode = Literal["forbidden", "optional", "required"]
TASK: Final = "modelcontextprotocol.io/task"
"""Where FastMCP 2 asks for a prompt or a resource as a task: in the ``_meta`` of the request."""
DEFAULT_POLL_INTERVAL: Final = timedelta(seconds=5)


@dataclass
class TaskConfig:
    """``tool(task=TaskConfig(mode="required"))``; ``task=True`` is optional."""

    mode: TaskMode = "optional"
    poll_interval: timedelta = DEFAULT_POLL_INTERVAL

    @classmethod
    def from_bool(cls, value: bool) -> TaskConfig:
        return cls("optional" if value else "forbidden")

    def supports_tasks(self) -> bool:
        return self.mode != "forbidden"

    def validate_function(self, fn: Callable[..., Any], name: str) -> None:
        """Raises ValueError: it cannot run beside other work."""
        if self.supports_tasks() and not is_async(fn):
            raise ValueError(
                f"{name!r} uses a sync function but has task execution enabled. "
                "Background tasks require async functions."
            )


def task_config(given: Any) -> TaskConfig | None:
    """What ``task=`` means: a `TaskConfig`, True or False; None where nothing was said."""
    if given is None or isinstance(given, TaskConfig):
        return given
    if not isinstance(given, bool):
        raise TypeError(f"task is True, False or a TaskConfig, not {type(given).__name__}")
    return TaskConfig.from_bool(given)
