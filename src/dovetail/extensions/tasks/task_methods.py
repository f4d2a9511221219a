"""The ``tasks/*`` methods of all three designs, on one set of tasks.

They differ in who turns a call into a task: on 2026-07-28 the server, for clients that declare the extension; on
2025-11-25 the client, with ``params.task``; with erlmcp's ``tasks/create`` also the client. The `TaskDesign` determines
the shape of the responses. Everything else is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ...core.channel import Call, Channel, ServerRequestsNotSupported
from ...core.input_rounds import prepare_input
from ...core.metadata import check
from ...core.rights import hidden, visible
from ...core.subscription_hub import Subscriber
from ...core.task_machine import TaskDesign, TaskMachine
from ...core.task_views import TASK_VIEWS, core_list, detailed_task, erlmcp_list, erlmcp_result, outcome
from ...drivers.middleware_chain import Next, Request
from ...errors import NAME_ECHO, ProtocolError, Refusal, RegistrationError
from ...model import (
    CallToolRequestParams,
    ClientCapabilities,
    EmptyResult,
    Error,
    ExtensionCreateTaskResult,
    InputRequest,
    RequestParams,
    SubscriptionFilter,
    ToolExecution,
)
from ...model.meta import PROGRESS_TOKEN, TASKS_EXTENSION
from ...server.composition import TaskTool
from ...server.list_pages import open_cursor, page_size, seal_cursor
from ...server.registry.component_options import TaskSupport
from ...server.registry.component_tables import RegisteredTool
from ...server.server import Server
from ...settings import checked_seconds
from ...stores.base import Store
from ...wire.dialects.dialect import REASON, error_from_wire
from ..extension import Extension
from .task_jobs import Job
from .task_options import TaskRequest, erlmcp_task_request
from .task_runner import TaskRunner

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher

LONGEST_REASON: Final = 1024
"""The maximum length of a cancellation reason."""

Starter = Callable[[Next, Call, Channel], Awaitable[Struct | Raw]]
EXTENSION: Final = f"extensions.{TASKS_EXTENSION}"
CORE: Final[dict[str, Any]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability of a server with tasks on 2025-11-25."""
_LISTS: Final = {"erlmcp": erlmcp_list}
"""The list format of dialects that have their own."""


class Tasks(Extension):
    """Tools that run as tasks: calls that go on after the client was answered. ``@server.tool(task=…)`` registers it.

    ```python
    server = Server("reports", extensions=[Tasks(ttl=600, timeout=300)])

    @server.tool(task="optional")
    async def report(year: int) -> Report: ...
    ```
    """

    id = TASKS_EXTENSION
    _server: Server
    _dispatcher: Dispatcher
    runner: TaskRunner
    """Runs the tasks; present once the extension is registered."""

    def __init__(
        self,
        *,
        ttl: float | None = None,
        max_ttl: float | None = None,
        timeout: float | None = None,
        poll_interval: float | None = None,
    ) -> None:
        """Set how tools run as tasks. What is not given is as ``Server(tasks=TaskOptions(…))`` says.

        Args:
            ttl: Seconds for which a task and its result are stored, unless the client requests another time.
            max_ttl: The longest time that a client can request, in seconds.
            timeout: Seconds that one task can run.
            poll_interval: Seconds between two polls that the server suggests to clients.
        """
        super().__init__(
            methods={
                "tasks/get": self.get,
                "tasks/result": self.result,
                "tasks/list": self.list_tasks,
                "tasks/cancel": self.cancel,
                "tasks/update": self.update,
            },
            decorators={"task": self._allow},
        )
        given = {"ttl": ttl, "max_ttl": max_ttl, "timeout": timeout, "poll_interval": poll_interval}
        self._given = {
            name: checked_seconds(name, value) for name, value in given.items() if value is not None
        }

    def attach(self, server: Server) -> None:
        """Run the tasks of ``server``."""
        if hasattr(self, "_server"):
            raise RegistrationError(
                f"this Tasks(…) belongs to the server {self._server.name!r}: make another one"
            )
        self._server, self._dispatcher = server, server.dispatcher
        self._tools = server.registry.tools.entries
        self._use_store()
        self._dispatcher.add_capability("tasks", CORE)
        server.lifecycle.store_listeners.append(self._use_store)
        server.subscriptions.listen_filters.append(self._listened)
        self._dispatcher.pipeline.defer_with(self)

    def _use_store(self, store: Store | None = None, keep_keys: bool = False) -> None:
        """Keep tasks in the store that the server has now."""
        options = replace(self._dispatcher.settings.tasks, **self._given)
        self.runner = TaskRunner(self._dispatcher, options)

    def _allow(self, entry: RegisteredTool, support: TaskSupport) -> None:
        """Let calls of ``entry`` become tasks."""
        entry.task = support
        if support != "forbidden":
            entry.definition.execution = ToolExecution(task_support=support)

    async def heartbeat(self) -> None:
        """Resume or fail the tasks of dead workers, where tasks outlive their worker."""
        await self.runner.sharing.heartbeat()

    async def close(self) -> None:
        """End the tasks that run."""
        await self.runner.close()

    # --- starting a task ----------------------------------------------------------------------------------

    def _tool(self, name: str) -> RegisteredTool | TaskTool | None:
        found = self._tools.get(name)
        composition = self._dispatcher.registry.composition
        return composition.task_tool(name) if found is None and composition is not None else found

    def starter(self, request: Request, wish: TaskRequest | None) -> Starter | None:
        """The function that starts the ``tools/call`` in ``request`` as a task; None if it gets a direct result.

        Raises:
            ProtocolError: the tool does not run as the client requires, or the tool of ``wish`` does not exist.
        """
        call = request.call
        tool = self._tool(call.params.name)
        if wish is not None:
            if tool is None or (tool.rights and hidden(tool.rights, call.principal)):
                name = call.params.name[:NAME_ECHO]
                raise ProtocolError("tool_not_found", f"Unknown tool: {name}", data={"tool": name})
            return partial(self._begin, request, tool, "erlmcp", wish)
        if tool is None or (tool.rights and not visible(tool.rights, call.principal)):
            return None  # refused when it is executed
        face = self._wanted(tool, call)
        if face is None:
            return None
        asked = call.params.task
        wish = TaskRequest(None if asked is UNSET or asked.ttl is UNSET or face != "core" else asked.ttl)
        return partial(self._begin, request, tool, face, wish)

    async def _begin(
        self,
        request: Request,
        tool: RegisteredTool | TaskTool,
        face: TaskDesign,
        wish: TaskRequest,
        chain: Next,
        call: Call,
        channel: Channel,
    ) -> Struct | Raw:
        """Run a call through ``chain`` as a task. Return the task, or the response of the chain without a task."""
        request = replace(request, call=call, channel=channel)
        asks_first = tool.asks_first and face == "extension"
        result = await self.runner.begin(
            request, face, wish, chain, _asking(call, tool), asks_first=asks_first
        )
        if isinstance(result, ExtensionCreateTaskResult) and channel.disconnected:
            # Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request. The client has no task id.
            with suppress(ProtocolError):  # it has already finished
                await self.runner.cancel(await self.runner.find(call, result.task_id), "client disconnected")
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
            decided = isinstance(tool, TaskTool) and tool.upstream
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

    stands_for_calls = frozenset({"tasks/create"})

    def unwrapped(self, call: Call) -> tuple[Call, TaskRequest]:
        """The ``tools/call`` that an erlmcp ``tasks/create`` contains: the type of the action is the name of a tool.

        Raises:
            ProtocolError: an option of the task is invalid.
        """
        action, wish = call.params.action, erlmcp_task_request(call.params)
        token = wish.progress_token
        meta = call.meta if token is UNSET else {**call.meta, PROGRESS_TOKEN: token}
        check(meta)
        params = CallToolRequestParams(action.type, arguments=action.parameters)
        return replace(call, method="tools/call", params=params, meta=meta, source=call), wish

    # --- reading tasks ------------------------------------------------------------------------------------

    async def get(self, call: Call, channel: Channel) -> Struct:
        task = await self.runner.find(call, call.params.task_id)
        return TASK_VIEWS[task.design].state(task)

    async def list_tasks(self, call: Call, channel: Channel) -> Struct:
        """``tasks/list``: a page in the order of creation; the cursor is the last id of the page, sealed."""
        dispatcher, cursor = self._dispatcher, call.params.cursor
        after = "" if cursor is UNSET else open_cursor(dispatcher, call, "tasks", cursor).decode()
        size = page_size(dispatcher, call)
        tasks = await self.runner.page(call, after, size + 1)
        more: Any = UNSET
        if len(tasks) > size:
            tasks = tasks[:size]
            more = seal_cursor(dispatcher, call, "tasks", tasks[-1].id.encode())
        return _LISTS.get(call.codec.dialect.name, core_list)(tasks, more)

    async def result(self, call: Call, channel: Channel) -> Struct | Raw:
        """``tasks/result``: on 2025-11-25 it waits for the end, and meanwhile sends the task's input requests."""
        task = await self.runner.find(call, call.params.task_id)
        if not TASK_VIEWS[task.design].waits:
            return erlmcp_result(task)
        job = self.runner.job(task.id)
        if job is not None:
            await self._attend(job, channel)
            task = job.machine
        elif not task.ended:
            async with self.runner.sharing.follow(task, call) as job:
                if job is not None:
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

    async def _listened(
        self, call: Call, wish: SubscriptionFilter
    ) -> tuple[SubscriptionFilter, Callable[[Subscriber], None]]:
        """A filter without tasks of other callers, and a function that sends the named tasks that have finished."""
        tasks = [] if wish.task_ids is UNSET else await self.runner.known(call, wish.task_ids)
        over = [detailed_task(task) for task in tasks if task.ended]

        def send(subscriber: Subscriber) -> None:
            for task in over:
                self._dispatcher.subscriptions.hub.publish_to(subscriber, task)

        return (wish if wish.task_ids is UNSET else replace(wish, task_ids=[task.id for task in tasks])), send

    # --- answering and cancelling -------------------------------------------------------------------------

    async def update(self, call: Call, channel: Channel) -> Struct:
        """``tasks/update``: some or all answers for a running task."""
        task = await self.runner.find(call, call.params.task_id)
        await self.runner.answer(task, call.params.input_responses, call)
        return EmptyResult()

    async def cancel(self, call: Call, channel: Channel) -> Struct:
        task = await self.runner.find(call, call.params.task_id)
        face = TASK_VIEWS[task.design]
        if not (task.ended and face.cancels_again):
            # The specification has no reason; Dovetail's client sends one in a vendor member.
            reason = call.meta.get(REASON) if call.params.reason is UNSET else call.params.reason
            await self.runner.cancel(task, reason[:LONGEST_REASON] if isinstance(reason, str) else None)
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
            await self.runner.refuse_answer(job, key, error)
        except BaseException:
            job.release(key)
            raise
        else:
            await self.runner.answer(job.machine, {key: Raw(msgspec.json.encode(answer))}, job.call)


def tasks_of(dispatcher: Dispatcher) -> Tasks:
    """The tasks extension of a server, which is registered if it is not there."""
    extensions = dispatcher.server.extensions
    extensions.add_owner("task")
    found = extensions[TASKS_EXTENSION]
    assert isinstance(found, Tasks)
    return found


def _asking(call: Call, tool: RegisteredTool | TaskTool) -> Call:
    """``call`` with a request state of this server: a forwarding handler gets the client's state under another name."""
    if not (isinstance(tool, TaskTool) and tool.upstream):
        return call
    return replace(call, params=replace(call.params, request_state=UNSET))


def _undeclared(tool: RegisteredTool | TaskTool) -> ProtocolError:
    return ProtocolError(
        "missing_required_client_capability",
        f"the tool {tool.name} runs as a task: declare the client capability {EXTENSION!r}",
        data={"requiredCapabilities": ClientCapabilities.requiring(EXTENSION)},
    )
