"""`TaskHandle`: one handle for tasks of both designs.

2025-11-25: the client requests a task, and `tasks/result` blocks until the result is available; the server
sends requests meanwhile. erlmcp: the client creates a task and polls `tasks/get`. Extension of 2026-07-28:
the server decides; `tasks/get` is polled and returns input requests, result and error, responses are sent
with `tasks/update`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET

from ... import model as m
from ...core.task_machine import TERMINAL
from ...errors import ProtocolError, RequestTimeout, ToolError
from ...settings import Timeouts
from ...wire.dialects.aliases import UNKNOWN_TIME
from ...wire.dialects.dialect import REASON, VENDOR
from ...wire.methods import METHODS
from ..client_config import CallOptions

if TYPE_CHECKING:
    from .calls import Calls

TASK_POLL: Final = 0.5
"""Default, shortest and longest polling interval of a task in seconds."""
SHORTEST_TASK_POLL: Final = 0.02
LONGEST_TASK_POLL: Final = 30.0
TASK_GOODBYE: Final = 0.5
"""Seconds that a caller who stops waiting is delayed until the server is informed."""

log = logging.getLogger("dovetail.client")

_NO_LIMIT: CallOptions = {"timeout": Timeouts(idle=None, total=None)}

AnyTask = m.Task | m.ExtensionTask


class TaskHandle:
    """A tool call that runs on the server. Await `result`, query `status`, or `cancel` it."""

    def __init__(
        self,
        calls: Calls,
        finish: Callable[[m.CallToolResult], Awaitable[Any]],
        created: m.CreateTaskResult | AnyTask | m.CallToolResult,
    ) -> None:
        self._calls = calls
        self._clock = calls.config.clock
        self._finish = finish
        self._done: m.CallToolResult | None = None
        self._answered: set[str] = set()
        self.task: AnyTask | None = None
        """The last known state; None if the server responded immediately."""
        if isinstance(created, m.CallToolResult):
            self._done = created
        else:
            self.task = created.task if isinstance(created, m.CreateTaskResult) else created

    def __repr__(self) -> str:
        status = "completed" if self.task is None else self.task.status
        return f"TaskHandle(id={self.id!r}, status={status!r})"

    @property
    def id(self) -> str | None:
        """The task id of the server; None if the call was answered immediately."""
        return None if self.task is None else self.task.task_id

    @property
    def progress(self) -> float | None:
        """The progress at the last poll, if reported, with its `total`."""
        return self._said("progress")

    @property
    def total(self) -> float | None:
        return self._said("total")

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Metadata from the creation of the task; shown by erlmcp's servers."""
        return self._said("metadata")

    @property
    def reason(self) -> str | None:
        """The reason of the cancellation, if reported."""
        return self._said("reason")

    def _said(self, name: str) -> Any:
        meta = None if self.task is None else self.task.meta
        return meta.get(VENDOR + name) if meta else None

    async def status(self) -> str:
        """Query the status: working, input_required, completed, failed or cancelled."""
        if self.task is None or self.task.status in TERMINAL:
            return "completed" if self.task is None else self.task.status
        return (await self._refresh()).status

    async def cancel(self, reason: str | None = None) -> None:
        """Cancel the task with a reason. A finished task is unchanged."""
        await self._cancel(reason, {})

    async def _cancel(self, reason: str | None, options: CallOptions) -> None:
        if self.task is None or self.task.status in TERMINAL:
            return
        id = self.task.task_id
        params = m.CancelTaskRequestParams(id)
        if reason is not None and self._calls.established.capabilities.has("tasks.create"):
            params.reason = reason
        elif reason is not None:
            options = {"meta": {REASON: reason}}
        result = await self._calls.call("tasks/cancel", params, options)
        if isinstance(result, m.Task):
            self.task = result
            result.task_id = id  # some respond with an empty object

    async def abandon(self) -> None:
        """Cancel the task and wait briefly for the server."""
        if self.task is not None and self.task.status not in TERMINAL:
            await asyncio.wait([self.end()], timeout=TASK_GOODBYE)

    def end(self) -> asyncio.Task[None]:
        """Cancel the task without waiting."""
        telling = asyncio.get_running_loop().create_task(self._cancel(None, {"timeout": Timeouts()}))
        telling.add_done_callback(_heard)
        return telling

    async def result(self) -> Any:
        """Wait for the result. Input requests are answered on the way.

        Raises:
            ProtocolError: the task failed, was cancelled, or does not exist.
            ToolError: the tool failed, and failures are checked.
            RequestTimeout: no result within the total of ``Client(timeouts=…)``; the task continues.
        """
        return await self.within(self._calls.config.task_total)

    async def within(self, limit: float | None) -> Any:
        """Wait for the `result` for ``limit`` seconds."""
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                if self._done is None:
                    run = (
                        self._result_modern if isinstance(self.task, m.ExtensionTask) else self._result_legacy
                    )
                    self._done = await run()
        except TimeoutError:
            if not timer.expired():
                raise
            raise RequestTimeout("the task did not end within the total limit", limit="total") from None
        try:
            return await self._finish(self._done)
        except ToolError as error:
            self._calls.explain(error)
            raise

    # --- 2025-11-25 and erlmcp ------------------------------------------------------------------------------------

    async def _result_legacy(self) -> m.CallToolResult:
        assert self.task is not None
        params = m.GetTaskPayloadRequestParams(self.task.task_id)
        if self._calls.established.capabilities.has("tasks.create"):
            # erlmcp: -32089 until the task has ended.
            await self._wait_for_end()
        while True:
            try:
                raw = await self._calls.call("tasks/result", params, _NO_LIMIT)
                break
            except ProtocolError as error:
                # FastMCP 2 and 3 refuse before the end, although the specification requires them to wait.
                if self.task.status in TERMINAL:
                    self.task.status = "failed"
                    raise
                try:
                    await self._wait_for_end()
                except ProtocolError:
                    self.task.status = "failed"
                    raise error from None
        self.task.status = "completed"
        return self._decode(raw)

    async def _wait_for_end(self) -> None:
        while (await self._refresh()).status not in TERMINAL:
            await self._clock.sleep(_pause(cast("AnyTask", self.task)))

    # --- extension
    # ------------------------------------------------------------------------------------------------

    async def _result_modern(self) -> m.CallToolResult:
        while True:
            task = await self._refresh()
            if isinstance(task, m.DetailedTask):
                if task.status in TERMINAL:
                    return self._outcome(task)
                if task.status == "input_required" and task.input_requests:
                    await self._answer(task)
                    continue
            await self._clock.sleep(_pause(task))

    async def _refresh(self) -> AnyTask:
        assert self.task is not None
        params = m.GetTaskRequestParams(self.task.task_id)
        self.task = cast("AnyTask", await self._calls.call("tasks/get", params))
        return self.task

    async def _answer(self, task: m.DetailedTask) -> None:
        """Answer new input requests; keys are unique within a task."""
        requests = task.input_requests or {}
        new = {key: request for key, request in requests.items() if key not in self._answered}
        if not new:
            await self._clock.sleep(_pause(task))
            return
        answers = await self._calls.answer_all(new)
        self._answered.update(new)
        await self._calls.call("tasks/update", m.UpdateTaskRequestParams(task.task_id, answers))

    def _outcome(self, task: m.DetailedTask) -> m.CallToolResult:
        if task.status == "cancelled":
            raise ProtocolError("task_cancelled", "the task was cancelled")
        if task.error:
            data = task.error.data
            raise ProtocolError("task_failed", task.error.message, data=data, code=task.error.code)
        if task.result is UNSET:
            raise ProtocolError("task_failed", f"the task is {task.status} but has no result")
        return self._decode(task.result)

    def _decode(self, raw: Any) -> m.CallToolResult:
        established = self._calls.established
        codec = established.conversation.endpoint.admission.codecs[established.revision.name]
        return codec.decode_result(METHODS["tools/call"], raw)


def _heard(telling: asyncio.Task[None]) -> None:
    if not telling.cancelled() and (error := telling.exception()) is not None:
        log.info("a task could not be cancelled: %s", error)


def task_of(id: str, *, modern: bool) -> AnyTask:
    """Return a task of which only the id is known."""
    if modern:
        return m.ExtensionTask(id, "working", UNKNOWN_TIME, UNKNOWN_TIME, None)
    return m.Task(id, "working", UNKNOWN_TIME, UNKNOWN_TIME, None)


def _pause(task: AnyTask) -> float:
    """Return the polling interval of the server, within limits."""
    interval = task.poll_interval_ms if isinstance(task, m.ExtensionTask) else task.poll_interval
    seconds = interval / 1000 if isinstance(interval, int | float) else TASK_POLL
    return min(max(seconds, SHORTEST_TASK_POLL), LONGEST_TASK_POLL)
