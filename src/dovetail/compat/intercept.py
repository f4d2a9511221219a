"""Where the originals open a transport: there Dovetail serves instead, on the transport of the command line.

=====================================  ================================================================================
entry point of the original            what it does while a program runs
=====================================  ================================================================================
``run_stdio_async`` and its siblings   call the sibling for the transport of the command line
``stdio_server()``                     gives a pair of streams that says that a server wants to be served
low-level ``Server.run`` with these    serves that server, until the transport ends
``StreamableHTTPSessionManager``       answers with Dovetail's ASGI application
``SseServerTransport``                 the same for HTTP+SSE
``uvicorn.Server``                     binds the address of the command line; without HTTP it serves the application's
                                       one server on the other transport
=====================================  ================================================================================

Everything else of the original runs as it is: its HTTP application with authentication, middleware and custom routes,
its lifespans, its in-memory connections to itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial, wraps
from typing import Any, Final, NoReturn, cast

from ..errors import DovetailError
from .adapter import Adapter, Receive, Scope, Send, asgi_lifespan
from .hosting import DRAIN_SECONDS, Host
from .versions import (
    HTTP_RUN,
    HTTP_SERVER,
    MANAGER,
    REFUSED,
    SSE,
    STDIO,
    WEBSOCKET,
    CompatError,
    Installed,
    ServerClass,
    Transport,
    load,
)

_SETTLING_TURNS: Final = 5
"""Turns of the event loop in which a program may start a second server before the first is served."""


class Claim:
    """What an intercepted transport gives to ``Server.run`` in place of streams."""

    def __init__(self, connection: tuple[Any, Scope, Receive, Send] | None = None) -> None:
        self.connection = connection
        """The transport and the request, for HTTP+SSE."""


class ClaimedStream:
    """A stream that only ``Server.run`` can use."""

    def __init__(self, claim: Claim, interception: Interception) -> None:
        self.claim, self._interception = claim, interception

    async def __aenter__(self) -> ClaimedStream:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def aclose(self) -> None: ...

    def close(self) -> None: ...

    def __aiter__(self) -> NoReturn:
        self._refuse()

    async def receive(self) -> NoReturn:
        """Nothing can be read here."""
        self._refuse()

    async def send(self, item: Any) -> NoReturn:
        """Nothing can be written here."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        text = "the program reads the streams of a transport itself; Dovetail serves low-level Server.run(...) only"
        self._interception.refuse(text)


class Interception:
    """The entry points of the installed originals, replaced until the program has ended."""

    def __init__(self, found: Installed, host: Host) -> None:
        self.found, self.host = found, host
        self.failure: DovetailError | None = None
        """Why nothing was served."""
        self.served = False
        self._names: list[str] = []
        """Servers that want to be served at the same time."""
        self._adapters: dict[int, Adapter] = {}
        """By their servers, as long as their lifespan lasts."""
        self._lasting: dict[int, tuple[asyncio.Task[None], asyncio.Future[Adapter]]] = {}
        """By their servers, adapters that begin with their first client and end with the HTTP server."""
        self._ended: asyncio.Event | None = None
        """Set at the end of the HTTP server, which is uvicorn."""
        self._by_transport: dict[int, Adapter] = {}
        """Those that answer the messages of an HTTP+SSE transport."""
        self._transports = 0
        """HTTP transports of the originals that the program has made."""
        self._endpoints: dict[int, str] = {}
        """Where clients of HTTP+SSE post their messages, by transport."""

    # --- installing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Generator[None]:
        """Replace the entry points; put them back in the end.

        Raises:
            CompatError: the installed version lacks one.
        """
        undo: list[Callable[[], None]] = []

        def put(owner: Any, name: str, value: Any) -> None:
            before = cast("dict[str, Any]", vars(owner))[name]
            undo.append(partial(setattr, owner, name, before))
            setattr(owner, name, value)

        def put_function(path: str, make: Callable[[Any], Any]) -> None:
            before: Any = load(path)
            undo.append(replace_everywhere(before, make(before)))

        try:
            low_level = [load(name) for row in self.found.originals for name in row.low_level]
            for owner in {_owner(kind, "run") for kind in low_level}:
                put(owner, "run", self._run(vars(owner)["run"]))
            for row in self.found.originals:
                for one in row.servers:
                    kind = load(one.name)
                    methods = {way[0]: _method(kind, way[0]) for way in one.run.values()}
                    for name in methods:
                        put(_owner(kind, name), name, self._redirected(one, methods, name))
            put_function(STDIO, self._stdio_server)
            manager, sse, server = load(MANAGER), load(SSE), load(HTTP_SERVER)
            put(manager, "__init__", self._manager_init(manager.__init__))
            put(manager, "run", self._manager_run())
            put(manager, "handle_request", self._handle_request())
            put(sse, "__init__", self._sse_init(sse.__init__))
            put(sse, "connect_sse", self._connect_sse())
            put(sse, "handle_post_message", self._handle_post_message())
            put(server, "serve", self._serve_application(server.serve))
            put(server, "startup", self._startup(server.startup))
            put(server, "shutdown", self._shutdown(server.shutdown))
            put(server, "capture_signals", self._capture_signals())
            put_function(HTTP_RUN, _one_process)
            if self.found.originals[0].major == 1:
                put_function(WEBSOCKET, self._refused("mcp.server.websocket.websocket_server"))
            yield
        finally:
            for one in reversed(undo):
                one()

    def refuse(self, text: str) -> NoReturn:
        """End the program: few catch `SystemExit`, and many catch every `Exception`.

        Raises:
            SystemExit: always.
        """
        self.failure = self.failure or CompatError(text)
        with suppress(RuntimeError):  # a program without an event loop
            asyncio.get_running_loop().set_exception_handler(_silent)  # one line is enough
        raise SystemExit(REFUSED)

    def _refuse_http_server(self) -> NoReturn:
        self.refuse(
            "the program serves its HTTP application without uvicorn; Dovetail intercepts uvicorn only"
        )

    def _require_asyncio(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.refuse("the program runs its server without an asyncio event loop; Dovetail needs asyncio")

    def _refused(self, name: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            @wraps(original)
            def refused(*_: Any, **__: Any) -> NoReturn:
                self.refuse(f"the program uses {name}, a transport that Dovetail does not intercept")

            return refused

        return make

    # --- which transport ----------------------------------------------------------------------------------------------

    def _redirected(self, one: ServerClass, methods: Mapping[str, Any], called: str) -> Any:
        """A ``run_…_async`` that calls its sibling for the transport of the command line."""

        @wraps(methods[called])
        async def run(server: Any, *args: Any, **options: Any) -> None:
            name, ours = one.run[self._way]
            if self._way != "stdio":
                for setting, value in one.settings.items():
                    setattr(server.settings, setting, value)
            given = {**options, **ours} if name == called else ours
            await methods[name](server, **given)

        return run

    @property
    def _way(self) -> Transport:
        wanted = self.host.wanted.transport
        return wanted if wanted in ("http", "sse") else "stdio"

    # --- streams ------------------------------------------------------------------------------------------------------

    def _stdio_server(self, original: Any) -> Any:
        @wraps(original)
        @asynccontextmanager
        async def stdio_server(*_: Any, **__: Any) -> AsyncGenerator[Any]:
            claim = Claim()
            yield ClaimedStream(claim, self), ClaimedStream(claim, self)

        return stdio_server

    def _run(self, original: Any) -> Any:
        @wraps(original)
        async def run(server: Any, read: Any, write: Any, *args: Any, **options: Any) -> None:
            if not isinstance(read, ClaimedStream):
                await original(server, read, write, *args, **options)
                return

            async def session(read: Any, write: Any) -> None:
                await original(server, read, write, *args, **options)

            connection = read.claim.connection
            if connection is None:
                await self._serve(server, session)
                return
            transport, scope, receive, send = connection
            path = self._endpoints[id(transport)]
            adapter = self._by_transport[id(transport)] = await self._adapter(server, session, path)
            await adapter.handle_sse(scope, receive, send, path)

        return run

    async def _serve(self, server: Any, session: Any) -> None:
        """Serve one server on the transport of the command line, until that ends."""
        self._require_asyncio()
        adapter = Adapter(server, session, self.found.sdk, self.host.wanted.http)
        self._names.append(adapter.name)
        for _ in range(_SETTLING_TURNS):
            await asyncio.sleep(0)
        if len(self._names) > 1:
            self.refuse(
                f"the program starts {len(self._names)} servers at once ({', '.join(self._names)}); "
                "choose one: FILE:name"
            )
        try:
            async with adapter.lifespan():
                self.served = True
                await self.host.serve(adapter)
        finally:
            self._names.remove(adapter.name)

    # --- HTTP applications of the original ----------------------------------------------------------------------------

    def _manager_init(self, original: Any) -> Any:
        @wraps(original)
        def init(manager: Any, *args: Any, **options: Any) -> None:
            self._transports += 1
            original(manager, *args, **options)
            manager.asgi_app = manager.handle_request  # some applications call this in its place

        return init

    def _sse_init(self, original: Any) -> Any:
        @wraps(original)
        def init(transport: Any, endpoint: str, *args: Any, **options: Any) -> None:
            self._transports += 1
            self._endpoints[id(transport)] = endpoint if endpoint.startswith("/") else f"/{endpoint}"
            original(transport, endpoint, *args, **options)

        return init

    @asynccontextmanager
    async def _running(self, server: Any, session: Any) -> AsyncGenerator[Adapter]:
        if self._ended is None:
            self._refuse_http_server()
        adapter = Adapter(server, session, self.found.sdk, self.host.wanted.http)
        async with adapter.lifespan():
            self._adapters[id(server)] = adapter
            try:
                yield adapter
            finally:
                del self._adapters[id(server)]

    async def _adapter(self, server: Any, session: Any, messages_path: str) -> Adapter:
        """The adapter of a server whose application does not say when it begins; it ends with the HTTP server."""
        if (ended := self._ended) is None:
            self._refuse_http_server()
        if id(server) not in self._lasting:
            ready: asyncio.Future[Adapter] = asyncio.get_running_loop().create_future()

            async def last() -> None:
                # One task begins and ends it: the original's lifespan may have a task group.
                running = self._running(server, session)
                async with running as adapter, asgi_lifespan(adapter.app(messages_path)):
                    ready.set_result(adapter)
                    await ended.wait()

            self._lasting[id(server)] = asyncio.get_running_loop().create_task(last()), ready
        task, ready = self._lasting[id(server)]
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await task  # it raises what went wrong
        return ready.result()

    async def _end_lasting(self, ended: asyncio.Event) -> None:
        ended.set()
        if self._lasting:
            await asyncio.wait([task for task, _ in self._lasting.values()])

    def _manager_run(self) -> Any:
        @asynccontextmanager
        async def run(manager: Any) -> AsyncGenerator[None]:
            running = self._running(manager.app, _sessions_of(manager.app))
            async with running as adapter, asgi_lifespan(adapter.app()):
                yield

        return run

    def _handle_request(self) -> Any:
        async def handle_request(manager: Any, scope: Scope, receive: Receive, send: Send) -> None:
            adapter = self._adapters.get(id(manager.app))
            if adapter is None:
                raise RuntimeError("Task group is not initialized. Make sure to use run().")
            await adapter.handle(scope, receive, send)

        return handle_request

    def _connect_sse(self) -> Any:
        @asynccontextmanager
        async def connect_sse(
            transport: Any, scope: Scope, receive: Receive, send: Send
        ) -> AsyncGenerator[Any]:
            claim = Claim((transport, scope, receive, send))
            yield ClaimedStream(claim, self), ClaimedStream(claim, self)

        return connect_sse

    def _handle_post_message(self) -> Any:
        async def handle_post_message(transport: Any, scope: Scope, receive: Receive, send: Send) -> None:
            adapter = self._by_transport.get(id(transport))
            if adapter is None:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b"there is no such session"})
                return
            await adapter.handle_message(scope, receive, send, self._endpoints[id(transport)])

        return handle_post_message

    # --- the HTTP server ----------------------------------------------------------------------------------------------

    def _serve_application(self, original: Any) -> Any:
        @wraps(original)
        async def serve(http_server: Any, *_: Any, **__: Any) -> None:
            self._require_asyncio()
            config = http_server.config
            self.host.begin()
            ended = self._ended = asyncio.Event()
            config.lifespan = "off"  # it is run here
            if self.host.over_http:
                self.host.bind(config)
            if not config.loaded:
                config.load()
            app = config.loaded_app
            async with asgi_lifespan(app) as state:
                if not self._transports and not self.served:
                    self.refuse(
                        "the program serves an HTTP application without a server that Dovetail can intercept"
                    )
                if self.host.over_http:
                    config.loaded_app = self._beside(app, state)
                    await original(http_server)
                    await self._end_lasting(ended)
                    return
                adapters = list(self._adapters.values())
                if len(adapters) != 1:
                    names = f" ({', '.join(one.name for one in adapters)})" if adapters else ""
                    self.refuse(
                        f"the program's HTTP application has {len(adapters)} servers{names} that can be served "
                        "without HTTP; use --http"
                    )
                self.served = http_server.started = True
                await self.host.serve(adapters[0])

        return serve

    def _beside(self, app: Any, state: dict[str, Any]) -> Any:
        """The application, with Dovetail's own paths beside it."""

        async def beside(scope: Scope, receive: Receive, send: Send) -> None:
            own = (
                scope["type"] == "http" and scope["path"] in self.host.own_paths and len(self._adapters) == 1
            )
            if own:
                await next(iter(self._adapters.values())).app()(scope, receive, send)
            else:
                await app({**scope, "state": state.copy()}, receive, send)

        return beside

    def _startup(self, original: Any) -> Any:
        @wraps(original)
        async def startup(http_server: Any, *args: Any, **options: Any) -> None:
            try:
                await original(http_server, *args, **options)
            except SystemExit:
                self.refuse(
                    f"the HTTP server cannot listen on {self.host.wanted.host}:{self.host.wanted.port}"
                )
            if http_server.started:
                self.served = True
                self.host.announce(http_server)

        return startup

    def _shutdown(self, original: Any) -> Any:
        @wraps(original)
        async def shutdown(http_server: Any, *args: Any, **options: Any) -> None:
            # Event streams have no end of their own, and the HTTP server waits for them.
            for adapter in list(self._adapters.values()):
                await adapter.drain(DRAIN_SECONDS)
            await original(http_server, *args, **options)

        return shutdown

    def _capture_signals(self) -> Any:
        @contextmanager
        def capture_signals(http_server: Any) -> Generator[None]:
            async def stop() -> None:
                await self.host.stop.wait()
                http_server.should_exit = True

            stopping = asyncio.get_running_loop().create_task(stop())
            try:
                with self.host.signals():
                    yield
            finally:
                stopping.cancel()

        return capture_signals


def _silent(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None: ...


def _sessions_of(server: Any) -> Any:
    async def session(read: Any, write: Any) -> None:
        await server.run(read, write, server.create_initialization_options())

    return session


def _one_process(original: Any) -> Any:
    """``uvicorn.run`` without processes of its own, which would not know of the interception."""

    @wraps(original)
    def run(app: Any, **options: Any) -> None:
        original(app, **{**options, "workers": None, "reload": False})

    return run


def _owner(kind: type[Any], name: str) -> Any:
    return next(one for one in kind.__mro__ if name in vars(one))


def _method(kind: type[Any], name: str) -> Any:
    load(f"{kind.__module__}:{kind.__qualname__}.{name}")
    return getattr(kind, name)


def replace_everywhere(before: Any, after: Any) -> Callable[[], None]:
    """Put ``after`` into every module that has imported ``before``; gives what puts it back."""
    places = [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is before
    ]
    for module, name in places:
        setattr(module, name, after)

    def undo() -> None:
        for module, name in places:
            setattr(module, name, before)

    return undo
