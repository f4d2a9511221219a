"""Tasks of FastMCP's tools over ours: the same methods, for tools that the register of ours does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from .....core.channel import Call, Channel
from .....errors import ProtocolError
from .....server.elsewhere import TaskTool
from .....server.tasks.task_methods import TaskMethods
from ....common.wire import failed
from ....mcp.server.lowlevel.bridge import Bridge
from ...generation import generation
from ..auth.access import access_token_of
from ..auth.authorization import AuthContext, run_auth_checks

if TYPE_CHECKING:
    from ..server import FastMCP


class FastMCPTasks(TaskMethods):
    """`TaskMethods` that ask a FastMCP server for its tools."""

    def __init__(self, server: Bridge, fastmcp: FastMCP[Any]) -> None:
        super().__init__(server)
        self._fastmcp = fastmcp
        self._asked: TaskTool | None = None

    def _tool(self, name: str) -> TaskTool | None:
        return self._asked

    async def call_tool(self, call: Call, channel: Channel) -> Struct | Raw:
        tool = await self._fastmcp.look_up("tool", call.params.name)
        # From here to `_tool` nothing is awaited: nobody else can have asked in between.
        self._asked = _task_tool(tool, call)
        if generation() == 2 and call.params.task is not UNSET:
            call.params.task.ttl = UNSET  # it keeps what came of a task for a minute, whatever a client wants
        try:
            return await super().call_tool(call, channel)
        except ProtocolError as error:
            # FastMCP 2 has the tool say that it is, or is not, called as a task.
            if generation() != 2 or error.kind != "method_not_found" or self._asked is None:
                raise
            how = "requires" if self._asked.task == "required" else "does not support"
            return failed(f"Tool '{call.params.name}' {how} task-augmented execution")

    async def get(self, call: Call, channel: Channel) -> Struct:
        try:
            return await super().get(call, channel)
        except ProtocolError as error:
            raise ProtocolError(
                error.kind, f"Task {call.params.task_id} not found", data=error.data
            ) from None


def _task_tool(tool: Any, call: Call) -> TaskTool | None:
    """What decides about a task; nothing of a tool that this caller may not know of."""
    if tool is None or not tool.enabled:
        return None
    if tool.auth is not None:
        token = access_token_of(cast("Any", call))
        if not run_auth_checks(tool.auth, AuthContext(token, tool)):
            return None
    return TaskTool(tool.name, support(tool))


def support(tool: Any) -> Any:
    """Whether a tool may, must or cannot run as a task."""
    return "forbidden" if tool.execution is None else tool.execution.taskSupport or "forbidden"


def with_tasks(fastmcp: FastMCP[Any]) -> Iterator[Any]:
    """The tools, of this server and of those it shows, that may run as tasks."""
    yield from (one for one in fastmcp.local_provider.tables["tool"].values() if support(one) != "forbidden")
    for inner in fastmcp.mounted():
        yield from with_tasks(inner)


def enable(bridge: Bridge, fastmcp: FastMCP[Any]) -> None:
    """Serve tasks, if there is a tool that may run as one."""
    tools = list(with_tasks(fastmcp)) if bridge.tasks is None else []
    if not tools:
        return
    if generation() == 2:
        bridge.task_options = replace(bridge.task_options, ttl=60, longest_ttl=60)
    waits = [one.task_config.poll_interval.total_seconds() for one in tools if one.task_config is not None]
    if waits:  # one interval is told for all tasks of a server: the shortest that somebody wants
        bridge.task_options = replace(bridge.task_options, poll_interval=min(waits))
    bridge.make_tasks = lambda: FastMCPTasks(bridge, fastmcp)
    bridge.enable_tasks()
