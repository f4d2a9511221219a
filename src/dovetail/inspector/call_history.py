"""Calls made from the page: each has a record in the history, and can be cancelled or repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..client import Client
from ..client.calling.task_handles import TaskHandle
from ..errors import DovetailError
from ..wire.revisions import REVISIONS
from .event_stream import PageEvents
from .inspected_server import InspectedServer, problem_of
from .open_requests import calling
from .truncation import NAME_SIZE, truncated

CALLS_KEPT: Final = 500
"""Calls in the history of one inspector."""
RESULT_BYTES: Final = 256 << 20
"""Bytes of the results in the history."""
CALLS_RUNNING: Final = 200
"""Running calls; an app can start any number."""


_MODERN: Final = frozenset(revision.name for revision in REVISIONS if revision.modern)


class CallRecord(Struct, eq=False, kw_only=True):
    """One call; ``state`` is running, done, failed or cancelled."""

    id: int
    connection: int
    method: str
    params: dict[str, Any]
    task: bool
    at: float
    frame: int
    """The number of the last message before it; its request is the next message of its method."""
    state: str = "running"
    seconds: float | None = None
    progress: dict[str, Any] | None = None
    result: bytes = b""
    error: dict[str, Any] | None = None
    failed: bool = False
    """Whether the tool reported an error (``isError``)."""
    revision: str | None = None
    weight: int = 0
    """Bytes of its params, its result and its error."""

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id, "connection": self.connection, "method": self.method, "params": self.params,
            "task": self.task, "at": self.at * 1000, "frame": self.frame, "state": self.state,
            "ms": None if self.seconds is None else self.seconds * 1000, "progress": self.progress,
            "size": len(self.result), "error": self.error, "failed": self.failed, "revision": self.revision,
        }  # fmt: skip

    def detail(self) -> dict[str, Any]:
        """Return the record with the result, truncated for the page."""
        found = truncated(msgspec.json.decode(self.result) if self.result else None)
        return {**self.shown(), "result": found.value, "cut": found.cut}


class CallHistory:
    """The calls of all connections; the oldest are removed to make room."""

    def __init__(self, news: PageEvents) -> None:
        self._news = news
        self._numbers = count(1)
        self.records: dict[int, CallRecord] = {}
        self._running: dict[int, asyncio.Task[None]] = {}

    def start(
        self, connection: InspectedServer, method: str, params: dict[str, Any], *, task: bool, frame: int
    ) -> CallRecord:
        """Start a call; the page receives its progress and its end.

        Raises:
            DovetailError: too many calls are running.
        """
        if len(self._running) >= CALLS_RUNNING:
            raise DovetailError(f"{CALLS_RUNNING} calls are already running: wait for one, or cancel one")
        record = CallRecord(
            id=next(self._numbers), connection=connection.id, method=method, params=params, task=task,
            at=time.time(), frame=frame, revision=connection.client.revision, weight=len(msgspec.json.encode(params)),
        )  # fmt: skip
        self.records[record.id] = record
        self._make_room()
        self._news.tell("call", call=record.shown())
        self._running[record.id] = asyncio.get_running_loop().create_task(self._run(connection, record))
        return record

    async def _run(self, connection: InspectedServer, record: CallRecord) -> None:
        def progressed(progress: float, total: float | None, message: str | None) -> None:
            said = None if message is None else message[:NAME_SIZE]
            record.progress = {"progress": progress, "total": total, "message": said}
            self._news.tell("progress", call=record.id, **record.progress)

        begun = time.perf_counter()
        calling.set(record.id)
        try:
            result = await perform(
                connection.client, record.method, record.params, task=record.task, on_progress=progressed,
                on_task=connection.heard_of,
            )  # fmt: skip
            record.result = msgspec.json.encode(result)
            record.failed = result.is_error is True if record.method == "tools/call" else False
            record.state = "done"
        except asyncio.CancelledError:
            record.state = "cancelled"
        except (DovetailError, ValueError, TypeError, msgspec.MsgspecError) as error:
            record.state, record.error = "failed", truncated(problem_of(error)).value
        finally:
            record.seconds = time.perf_counter() - begun
            record.weight += len(record.result) + len(msgspec.json.encode(record.error))
            record.revision = connection.client.revision
            self._running.pop(record.id, None)
            self._make_room()
            self._news.tell("call", call=record.shown())

    def only_running(self, connection: int) -> int | None:
        """Return the running call of a connection if there is exactly one.

        Before 2026-07-28, a request of the server does not name its call.
        """
        running = [id for id in self._running if self.records[id].connection == connection]
        return running[0] if len(running) == 1 else None

    def cancel(self, id: int) -> None:
        running = self._running.get(id)
        if running is not None:
            running.cancel()

    def _make_room(self) -> None:
        """Remove finished calls, the oldest first, but never the newest."""
        size = sum(record.weight for record in self.records.values())
        for id, record in list(self.records.items())[:-1]:
            if len(self.records) <= CALLS_KEPT and size <= RESULT_BYTES:
                return
            if id not in self._running:
                size -= record.weight
                del self.records[id]

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


async def perform(
    client: Client,
    method: str,
    params: dict[str, Any],
    *,
    task: bool = False,
    on_progress: Any = None,
    on_task: Callable[[Any], None] | None = None,
) -> Any:
    """Make one call with `Client` and return the result in protocol form.

    Raises:
        DovetailError: the call failed.
    """
    match method:
        case "tools/call":
            name: str = params["name"]
            arguments: dict[str, Any] = params.get("arguments") or {}
            if task:
                # Tasks of 2026-07-28 have no progress notifications, so do not request progress for them.
                watched = None if client.revision in _MODERN else on_progress
                handle = await client.create_task(name, arguments, check=False, on_progress=watched)
                return await _followed(handle, on_task)
            return (await client.call_tool(name, arguments, check=False, on_progress=on_progress)).raw
        case "resources/read":
            return await client.read_resource(params["uri"], on_progress=on_progress)
        case "prompts/get":
            return await client.get_prompt(
                params["name"], params.get("arguments") or {}, on_progress=on_progress
            )
        case "completion/complete":
            return await client.complete(params["ref"], params["argument"], None, params.get("context"))
        case _:
            return await client.request(method, params, on_progress=on_progress)


async def _followed(handle: TaskHandle, on_task: Callable[[Any], None] | None) -> Any:
    """Return the result of a task; ``on_task`` is called at its start and at its end."""

    def tell() -> None:
        if on_task is not None and handle.task is not None:
            on_task(handle.task)

    tell()
    try:
        return (await handle.result()).raw
    finally:
        tell()
