"""``server.experimental``: tools of a low-level server that run as tasks of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from .....core.channel import Call, Channel
from .....server.elsewhere import TaskTool
from .....server.tasks.task_methods import TaskMethods
from ...shared.experimental.kept_by_ours import KeptByOurs
from ..experimental.task_support import TaskSupport
from .bridge import Bridge

if TYPE_CHECKING:
    from .server import Server


class LowLevelTasks(TaskMethods):
    """`TaskMethods` that ask a low-level server for its tools."""

    def __init__(self, bridge: Bridge, server: Server[Any, Any]) -> None:
        super().__init__(bridge)
        self._front = server
        self._asked: TaskTool | None = None

    def _tool(self, name: str) -> TaskTool | None:
        return self._asked

    async def call_tool(self, call: Call, channel: Channel) -> Struct | Raw:
        name = call.params.name
        tool = await self._front.tool_definition(name)
        said = None if tool is None or tool.execution is None else tool.execution.taskSupport
        # Before 2026-07-28 the client decides, and theirs leaves it to the handler to object.
        how = (said or "forbidden") if call.revision.modern else "optional"
        # From here to `_tool` nothing is awaited: nobody else can have asked in between.
        self._asked = TaskTool(name, how)
        return await super().call_tool(call, channel)


class ExperimentalHandlers:
    """What a low-level server says about tasks."""

    def __init__(self, server: Server[Any, Any]) -> None:
        self._server = server
        self.task_support: TaskSupport | None = None

    def enable_tasks(self, store: Any = None, queue: Any = None) -> TaskSupport:
        """Let tools run as tasks, and serve ``tasks/*``.

        Raises:
            ValueError: a ``store`` or ``queue`` of the program's own is given, which would not be asked.
        """
        if not all(one is None or isinstance(one, KeptByOurs) for one in (store, queue)):
            raise ValueError(
                "enable_tasks(store=…, queue=…) are not asked: tasks are kept by ours, and with DOVETAIL_STORE they "
                "outlive the process"
            )
        self.task_support = TaskSupport()
        self._server.with_tasks = self.install
        return self.task_support

    def install(self, bridge: Bridge) -> None:
        """Serve tasks on ``bridge``."""
        bridge.make_tasks = lambda: LowLevelTasks(bridge, self._server)
        bridge.enable_tasks()
