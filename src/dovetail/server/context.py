"""What a handler sees of the call it serves. Ask for it by annotating a parameter with `Context`."""

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
from .handles import State, create_handle
from .input_requests.client_requests import Asking, InputNotSupported
from .input_requests.request_kinds import (
    Accepted,
    Declined,
    Elicit,
    ElicitUrl,
    Messages,
    Question,
    Roots,
    Sample,
    Sampled,
    SampleOptions,
)
from .signatures.plain_types import encode

if TYPE_CHECKING:
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
    """What a client calls itself, as it came; the members everybody has are attributes too."""

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
    """One call, seen from inside: who asks, what may be asked back, how to report.

    It is good for as long as the handler runs; what is sent after that goes nowhere.
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

    # Who asks

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
        """What the client calls itself. Never decide anything by it."""
        info = self._call.client_info
        return None if info is None else ClientInfo(info)

    @property
    def client_capabilities(self) -> m.ClientCapabilities:
        """What this client can be asked for: ``ctx.client_capabilities.has("sampling.tools")``."""
        return self._call.capabilities

    @property
    def principal(self) -> Principal | None:
        """Who the transport has authenticated; None when it has not."""
        return self._call.principal

    @property
    def session(self) -> Session | None:
        """The legacy session, None on 2026-07-28, which has none."""
        return self._call.session

    @property
    def scope(self) -> Mapping[str, Any]:
        """What the transport knows about this call: ``transport``, ``headers``, ``client``, …"""
        return self._call.scope

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` of the request."""
        return self._call.meta

    @property
    def cancelled(self) -> bool:
        """The client gave up. Async handlers are cancelled; a plain function in a thread looks here."""
        return self._call.client_cancelled

    @property
    def server(self) -> Server:
        """The server this handler is registered with."""
        return self._server

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self._server.lifecycle.lifespan_value

    # Asking the client; the same line works on every revision

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

        Check ``.action`` before using ``.data``. On 2026-07-28 the handler is run again from the top once the
        answer is there: put side effects that come before it into `step`.

        Raises:
            CapabilityError: the client cannot show forms. Left uncaught, it becomes the proper error.
        """
        if self._closed:
            self._check_open()
        asking = self._asking.ask_one(Elicit(message, schema, key=key))
        asking.__qualname__ = "Context.elicit"  # Python names it when `await` is missing
        return asking

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Accepted[None] | Declined:
        """Ask the user to visit ``url``, for anything a form must not carry. The answer says whether they
        agreed.

        Raises:
            CapabilityError: the client cannot open URLs.
        """
        self._check_open()
        return await self._asking.ask_one(ElicitUrl(message, url, key=key))

    async def confirm(self, message: str, details: object = None) -> bool:
        """Ask the user to approve an operation, and return whether they did.

        ``details`` is a text or a value that is shown as JSON. A client without forms gets a URL of this server to
        open. A client without elicitation gets a tool error with a link; the call goes through when it is repeated
        after the approval. Where none of these is possible, the answer is False.

        Raises:
            ToolError: the user has to open a link first. Leave it uncaught.
        """
        from .confirmation import Confirmation, text_of  # most servers do not confirm anything

        self._check_open()
        try:
            return await Confirmation(self._server, self._call, self._asking, text_of(message, details)).ask()
        except InputNotSupported:
            return False

    async def sample(self, messages: Messages, **options: Unpack[SampleOptions]) -> Sampled:
        """Ask the client's model.

        Raises:
            CapabilityError: the client has no model for us, or not one that takes ``tools``.
        """
        self._check_open()
        return await self._asking.ask_one(Sample(messages, **options))

    async def list_roots(self, *, key: str | None = None) -> list[m.Root]:
        """The folders the client lets us know about.

        Raises:
            CapabilityError: the client has no roots.
        """
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
        """Ask independent questions in one round: ``Elicit(…)``, ``ElicitUrl(…)``, ``Sample(…)``,
        ``Roots()``.

        Questions given by position are answered in a tuple, those given by name in a dict.
        """
        if questions and named:
            raise TypeError("ask_all takes questions by position or by name, not both")
        self._check_open()
        if not named:
            return tuple(await self._asking.ask(questions))
        for name, question in named.items():
            question.key = question.key or name
        return dict(zip(named, await self._asking.ask(tuple(named.values())), strict=True))

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the call is over: nobody is there to be asked any more")

    @overload
    async def step(self, key: str, function: Callable[..., Awaitable[T]], /, *args: Any) -> T: ...
    @overload
    async def step(self, key: str, function: Callable[..., T], /, *args: Any) -> T: ...
    async def step(self, key: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call ``function(*args)`` once in the life of this call, though the handler may be run again.

        Its result travels sealed with the questions, so it has to be JSON; the function's return annotation
        says what it is read back as. Plain functions run in a worker thread.
        """
        return await self._asking.step(key, function, args)

    @property
    def input_responses(self) -> Mapping[str, Any]:
        """Answers to an `InputRequired` this handler returned in the round before, by its keys."""
        return self._asking.input_responses

    @property
    def request_state(self) -> Any:
        """The state of the `InputRequired` this handler returned in the round before."""
        return self._asking.handler_state

    # The connection

    async def continue_as_task(self) -> None:
        """From here on this call is a task: the client gets its id, the handler goes on.

        For a tool registered with ``asks_first``; anywhere else nothing happens, and the same handler serves
        clients that know no tasks.
        """
        await self._channel.continue_as_task()

    async def close_stream(self) -> None:
        """Let go of the HTTP stream of this call: the client comes back for the rest of it.

        For long work on 2025-11-25; where there is no stream to resume, nothing happens.
        """
        await self._channel.close_stream()

    # Reporting

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far this call is. Progress only grows; what does not is dropped."""
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
        """Send a log message, if the client wants this level (on 2026-07-28: if it asked for any)."""
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
        """Send a notification that is none of the protocol's, on the stream of this call.

        Raises:
            ValueError: it is one of the protocol's, which have methods of their own here.
        """
        if method in METHODS:
            raise ValueError(f"{method!r} belongs to the protocol")
        if not self._closed:
            self._channel.notify(method, None if params is None else CustomParams.split(encode(params)))
            await self._channel.drain()

    async def message(self, role: str, content: Any) -> None:
        """Send a chat line, as erlmcp's clients expect it; in every other dialect nothing is sent."""
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

    # What outlives the call

    async def create_handle(self, value: Any, *, ttl: float | None = None) -> str:
        """Store ``value`` for ``ttl`` seconds (an hour) and return the id of its handle, for the model to pass on.

        A parameter annotated ``Handle[type]`` takes it and arrives loaded. It belongs to the principal of this call.

        Raises:
            TypeError, ValueError: the value has no JSON form, or is too large.
            StoreFull: as many are kept as may be, for whoever calls or for all.
        """
        return await create_handle(self._server.lifecycle.state_store, self._call, value, ttl)

    @property
    def state(self) -> State:
        """Values that belong to the principal or, where there is none, to the legacy session.

        Raises:
            StateError: there is neither.
        """
        return State(self._server.lifecycle.state_store, self._call)

    # What the caller sees

    async def show(self, *names: str, tags: Collection[str] = ()) -> None:
        """Show these tools, and those with one of ``tags``, to this session (on 2026-07-28: this principal) alone.

        For a server that hides something (`Server.hide`). Whoever it is done for is told that the list changed.

        Raises:
            StateError: the server hides nothing, or there is neither a session nor a principal.
        """
        await self._change_visible(chosen(names, tags), show=True)

    async def hide(self, *names: str, tags: Collection[str] = ()) -> None:
        """Hide these tools from this session (on 2026-07-28: this principal) alone; `show` undoes it."""
        await self._change_visible(chosen(names, tags), show=False)

    async def _change_visible(self, words: list[str], *, show: bool) -> None:
        transforms = self._server.registry.transforms
        if transforms is None or transforms.visibility is None:
            raise StateError("this server shows the same to everybody: call server.hide() when it is made")
        await transforms.visibility.change(self._call, words, show=show)

    # The server's own

    async def read_resource(self, uri: str) -> list[m.ResourceContents]:
        """Read a resource of this server, as a client would.

        Raises:
            ProtocolError: of kind ``resource_not_found``.
        """
        return await self._server.dispatcher.read_for(uri, self)

    def wait(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """For a plain function in a worker thread: run one of these methods on the event loop, wait for it.

        ``ctx.wait(ctx.report_progress(1, 2))``. An async handler uses ``await`` in its place.
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
        """The handler is done: nothing more is sent in its name, and no thread of its waits any longer."""
        self._closed = True
        if self._waiting:
            for future in tuple(self._waiting):
                future.cancel()
