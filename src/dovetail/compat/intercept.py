"""Where the originals open a transport: there Dovetail serves instead, on the transport of the command line.

=====================================  ================================================================================
entry point of the original            what it does while a program runs
=====================================  ================================================================================
``run_stdio_async`` and the others     call the method for the transport of the command line
``stdio_server()``                     gives a pair of placeholder streams
low-level ``Server.run`` with these    serves that server until the transport ends
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
from .adapter import Receive, Scope, Send, ServerAdapter, asgi_lifespan
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
    InstalledOriginals,
    ServerClass,
    Transport,
    load,
)

_SETTLING_TURNS: Final = 5
"""Turns of the event loop in which a program may start a second server before the first is served."""


class PlaceholderStream:
    """The stream that an intercepted transport passes to ``Server.run``. It carries no messages."""

    def __init__(
        self, interception: Interception, connection: tuple[Any, Scope, Receive, Send] | None = None
    ) -> None:
        self._interception = interception
        self.connection = connection
        """The transport and the request, for HTTP+SSE."""

    async def __aenter__(self) -> PlaceholderStream:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def aclose(self) -> None: ...

    def close(self) -> None: ...

    def __aiter__(self) -> NoReturn:
        self._refuse()

    async def receive(self) -> NoReturn:
        """Refuse to read."""
        self._refuse()

    async def send(self, item: Any) -> NoReturn:
        """Refuse to write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        text = "the program reads the streams of a transport itself; Dovetail serves low-level Server.run(...) only"
        self._interception.refuse(text)


class Interception:
    """The entry points of the installed originals, replaced until the program has ended."""

    def __init__(self, found: InstalledOriginals, host: Host) -> None:
        self.found, self.host = found, host
        self.failure: DovetailError | None = None
        """Why nothing was served."""
        self.served = False
        self._names: list[str] = []
        """Servers that the program has started and that have not ended."""
        self._adapters: dict[int, ServerAdapter] = {}
        """The adapters whose lifespan runs, by the id of their server."""
        self._lasting: dict[int, tuple[asyncio.Task[None], asyncio.Future[ServerAdapter]]] = {}
        """Adapters that start with their first client and end with the HTTP server, by the id of their server."""
        self._ended: asyncio.Event | None = None
        """Set at the end of the HTTP server, which is uvicorn."""
        self._by_transport: dict[int, ServerAdapter] = {}
        """The adapters of HTTP+SSE, by the id of the transport."""
        self._transports = 0
        """How many HTTP transports of the originals the program has made."""
        self._endpoints: dict[int, str] = {}
        """The paths to which clients of HTTP+SSE post their messages, by the id of the transport."""

    # --- installing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Generator[None]:
        """Replace the entry points; restore them at the end.

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
        """End the program. `SystemExit`, because many programs catch every `Exception`.

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
        """A ``run_…_async`` that calls the method for the transport of the command line."""

        @wraps(methods[called])
        async def run(server: Any, *args: Any, **options: Any) -> None:
            name, extra = one.run[self._transport]
            if self._transport != "stdio":
                for setting, value in one.settings.items():
                    setattr(server.settings, setting, value)
            given = {**options, **extra} if name == called else extra
            await methods[name](server, **given)

        return run

    @property
    def _transport(self) -> Transport:
        transport = self.host.options.transport
        return transport if transport in ("http", "sse") else "stdio"

    # --- streams ------------------------------------------------------------------------------------------------------

    def _stdio_server(self, original: Any) -> Any:
        @wraps(original)
        @asynccontextmanager
        async def stdio_server(*_: Any, **__: Any) -> AsyncGenerator[Any]:
            yield PlaceholderStream(self), PlaceholderStream(self)

        return stdio_server

    def _run(self, original: Any) -> Any:
        @wraps(original)
        async def run(server: Any, read: Any, write: Any, *args: Any, **options: Any) -> None:
            if not isinstance(read, PlaceholderStream):
                await original(server, read, write, *args, **options)
                return

            async def session(read: Any, write: Any) -> None:
                await original(server, read, write, *args, **options)

            connection = read.connection
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
        adapter = ServerAdapter(server, session, self.found.sdk, self.host.options.http)
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
            manager.asgi_app = manager.handle_request  # some applications call this attribute

        return init

    def _sse_init(self, original: Any) -> Any:
        @wraps(original)
        def init(transport: Any, endpoint: str, *args: Any, **options: Any) -> None:
            self._transports += 1
            self._endpoints[id(transport)] = endpoint if endpoint.startswith("/") else f"/{endpoint}"
            original(transport, endpoint, *args, **options)

        return init

    @asynccontextmanager
    async def _running(self, server: Any, session: Any) -> AsyncGenerator[ServerAdapter]:
        if self._ended is None:
            self._refuse_http_server()
        adapter = ServerAdapter(server, session, self.found.sdk, self.host.options.http)
        async with adapter.lifespan():
            self._adapters[id(server)] = adapter
            try:
                yield adapter
            finally:
                del self._adapters[id(server)]

    async def _adapter(self, server: Any, session: Any, messages_path: str) -> ServerAdapter:
        """The adapter of a server whose application has no lifespan for it; it ends with the HTTP server."""
        if (ended := self._ended) is None:
            self._refuse_http_server()
        if id(server) not in self._lasting:
            ready: asyncio.Future[ServerAdapter] = asyncio.get_running_loop().create_future()

            async def last() -> None:
                # One task starts and ends it: the original's lifespan may have a task group.
                running = self._running(server, session)
                async with running as adapter, asgi_lifespan(adapter.app(messages_path)):
                    ready.set_result(adapter)
                    await ended.wait()

            self._lasting[id(server)] = asyncio.get_running_loop().create_task(last()), ready
        task, ready = self._lasting[id(server)]
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await task  # raises the failure
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
            connection = transport, scope, receive, send
            yield PlaceholderStream(self, connection), PlaceholderStream(self)

        return connect_sse

    def _handle_post_message(self) -> Any:
        async def handle_post_message(transport: Any, scope: Scope, receive: Receive, send: Send) -> None:
            adapter = self._by_transport.get(id(transport))
            if adapter is None:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b"unknown session"})
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
            config.lifespan = "off"  # asgi_lifespan below runs it
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
                    config.loaded_app = self._with_own_paths(app, state)
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

    def _with_own_paths(self, app: Any, state: dict[str, Any]) -> Any:
        """The application, with `Host.own_paths` added."""

        async def routed(scope: Scope, receive: Receive, send: Send) -> None:
            own = (
                scope["type"] == "http" and scope["path"] in self.host.own_paths and len(self._adapters) == 1
            )
            if own:
                await next(iter(self._adapters.values())).app()(scope, receive, send)
            else:
                await app({**scope, "state": state.copy()}, receive, send)

        return routed

    def _startup(self, original: Any) -> Any:
        @wraps(original)
        async def startup(http_server: Any, *args: Any, **options: Any) -> None:
            try:
                await original(http_server, *args, **options)
            except SystemExit:
                self.refuse(
                    f"the HTTP server cannot listen on {self.host.options.host}:{self.host.options.port}"
                )
            if http_server.started:
                self.served = True
                self.host.announce(http_server)

        return startup

    def _shutdown(self, original: Any) -> Any:
        @wraps(original)
        async def shutdown(http_server: Any, *args: Any, **options: Any) -> None:
            # Event streams do not end, and the HTTP server waits for them.
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
    """``uvicorn.run`` without worker processes: the interception acts in this process alone."""

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
    """Replace ``before`` in every module that has imported it; returns a function that restores it."""
    found = [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is before
    ]
    for module, name in found:
        setattr(module, name, after)

    def undo() -> None:
        for module, name in found:
            setattr(module, name, before)

    return undo
