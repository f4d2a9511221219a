"""`Context`: the view that a handler has of its call. A parameter annotated `Context` receives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, get_args, overload

from msgspec import UNSET

from .. import model as m
from ..core.channel import Call, Channel, Session
from ..core.principal import Principal
from ..errors import StateError
from ..model.meta import LOG_LEVEL, PROGRESS_TOKEN
from ..wire.dialects.dialect import VENDOR
from ..wire.methods import METHODS, CustomParams
from .composition import chosen
from .input_requests.input_required import InputNotSupported
from .signatures.plain_types import encode

if TYPE_CHECKING:
    from .handles import State
    from .input_requests.client_requests import Asking
    from .input_requests.request_kinds import (
        Accepted,
        Declined,
        Messages,
        Question,
        Sampled,
        SampleOptions,
    )
    from .server import Server

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class _Levels(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise ValueError(f"a log level is one of {', '.join(self)}; not {name!r}")


LEVELS: Final = _Levels((level, rank) for rank, level in enumerate(get_args(m.LoggingLevel)))


class ClientInfo(dict[str, Any]):
    """The client's description of itself, as received. Members that every client sends are attributes too."""

    @property
    def name(self) -> str:
        return self.get("name", "")

    @property
    def version(self) -> str:
        return self.get("version", "")

    @property
    def title(self) -> str | None:
        return self.get("title")


class Context:
    """One call as its handler sees it: the caller, requests to the client, progress and logs.

    It is valid while the handler runs; messages sent after that are dropped.
    """

    __slots__ = ("_asking", "_call", "_channel", "_closed", "_loop", "_progress", "_server", "_waiting")
    __dovetail_context__ = True

    def __init__(self, server: Server, call: Call, channel: Channel, asking: Asking) -> None:
        self._server = server
        self._call = call
        self._channel = channel
        self._asking = asking
        self._progress: float | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._waiting: set[Future[Any]] = set()

    # The caller

    @property
    def request_id(self) -> int | str:
        """The id the client gave this request."""
        return self._call.id

    @property
    def revision(self) -> str:
        """The revision of the protocol this call is served under, such as ``"2026-07-28"``."""
        return self._call.revision.name

    @property
    def client_info(self) -> ClientInfo | None:
        """What the client reports about itself. Do not base security decisions on it."""
        info = self._call.client_info
        return None if info is None else ClientInfo(info)

    @property
    def client_capabilities(self) -> m.ClientCapabilities:
        """The capabilities of the client: ``ctx.client_capabilities.has("sampling.tools")``."""
        return self._call.capabilities

    @property
    def principal(self) -> Principal | None:
        """The principal that the transport has authenticated; None without authentication."""
        return self._call.principal

    @property
    def session(self) -> Session | None:
        """The legacy session; None on 2026-07-28, which has no sessions."""
        return self._call.session

    @property
    def scope(self) -> Mapping[str, Any]:
        """Facts from the transport about this call: ``transport``, ``headers``, ``client``, …"""
        return self._call.scope

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` of the request."""
        return self._call.meta

    @property
    def cancelled(self) -> bool:
        """Whether the client cancelled the call. Async handlers are cancelled; a plain function in a thread checks
        this.
        """
        return self._call.client_cancelled

    @property
    def server(self) -> Server:
        """The server this handler is registered with."""
        return self._server

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self._server.lifecycle.lifespan_value

    # Requests to the client; the same code works on every revision

    @overload
    def elicit(
        self, message: str, schema: type[T], *, key: str | None = None
    ) -> Coroutine[Any, Any, Accepted[T] | Declined]: ...
    @overload
    def elicit(
        self, message: str, schema: Sequence[str], *, key: str | None = None
    ) -> Coroutine[Any, Any, Accepted[str] | Declined]: ...
    @overload
    def elicit(
        self, message: str, schema: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Coroutine[Any, Any, Accepted[dict[str, Any]] | Declined]: ...
    @overload
    def elicit(
        self, message: str, schema: Any, *, key: str | None = None
    ) -> Coroutine[Any, Any, Accepted[Any] | Declined]: ...
    def elicit(
        self, message: str, schema: Any = None, *, key: str | None = None
    ) -> Coroutine[Any, Any, Accepted[Any] | Declined]:
        """Ask the user to fill in a form made from a flat type, a JSON Schema or a list of choices.

        Check ``.action`` before using ``.data``. On 2026-07-28 the handler runs again from the start when the answer
        has arrived: put side effects that come earlier into `step`.

        Raises:
            CapabilityError: the client does not support forms. If the handler does not catch it, the client gets the
            correct error.
        """
        if self._closed:
            self._check_open()
        from .input_requests.request_kinds import Elicit  # loaded with the first question

        asking = self._asking.ask_one(Elicit(message, schema, key=key))
        asking.__qualname__ = "Context.elicit"  # Python names it when `await` is missing
        return asking

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Accepted[None] | Declined:
        """Ask the user to visit ``url``, for anything that a form must not collect. The result says whether the user
        agreed.

        Raises:
            CapabilityError: the client cannot open URLs.
        """
        from .input_requests.request_kinds import ElicitUrl  # loaded with the first question

        self._check_open()
        return await self._asking.ask_one(ElicitUrl(message, url, key=key))

    async def confirm(self, message: str, details: object = None) -> bool:
        """Ask the user to approve an operation, and return whether they did.

        ``details`` is a text, or a value that is shown as JSON. A client without forms gets a URL of this server to
        open. A client without elicitation gets a tool error with a link; the repeated call succeeds after the approval.
        Where none of these is possible, the answer is False.

        Raises:
            ToolError: the user has to open a link first. Do not catch it.
        """
        from .confirmation import Confirmation, text_of  # most servers do not confirm anything

        self._check_open()
        try:
            return await Confirmation(self._server, self._call, self._asking, text_of(message, details)).ask()
        except InputNotSupported:
            return False

    async def sample(self, messages: Messages, **options: Unpack[SampleOptions]) -> Sampled:
        """Request a completion from the client's model.

        Raises:
            CapabilityError: the client does not support sampling, or not sampling with ``tools``.
        """
        from .input_requests.request_kinds import Sample  # loaded with the first question

        self._check_open()
        return await self._asking.ask_one(Sample(messages, **options))

    async def list_roots(self, *, key: str | None = None) -> list[m.Root]:
        """Request the folders that the client exposes as roots.

        Raises:
            CapabilityError: the client does not support roots.
        """
        from .input_requests.request_kinds import Roots  # loaded with the first question

        self._check_open()
        return await self._asking.ask_one(Roots(key=key))

    @overload
    async def ask_all(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    async def ask_all(
        self, first: Question[A], second: Question[B], third: Question[C], /
    ) -> tuple[A, B, C]: ...
    @overload
    async def ask_all(self, *questions: Question[A]) -> tuple[A, ...]: ...
    @overload
    async def ask_all(self, **questions: Question[Any]) -> dict[str, Any]: ...
    async def ask_all(self, *questions: Question[Any], **named: Question[Any]) -> Any:
        """Send independent input requests in one round: ``Elicit(…)``, ``ElicitUrl(…)``, ``Sample(…)``, ``Roots()``.

        The results of positional requests are a tuple, those of named requests a dict.
        """
        if questions and named:
            raise TypeError("ask_all takes positional or named input requests, not both")
        self._check_open()
        if not named:
            return tuple(await self._asking.ask(questions))
        for name, question in named.items():
            question.key = question.key or name
        return dict(zip(named, await self._asking.ask(tuple(named.values())), strict=True))

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the call has ended: its client cannot be asked any more")

    @overload
    async def step(self, key: str, function: Callable[..., Awaitable[T]], /, *args: Any) -> T: ...
    @overload
    async def step(self, key: str, function: Callable[..., T], /, *args: Any) -> T: ...
    async def step(self, key: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call ``function(*args)`` once per call of the tool, although the handler may run several times.

        The result is stored in the sealed request state, so it has to be JSON. It is decoded as the return annotation
        of the function. Plain functions run in a worker thread.
        """
        return await self._asking.step(key, function, args)

    @property
    def input_responses(self) -> Mapping[str, Any]:
        """The answers to the `InputRequired` that this handler returned in the previous round, by key."""
        return self._asking.input_responses

    @property
    def request_state(self) -> Any:
        """The state of the `InputRequired` that this handler returned in the previous round."""
        return self._asking.handler_state

    # The connection

    async def continue_as_task(self) -> None:
        """Turn this call into a task: the client gets the task's id, and the handler continues.

        It applies to tools registered with ``asks_first``. Anywhere else it does nothing, so one handler also serves
        clients without tasks.
        """
        await self._channel.continue_as_task()

    async def close_stream(self) -> None:
        """Close the HTTP stream of this call; the client reconnects for the rest of the response.

        It is for long work on 2025-11-25. It does nothing where the stream cannot be resumed.
        """
        await self._channel.close_stream()

    # Reporting

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the client. Progress must increase; other reports are dropped."""
        token = self._call.meta.get(PROGRESS_TOKEN)
        if token is None or self._closed or not isfinite(progress):
            return
        if self._progress is not None and progress <= self._progress:
            return
        self._progress = progress
        self._channel.notify(
            "notifications/progress",
            m.ProgressNotificationParams(
                progress_token=token,
                progress=progress,
                total=UNSET if total is None else total,
                message=UNSET if message is None else message,
            ),
        )
        await self._channel.drain()

    async def log(self, level: m.LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message if the client requested this level (on 2026-07-28: if it requested any)."""
        if self._closed or LEVELS[level] < self._threshold():
            return
        self._channel.notify(
            "notifications/message",
            m.LoggingMessageNotificationParams(
                level=level, data=data, logger=UNSET if logger is None else logger
            ),
        )
        await self._channel.drain()

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a custom notification on the stream of this call.

        Raises:
            ValueError: ``method`` is a notification of the protocol; use its own method of `Context`.
        """
        if method in METHODS:
            raise ValueError(f"{method!r} is a notification of the protocol: use its own method of Context")
        if not self._closed:
            self._channel.notify(method, None if params is None else CustomParams.split(encode(params)))
            await self._channel.drain()

    async def message(self, role: str, content: Any) -> None:
        """Send a chat message for clients of erlmcp; clients of other dialects get nothing."""
        dialect = self._call.codec.dialect
        if self._closed or self._call.revision.modern or "notifications/message" not in dialect.field_out:
            return
        said = m.TextContent(content) if isinstance(content, str) else content
        params = m.LoggingMessageNotificationParams(level="info", data=said, meta={VENDOR + "role": role})
        self._channel.notify("notifications/message", params)
        await self._channel.drain()

    def _threshold(self) -> int:
        if self._call.revision.modern:
            wanted = self._call.meta.get(LOG_LEVEL)
            return len(LEVELS) if wanted is None else LEVELS[wanted]
        session = self._call.session
        wanted = None if session is None else session.log_level
        return LEVELS[self._server.dispatcher.settings.log_level if wanted is None else wanted]

    async def debug(self, data: Any, *, logger: str | None = None) -> None:
        """`log` at level ``debug``."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: Any, *, logger: str | None = None) -> None:
        """`log` at level ``info``."""
        await self.log("info", data, logger=logger)

    async def notice(self, data: Any, *, logger: str | None = None) -> None:
        """`log` at level ``notice``."""
        await self.log("notice", data, logger=logger)

    async def warning(self, data: Any, *, logger: str | None = None) -> None:
        """`log` at level ``warning``."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Any, *, logger: str | None = None) -> None:
        """`log` at level ``error``."""
        await self.log("error", data, logger=logger)

    async def critical(self, data: Any, *, logger: str | None = None) -> None:
        """`log` at level ``critical``."""
        await self.log("critical", data, logger=logger)

    # State that outlives the call

    async def create_handle(self, value: Any, *, ttl: float | None = None) -> str:
        """Store ``value`` for ``ttl`` seconds (default: one hour) and return the id of its handle, which the model can
        pass on.

        A parameter annotated ``Handle[type]`` takes the id and loads the value. It belongs to the principal of this
        call.

        Raises:
            TypeError, ValueError: the value cannot be encoded as JSON, or is too large.
            StoreFull: the quota of handles is used up, for this caller or for the server.
        """
        from .handles import create_handle  # loaded with the first handle

        return await create_handle(self._server.lifecycle.state_store, self._call, value, ttl)

    @property
    def state(self) -> State:
        """Values that belong to the principal or, without one, to the legacy session.

        Raises:
            StateError: the call has neither a principal nor a session.
        """
        from .handles import State  # loaded with its first use

        return State(self._server.lifecycle.state_store, self._call)

    # What the caller can see

    async def show(self, *names: str, tags: Collection[str] = ()) -> None:
        """Show these tools, and those with one of ``tags``, to this session (on 2026-07-28: this principal) alone.

        It is for a server that hides components (`Server.hide`). The clients concerned get ``list_changed``.

        Raises:
            StateError: the server hides nothing, or the call has neither a session nor a principal.
        """
        await self._change_visible(chosen(names, tags), show=True)

    async def hide(self, *names: str, tags: Collection[str] = ()) -> None:
        """Hide these tools from this session (on 2026-07-28: this principal) alone; `show` undoes it."""
        await self._change_visible(chosen(names, tags), show=False)

    async def _change_visible(self, words: list[str], *, show: bool) -> None:
        transforms = self._server.registry.transforms
        if transforms is None or transforms.visibility is None:
            raise StateError("this server hides no components: call server.hide() when you create it")
        await transforms.visibility.change(self._call, words, show=show)

    # The server's resources and event loop

    async def read_resource(self, uri: str) -> list[m.ResourceContents]:
        """Read a resource of this server, as a client would.

        Raises:
            ProtocolError: of kind ``resource_not_found``.
        """
        return await self._server.dispatcher.read_for(uri, self)

    def wait(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """From a plain function in a worker thread: run one of these methods on the event loop and wait for its result.

        Example: ``ctx.wait(ctx.report_progress(1, 2))``. An async handler uses ``await`` instead.
        """
        future = asyncio.run_coroutine_threadsafe(awaitable, self._loop)
        self._waiting.add(future)
        if self._closed:  # the call ended between the two lines above
            future.cancel()
        try:
            return future.result()
        finally:
            self._waiting.discard(future)

    def close(self) -> None:
        """End the context: nothing more is sent for this call, and its waiting threads are released."""
        self._closed = True
        if self._waiting:
            for future in tuple(self._waiting):
                future.cancel()
