"""The tasks extension: calls that go on after the client was answered.

`task_methods` has `Tasks`, the extension, which answers for tasks in all three designs. `task_runner` runs them; the
state machine is `core.task_machine`.
"""

from .task_methods import Tasks

__all__ = ["Tasks"]
