"""The synchronous client: the same names, without ``await``.

```python
from dovetail.sync import Client

with Client("http://127.0.0.1:8000/mcp") as client:
    print(client.call_tool("forecast", {"city": "Oslo"}).data)
```

The connection runs on a separate event loop in a background thread, so the client works in scripts, notebooks, threads
and inside a running loop (which it blocks, as any synchronous call). Callbacks are plain functions. They run in worker
threads, so they can block and can use the client.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from .client import Client as AsyncClient
from .client.calling.results import ToolResult
from .client.calling.skill_calls import LoadedSkill as AsyncSkill
from .client.calling.task_handles import TaskHandle as AsyncTaskHandle
from .client.client_config import CallOptions, ClientOptions, ToolCallOptions, name_options
from .client.server_requests.callbacks import with_request
from .errors import StateError
from .model import SkillEntry

SYNC_CLOSE_SECONDS: Final = 10.0
"""Seconds to wait for the thread when a synchronous client is closed."""


P = ParamSpec("P")
T = TypeVar("T")


class _Loop:
    """An event loop in a background thread."""

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
        """Run ``work`` on the loop and wait for its result; an interrupt (Ctrl-C) cancels it.

        Raises:
            StateError: called on the thread of the loop, where it would wait forever.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise StateError(
                "a synchronous client cannot be used on its own thread: use the asynchronous dovetail.Client"
            )
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` and stop the loop. Do not wait on the thread of the loop: the garbage collector can call this
        on any thread."""
        if threading.current_thread() is self._thread:
            self._loop.create_task(work).add_done_callback(lambda _: self._loop.stop())
            return
        try:
            self.call(work)
        finally:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(SYNC_CLOSE_SECONDS)


def _waiting(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Make a method of the asynchronous client wait for its result."""

    @functools.wraps(method)
    def wait(self: Client, *args: P.args, **options: P.kwargs) -> T:
        return self._run(method(self._client, *args, **options))  # pyright: ignore[reportPrivateUsage]

    return wait


class _Shown(Generic[T]):
    """A property of the asynchronous client."""

    def __init__(self, read: Callable[[AsyncClient], T]) -> None:
        self._read = read

    def __get__(self, client: Client, _: type[Client]) -> T:
        return self._read(client._client)  # pyright: ignore[reportPrivateUsage]


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

    def cancel(self, reason: str | None = None) -> None:
        self._loop.call(self._handle.cancel(reason))

    @property
    def progress(self) -> float | None:
        return self._handle.progress

    @property
    def total(self) -> float | None:
        return self._handle.total

    @property
    def metadata(self) -> dict[str, Any] | None:
        return self._handle.metadata

    @property
    def reason(self) -> str | None:
        return self._handle.reason


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

    # --- lifecycle ----------------------------------------------------------------------------------------------

    def open(self) -> Self:
        with self._lock:
            if self._loop is None:
                self._loop = _Loop()
                # Without a call of `close`, the client is closed by the garbage collector or at the end of the program.
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

    state = _Shown(lambda client: client.state)
    connected = _Shown(lambda client: client.connected)
    pending = _Shown(lambda client: client.pending)
    violations = _Shown(lambda client: client.violations)
    revision = _Shown(lambda client: client.revision)
    server_info = _Shown(lambda client: client.server_info)
    server_capabilities = _Shown(lambda client: client.server_capabilities)
    instructions = _Shown(lambda client: client.instructions)

    # --- calls ----------------------------------------------------------------------------------------------------

    list_tools = _waiting(AsyncClient.list_tools)
    list_tasks = _waiting(AsyncClient.list_tasks)
    list_resources = _waiting(AsyncClient.list_resources)
    list_resource_templates = _waiting(AsyncClient.list_resource_templates)
    read_resource = _waiting(AsyncClient.read_resource)
    subscribe_resource = _waiting(AsyncClient.subscribe_resource)
    unsubscribe_resource = _waiting(AsyncClient.unsubscribe_resource)
    list_prompts = _waiting(AsyncClient.list_prompts)
    get_prompt = _waiting(AsyncClient.get_prompt)
    complete = _waiting(AsyncClient.complete)
    list_skills = _waiting(AsyncClient.list_skills)
    read_directory = _waiting(AsyncClient.read_directory)
    create_message = _waiting(AsyncClient.create_message)
    set_logging_level = _waiting(AsyncClient.set_logging_level)
    notify_roots_changed = _waiting(AsyncClient.notify_roots_changed)
    ping = _waiting(AsyncClient.ping)
    request = _waiting(AsyncClient.request)
    notify = _waiting(AsyncClient.notify)

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: Literal[False] = False,
        **options: Unpack[ToolCallOptions],
    ) -> ToolResult: ...

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: Literal[True],
        **options: Unpack[ToolCallOptions],
    ) -> TaskHandle: ...

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: bool = False,
        **options: Unpack[ToolCallOptions],
    ) -> ToolResult | TaskHandle:
        if not task:
            return self._run(self._client.call_tool(name, arguments, **options))
        return TaskHandle(
            self._thread, self._run(self._client.call_tool(name, arguments, task=True, **options))
        )

    def create_task(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolCallOptions]
    ) -> TaskHandle:
        return TaskHandle(self._thread, self._run(self._client.create_task(name, arguments, **options)))

    def task(self, id: str) -> TaskHandle:
        return TaskHandle(self._thread, self._client.task(id))

    def load_skill(self, skill: SkillEntry | str, **options: Unpack[CallOptions]) -> LoadedSkill:
        return LoadedSkill(self._thread, self._run(self._client.load_skill(skill, **options)))

    def run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Run ``work(client)`` on the event loop of this client, with the asynchronous client, and wait for it."""
        return self._thread.call(work(self._client))

    def add_notification(self, method: str, handler: Callable[[Any], Any], *, params: Any = None) -> None:
        self._client.add_notification(method, handler, params=params)

    # --- internal ---------------------------------------------------------------------------------------------------

    @property
    def _thread(self) -> _Loop:
        loop = self._loop
        if loop is None:
            raise StateError("the client is not connected: use `with Client(…)` or open()")
        return loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._loop
        if loop is None:
            work.close()
            raise StateError("the client is not connected: use `with Client(…)` or open()")
        return loop.call(work)


async def _at_once(work: Callable[[], None]) -> None:
    work()


def _forgotten(loop: _Loop, client: AsyncClient) -> None:
    loop.end(client.close())


def _in_thread(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function that runs the callback in a worker thread."""
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
        return callback
    answer = with_request(callback)

    async def threaded(request: Any) -> Any:
        return await asyncio.to_thread(answer, request)

    return threaded
