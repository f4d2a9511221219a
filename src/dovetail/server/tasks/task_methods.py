"""The ``tasks/*`` methods of all three designs, on one set of tasks.

They differ in who turns a call into a task: on 2026-07-28 the server, for clients that declare the extension; on
2025-11-25 the client, with ``params.task``; with erlmcp's ``tasks/create`` also the client. The `TaskDesign` determines
the shape of the responses. Everything else is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ...core.channel import Call, Channel, ServerRequestsNotSupported
from ...core.input_rounds import prepare_input
from ...core.metadata import check
from ...core.rights import hidden, visible
from ...core.task_machine import TaskDesign, TaskMachine
from ...core.task_views import TASK_VIEWS, core_list, detailed_task, erlmcp_list, erlmcp_result, outcome
from ...drivers.middleware_chain import Next, Request
from ...errors import NAME_ECHO, ProtocolError, Refusal
from ...model import (
    CallToolRequestParams,
    ClientCapabilities,
    DetailedTask,
    EmptyResult,
    Error,
    ExtensionCreateTaskResult,
    InputRequest,
    RequestParams,
    SubscriptionFilter,
)
from ...model.meta import PROGRESS_TOKEN, TASKS_EXTENSION
from ...wire.dialects.dialect import REASON, error_from_wire
from ..composition import TaskTool
from ..list_pages import open_cursor, page_size, seal_cursor
from ..registry.component_tables import RegisteredTool
from .task_jobs import Job
from .task_options import Wish, erlmcp_wish
from .task_runner import Tasks

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher

LONGEST_REASON: Final = 1024
"""The maximum length of a cancellation reason."""

EXTENSION: Final = f"extensions.{TASKS_EXTENSION}"
CORE: Final[dict[str, Any]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability of a server with tasks on 2025-11-25."""
_LISTS: Final = {"erlmcp": erlmcp_list}
"""The list format of dialects that have their own."""


class TaskMethods:
    """The methods of a server that has a tool which may run as a task."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._tools = dispatcher.registry.tools.entries
        self.tasks = Tasks(dispatcher)

    def install(self) -> None:
        """Add the ``tasks/*`` methods and declare them."""
        dispatcher = self._dispatcher
        dispatcher.answer(
            {
                "tasks/get": self.get,
                "tasks/result": self.result,
                "tasks/list": self.list_tasks,
                "tasks/cancel": self.cancel,
                "tasks/update": self.update,
            }
        )
        dispatcher.add_capability(EXTENSION)
        dispatcher.add_capability("tasks", CORE)

    # --- starting a task ----------------------------------------------------------------------------------

    def _tool(self, name: str) -> RegisteredTool | TaskTool | None:
        found = self._tools.get(name)
        composition = self._dispatcher.registry.composition
        return composition.task_tool(name) if found is None and composition is not None else found

    def wanted(self, request: Request) -> TaskDesign | None:
        """Whether a ``tools/call`` becomes a task, and of which design.

        Raises:
            ProtocolError: the tool and the client do not agree.
        """
        call = request.call
        tool = self._tool(call.params.name)
        if tool is None or (tool.rights and not visible(tool.rights, call.principal)):
            return None  # refused when it is executed
        return self._wanted(tool, call)

    def check_known(self, request: Request) -> None:
        """Check that the caller can see a tool that is to run as a task.

        Raises:
            ProtocolError: it cannot.
        """
        call = request.call
        tool = self._tool(call.params.name)
        if tool is None or (tool.rights and hidden(tool.rights, call.principal)):
            name = call.params.name[:NAME_ECHO]
            raise ProtocolError("tool_not_found", f"Unknown tool: {name}", data={"tool": name})

    async def begin(self, request: Request, face: TaskDesign, wish: Wish | None, chain: Next) -> Struct | Raw:
        """Run a call through ``chain`` as a task. Return the task, or the response of the chain if there is no task."""
        call, channel = request.call, request.channel
        tool = self._tool(call.params.name)
        asks_first = tool is not None and tool.asks_first and face == "extension"
        if wish is None:
            asked = call.params.task
            wish = Wish(None if asked is UNSET or asked.ttl is UNSET or face != "core" else asked.ttl)
        asking = call if tool is None else _asking(call, tool)
        result = await self.tasks.begin(request, face, wish, chain, asking, asks_first=asks_first)
        if isinstance(result, ExtensionCreateTaskResult) and channel.disconnected:
            # Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request. The client has no task id.
            with suppress(ProtocolError):  # it has already finished
                await self.tasks.cancel(await self.tasks.find(call, result.task_id), "client disconnected")
        return result

    @staticmethod
    def _wanted(tool: RegisteredTool | TaskTool, call: Call) -> TaskDesign | None:
        """Whether this call becomes a task, and of which design.

        Raises:
            ProtocolError: the tool and the client do not agree.
        """
        support = tool.task
        if call.revision.modern:
            if support == "forbidden":
                return None
            if not call.capabilities.has(EXTENSION):
                if support == "required":
                    raise _undeclared(tool)
                return None
            # Tasks of 2026-07-28 report no progress: a client that asks for it is served in the call itself.
            # The upstream server decides while the call runs.
            decided = isinstance(tool, TaskTool) and tool.behind
            return (
                None if support == "optional" and PROGRESS_TOKEN in call.meta and not decided else "extension"
            )
        if call.revision.tasks != "core":
            return None  # a client without tasks gets a direct result
        asked = call.params.task is not UNSET
        if asked == (support == "forbidden") and support != "optional":
            # 2025-11-25, Tool-Level Negotiation: -32601 for a forbidden task, and for a missing one that is required.
            how = "cannot be called as a task" if asked else "must be called as a task"
            raise ProtocolError("method_not_found", f"the tool {tool.name} {how}", data={"tool": tool.name})
        return "core" if asked else None

    def unwrapped(self, call: Call) -> tuple[Call, Wish]:
        """The ``tools/call`` that an erlmcp ``tasks/create`` contains: the type of the action is the name of a tool.

        Raises:
            ProtocolError: an option of the task is invalid.
        """
        action, wish = call.params.action, erlmcp_wish(call.params)
        token = wish.progress_token
        meta = call.meta if token is UNSET else {**call.meta, PROGRESS_TOKEN: token}
        check(meta)
        params = CallToolRequestParams(action.type, arguments=action.parameters)
        return replace(call, method="tools/call", params=params, meta=meta, source=call), wish

    # --- reading tasks ------------------------------------------------------------------------------------

    async def get(self, call: Call, channel: Channel) -> Struct:
        task = await self.tasks.find(call, call.params.task_id)
        return TASK_VIEWS[task.design].state(task)

    async def list_tasks(self, call: Call, channel: Channel) -> Struct:
        """``tasks/list``: a page in the order of creation; the cursor is the last id of the page, sealed."""
        dispatcher, cursor = self._dispatcher, call.params.cursor
        after = "" if cursor is UNSET else open_cursor(dispatcher, call, "tasks", cursor).decode()
        size = page_size(dispatcher, call)
        tasks = await self.tasks.page(call, after, size + 1)
        more: Any = UNSET
        if len(tasks) > size:
            tasks = tasks[:size]
            more = seal_cursor(dispatcher, call, "tasks", tasks[-1].id.encode())
        return _LISTS.get(call.codec.dialect.name, core_list)(tasks, more)

    async def result(self, call: Call, channel: Channel) -> Struct | Raw:
        """``tasks/result``: on 2025-11-25 it waits for the end, and meanwhile sends the task's input requests."""
        task = await self.tasks.find(call, call.params.task_id)
        if not TASK_VIEWS[task.design].waits:
            return erlmcp_result(task)
        job = self.tasks.job(task.id)
        if job is not None:
            await self._attend(job, channel)
            task = job.machine
        elif not task.ended and self.tasks.durable is not None:
            async with self.tasks.durable.follow(task, call) as job:
                await self._attend(job, channel)
            task = job.machine
        return self._outcome(task, call)

    @staticmethod
    def _outcome(task: TaskMachine, call: Call) -> Raw:
        found = outcome(task)
        if isinstance(found, Error):
            codec = call.codec
            raise error_from_wire(found.code, found.message, found.data, codec.revision, codec.dialect)
        if found is None:
            # Its process has died: no worker runs it any more.
            raise ProtocolError("task_failed", "the task was lost", data={"taskId": task.public_id})
        return found

    async def visible(
        self, call: Call, wish: SubscriptionFilter
    ) -> tuple[SubscriptionFilter, list[DetailedTask]]:
        """A filter for tasks of other callers, and the named tasks that have finished."""
        if wish.task_ids is UNSET:
            return wish, []
        tasks = await self.tasks.known(call, wish.task_ids)
        over = [detailed_task(task) for task in tasks if task.ended]
        return replace(wish, task_ids=[task.id for task in tasks]), over

    # --- answering and cancelling -------------------------------------------------------------------------

    async def update(self, call: Call, channel: Channel) -> Struct:
        """``tasks/update``: some or all answers for a running task."""
        task = await self.tasks.find(call, call.params.task_id)
        await self.tasks.answer(task, call.params.input_responses, call)
        return EmptyResult()

    async def cancel(self, call: Call, channel: Channel) -> Struct:
        task = await self.tasks.find(call, call.params.task_id)
        face = TASK_VIEWS[task.design]
        if not (task.ended and face.cancels_again):
            # The specification has no reason; Dovetail's client sends one in a member of its own.
            reason = call.meta.get(REASON) if call.params.reason is UNSET else call.params.reason
            await self.tasks.cancel(task, reason[:LONGEST_REASON] if isinstance(reason, str) else None)
        return face.cancelled(task)

    # --- input requests of 2025-11-25 ---------------------------------------------------------------------

    async def _attend(self, job: Job, channel: Channel) -> None:
        """Until the task has finished, send its input requests to the client on the stream of this call."""
        asking: set[asyncio.Future[None]] = set()
        try:
            while not job.machine.ended:
                changed = job.changed()
                asking |= {changed, *self._put_open_questions(job, channel)}
                done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    future.result()  # a broken stream ends this call; another may send the requests
        finally:
            for future in asking:
                future.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _put_open_questions(self, job: Job, channel: Channel) -> Iterator[asyncio.Future[None]]:
        for key, question in job.machine.input_requests.items():
            if key not in job.taken:
                job.taken.add(key)
                yield asyncio.ensure_future(self._put(job, key, question, channel))

    async def _put(self, job: Job, key: str, question: InputRequest, channel: Channel) -> None:
        asked = prepare_input(question)
        params = job.related(asked.params or RequestParams())
        try:
            answer = await channel.request(asked.method, params)
        except (ProtocolError, Refusal, ServerRequestsNotSupported) as error:
            await self.tasks.refuse_answer(job, key, error)
        except BaseException:
            job.release(key)
            raise
        else:
            await self.tasks.answer(job.machine, {key: Raw(msgspec.json.encode(answer))}, job.call)


def _asking(call: Call, tool: RegisteredTool | TaskTool) -> Call:
    """``call`` with a request state of this server: a forwarding handler gets the client's state under another name."""
    if not (isinstance(tool, TaskTool) and tool.behind):
        return call
    return replace(call, params=replace(call.params, request_state=UNSET))


def _undeclared(tool: RegisteredTool | TaskTool) -> ProtocolError:
    return ProtocolError(
        "missing_required_client_capability",
        f"the tool {tool.name} runs as a task: declare the client capability {EXTENSION!r}",
        data={"requiredCapabilities": ClientCapabilities.requiring(EXTENSION)},
    )
