"""The client for people without an event loop: the same names, without ``await``.

```python
from dovetail.sync import Client

with Client("http://127.0.0.1:8000/mcp") as client:
    print(client.call_tool("forecast", {"city": "Oslo"}).data)
```

The connection lives on an event loop of its own in a background thread, so this works in scripts, notebooks, threads
and inside a running loop (where it blocks that loop, as any synchronous call does). Callbacks are plain functions; they
run in worker threads, so that one that blocks does not hold up the connection, and may themselves use the client.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from .client import Client as AsyncClient
from .client.answering.answers import with_request
from .client.calling.results import ToolResult
from .client.calling.skills import LoadedSkill as AsyncSkill
from .client.calling.task_handles import TaskHandle as AsyncTaskHandle
from .client.config import (
    CachedOptions,
    CallOptions,
    ClientOptions,
    RequestOptions,
    Timeout,
    ToolOptions,
    name_options,
)
from .errors import StateError
from .model import (
    CompleteResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    GetPromptResult,
    Implementation,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Skill,
    Task,
    Tool,
)
from .settings import SYNC_CLOSE_SECONDS

T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="dovetail", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` there and wait for it here; an interrupt (Ctrl-C) cancels it.

        Raises:
            StateError: called on the loop's own thread, where waiting would never end.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise StateError("this is the client's own thread: use the asynchronous dovetail.Client here")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` as the last thing, and stop. On the loop's own thread (a forgotten client is collected
        wherever the collector happens to run) nothing is waited for."""
        if threading.current_thread() is self._thread:
            self._loop.create_task(work).add_done_callback(lambda _: self._loop.stop())
            return
        try:
            self.call(work)
        finally:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(SYNC_CLOSE_SECONDS)


class TaskHandle:
    """A tool call that runs on the server."""

    def __init__(self, loop: _Loop, handle: AsyncTaskHandle) -> None:
        self._loop = loop
        self._handle = handle

    @property
    def id(self) -> str | None:
        return self._handle.id

    def status(self) -> str:
        return self._loop.call(self._handle.status())

    def result(self) -> ToolResult:
        return self._loop.call(self._handle.result())

    def cancel(self) -> None:
        self._loop.call(self._handle.cancel())


class LoadedSkill:
    """A skill whose SKILL.md was read and verified."""

    def __init__(self, loop: _Loop, skill: AsyncSkill) -> None:
        self._loop = loop
        self._skill = skill
        self.uri, self.name, self.description = skill.uri, skill.name, skill.description
        self.frontmatter, self.text, self.files = skill.frontmatter, skill.text, skill.files

    def read(self, file: str, **options: Unpack[CallOptions]) -> bytes:
        return self._loop.call(self._skill.read(file, **options))


@name_options
class Client:
    """`dovetail.Client` without ``await``; it takes the same options."""

    def __init__(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        for name in ("on_elicit", "on_sample", "on_roots"):
            callback = options.get(name)
            if callable(callback):
                options[name] = _in_thread(callback)
        self._client = AsyncClient(target, **options)
        self._loop: _Loop | None = None
        self._lock = threading.Lock()
        self._ending: weakref.finalize[Any, Any] | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        with self._lock:
            if self._loop is None:
                self._loop = _Loop()
                # Nobody may ever call `close`: then it happens when the client is forgotten, or the program ends.
                self._ending = weakref.finalize(self, _forgotten, self._loop, self._client)
        self._run(self._client.open())
        return self

    def close(self, drain: float = 0.0) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            ending, self._ending = self._ending, None
        if loop is not None:
            if ending is not None:
                ending.detach()
            loop.end(self._client.close(drain))

    def pause(self) -> None:
        self._run(_at_once(self._client.pause))

    def resume(self) -> None:
        self._run(_at_once(self._client.resume))

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def state(self) -> str:
        return self._client.state

    @property
    def connected(self) -> bool:
        return self._client.connected

    @property
    def pending(self) -> int:
        return self._client.pending

    @property
    def violations(self) -> dict[str, int]:
        return self._client.violations

    @property
    def revision(self) -> str | None:
        return self._client.revision

    @property
    def server_info(self) -> Implementation | None:
        return self._client.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        return self._client.server_capabilities

    @property
    def instructions(self) -> str | None:
        return self._client.instructions

    # --- calls ----------------------------------------------------------------------------------------------------

    def list_tools(self, **options: Unpack[CachedOptions]) -> list[Tool]:
        return self._run(self._client.list_tools(**options))

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: Literal[False] = False,
        **options: Unpack[ToolOptions],
    ) -> ToolResult: ...

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: Literal[True],
        **options: Unpack[ToolOptions],
    ) -> TaskHandle: ...

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: bool = False,
        **options: Unpack[ToolOptions],
    ) -> ToolResult | TaskHandle:
        if not task:
            return self._run(self._client.call_tool(name, arguments, **options))
        return TaskHandle(
            self._thread, self._run(self._client.call_tool(name, arguments, task=True, **options))
        )

    def create_task(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolOptions]
    ) -> TaskHandle:
        return TaskHandle(self._thread, self._run(self._client.create_task(name, arguments, **options)))

    def list_tasks(self, **options: Unpack[CallOptions]) -> list[Task]:
        return self._run(self._client.list_tasks(**options))

    def task(self, id: str) -> TaskHandle:
        return TaskHandle(self._thread, self._client.task(id))

    def list_resources(self, **options: Unpack[CachedOptions]) -> list[Resource]:
        return self._run(self._client.list_resources(**options))

    def list_resource_templates(self, **options: Unpack[CachedOptions]) -> list[ResourceTemplate]:
        return self._run(self._client.list_resource_templates(**options))

    def read_resource(self, uri: str, **options: Unpack[CachedOptions]) -> ReadResourceResult:
        return self._run(self._client.read_resource(uri, **options))

    def subscribe_resource(self, uri: str, *, timeout: Timeout = None) -> None:
        self._run(self._client.subscribe_resource(uri, timeout=timeout))

    def unsubscribe_resource(self, uri: str, *, timeout: Timeout = None) -> None:
        self._run(self._client.unsubscribe_resource(uri, timeout=timeout))

    def list_prompts(self, **options: Unpack[CachedOptions]) -> list[Prompt]:
        return self._run(self._client.list_prompts(**options))

    def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        return self._run(self._client.get_prompt(name, arguments, **options))

    def complete(
        self, ref: Any, argument: Any, value: Any = None, context: Any = None, **options: Unpack[CallOptions]
    ) -> CompleteResult:
        return self._run(self._client.complete(ref, argument, value, context, **options))

    def list_skills(self, **options: Unpack[CachedOptions]) -> list[Skill]:
        return self._run(self._client.list_skills(**options))

    def load_skill(self, skill: Skill | str, **options: Unpack[CallOptions]) -> LoadedSkill:
        return LoadedSkill(self._thread, self._run(self._client.load_skill(skill, **options)))

    def read_directory(self, uri: str, **options: Unpack[CallOptions]) -> list[Resource]:
        return self._run(self._client.read_directory(uri, **options))

    def create_message(
        self, params: CreateMessageRequestParams | Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> CreateMessageResult:
        return self._run(self._client.create_message(params, **options))

    def set_logging_level(self, level: str, **options: Unpack[CallOptions]) -> None:
        self._run(self._client.set_logging_level(level, **options))

    def notify_roots_changed(self) -> None:
        self._run(self._client.notify_roots_changed())

    def ping(self, **options: Unpack[CallOptions]) -> float:
        return self._run(self._client.ping(**options))

    def request(self, method: str, params: Any = None, **options: Unpack[RequestOptions]) -> Any:
        return self._run(self._client.request(method, params, **options))

    def notify(self, method: str, params: Any = None) -> None:
        self._run(self._client.notify(method, params))

    def add_notification(self, method: str, handler: Callable[[Any], Any], *, params: Any = None) -> None:
        self._client.add_notification(method, handler, params=params)

    # --- inside ---------------------------------------------------------------------------------------------------

    @property
    def _thread(self) -> _Loop:
        loop = self._loop
        if loop is None:
            raise StateError("the client is not connected: open it first")
        return loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._loop
        if loop is None:
            work.close()
            raise StateError("the client is not connected: open it first")
        return loop.call(work)


async def _at_once(work: Callable[[], None]) -> None:
    work()


def _forgotten(loop: _Loop, client: AsyncClient) -> None:
    loop.end(client.close())


def _in_thread(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The callback as a coroutine that runs it in a worker thread."""
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
        return callback
    answer = with_request(callback)

    async def threaded(request: Any) -> Any:
        return await asyncio.to_thread(answer, request)

    return threaded
