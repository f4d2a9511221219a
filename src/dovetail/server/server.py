"""`Server`: write a tool once, serve every revision.

`Server` is a facade over four objects: `Registry` has the components, `Dispatcher` takes calls through the pipeline,
`Subscriptions` notifies clients, `Lifecycle` starts and stops.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, cast, overload

import msgspec

from ..core.principal import Principal
from ..drivers.middleware_chain import Middleware, Wrapper
from ..errors import RegistrationError
from ..middleware.health import Health
from ..model import (
    CacheScope,
    CallToolResult,
    GetPromptResult,
    Icon,
    Implementation,
    LoggingLevel,
    ReadResourceResult,
)
from ..settings import HttpOptions, Limits, TaskOptions, check_choice, check_kinds
from ..settings.parameter_kinds import Several, or_none
from ..stores.base import Store
from ..wire.dialects import Dialect, dialect_of
from ..wire.dialects.dialect import limits_of
from ..wire.revisions import BY_NAME, REVISIONS, Revision
from ..wire.seal import Keys, Seal
from . import serving, store_choice
from .composition import TransformOptions, ViewOptions, chosen
from .context import LEVELS
from .dispatcher import STATE_LIFETIME, Dispatcher, ServerSettings
from .lifecycle import Enter, Life, Lifecycle, composed
from .registry.component_options import PromptOptions, ResourceOptions, ToolOptions
from .registry.component_tables import RegisteredPrompt, RegisteredResource, RegisteredTool
from .registry.custom_methods import MethodOptions, NotificationOptions, RegisteredMethod
from .registry.registry import Decorator, F, Registry, decorator
from .serving import Transport
from .signatures.functions import Function
from .store_choice import STORE_PROBE_INTERVAL
from .subscriptions import WATCH_SECONDS, Subscriptions

if TYPE_CHECKING:
    from ..extensions.extension import Extension, ServerExtensions
    from ..gateway.providers import ComponentProvider
    from ..gateway.transform_chain import TransformChain
    from ..openapi.asgi_client import App
    from ..openapi.description import Spec
    from ..openapi.route_map import Route
    from ..telemetry.events import TelemetryEvent
    from ..telemetry.metrics import Metrics
    from .resource_watcher import Source

H = TypeVar("H", bound=Callable[..., Any])
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(("name", "version"), (str, "a string")),
    **dict.fromkeys(
        ("instructions", "title", "description", "website_url"), (str | None, "a string, or None")
    ),
    **dict.fromkeys(("page_size", "timeout"), (int | float | None, "a number, or None")),
    **dict.fromkeys(("ttl_ms", "state_lifetime"), (int | float, "a number")),
    "dialect": (str | Dialect, "the name of a dialect"),
    "limits": (Limits | None, "Limits(…)"),
    "http": (HttpOptions | None, "HttpOptions(…)"),
    "revisions": or_none((Several, "a list of revisions")),
    "icons": or_none((Several, "a list of icons")),
    "seal_keys": ((Keys, Sequence, type(None)), "a secret, or a list of them"),
    "middleware": (Several, "a list of middleware"),
    "extensions": ((list, tuple), "a list of extensions"),
    "tasks": (TaskOptions | None, "TaskOptions(…)"),
    "lifespan": (
        (Callable, Sequence, type(None)),
        "a function that makes a context manager, or a list of them",
    ),
    **dict.fromkeys(
        ("text", "strict", "strict_arguments", "mask_errors", "client_workarounds"), (bool, "True or False")
    ),
    "clock": (Callable, "a function that returns the time"),
}


class Server:
    """A server of the Model Context Protocol, for every revision at once.

    ```python
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast:
        return Forecast(city, days)

    server.run()  # stdio; or server.run("http", port=8000), server.asgi(), await server.handle(message)
    ```
    """

    registry: Registry
    """The components: tools, resources, prompts and completions, by name."""
    dispatcher: Dispatcher
    """Takes calls through the pipeline; what transports serve."""
    subscriptions: Subscriptions
    """Notifies clients of changes."""
    lifecycle: Lifecycle
    """Starts and stops the server; has its store and its workers."""
    health: Health
    """Health checks: `Health.add` adds one. ``/readyz`` reports them."""

    def __init__(
        self,
        name: str,
        version: str = "0.0.0",
        instructions: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon | Mapping[str, Any]] | None = None,
        website_url: str | None = None,
        auth: Any = None,
        store: Store | str | None = None,
        middleware: Sequence[Middleware | Wrapper] = (),
        extensions: Sequence[Extension] = (),
        lifespan: Life | Sequence[Life] | None = None,
        limits: Limits | None = None,
        http: HttpOptions | None = None,
        tasks: TaskOptions | None = None,
        dialect: str | Dialect = "official",
        revisions: Sequence[str | Revision] | None = None,
        strict: bool = False,
        strict_arguments: bool = False,
        text: bool = True,
        client_workarounds: bool = True,
        seal_keys: Keys | bytes | str | Sequence[bytes | str] | None = None,
        state_lifetime: float = STATE_LIFETIME,
        timeout: float | None = None,
        page_size: int | None = None,
        ttl_ms: int = 0,
        cache_scope: CacheScope = "private",
        log_level: LoggingLevel = "debug",
        mask_errors: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set up a server. Nothing is opened until it serves.

        Args:
            name: The name that clients see.
            version: The version that clients see.
            instructions: What the server is for; clients pass it to the model.
            title: A title for people.
            description: A description for people.
            icons: Icons that clients can show.
            website_url: The website of the server.
            lifespan: An async context manager, or several, around the life of the server; it yields
                ``ctx.lifespan``.
            dialect: The dialect for clients of other systems: "official", "erlmcp", "minimcp" or "mcp_client".
            limits: The upper bounds of the server.
            http: The options of HTTP, for every way in which the server is served over HTTP.
            revisions: The protocol revisions to serve; by default all.
            seal_keys: Secrets that protect cursors and request states on their way through clients. All workers
                need the same; by default ``DOVETAIL_SEAL_KEYS``.
            state_lifetime: Seconds for which a ``requestState`` is valid.
            page_size: Entries of one list page; by default ``Limits.page_size``.
            ttl_ms: Milliseconds for which modern clients can cache lists and resources.
            cache_scope: Whether shared caches can store them ("public") or only the cache of one user
                ("private").
            timeout: Seconds that one handler can run. ``None``: no limit.
            mask_errors: Whether clients see only an incident id for unexpected exceptions. Never switch it off
                in production.
            log_level: The lowest level of log messages that are sent to clients, until they set their own.
            middleware: Middleware around every call, outermost first.
            extensions: Extensions of the protocol: see `dovetail.extensions`.
            auth: The verifier of tokens: an object of `dovetail.auth`, or an async function ``(token, scope)``
                that returns a `Principal` or ``None``.
            tasks: How tools run as tasks.
            store: The store for state that outlives the process or is shared, or its URL; by default
                ``DOVETAIL_STORE``.
            clock: The clock, for tests.
            strict: Whether to refuse messages in the dialects of other systems, and the known mistakes of
                clients.
            strict_arguments: Whether to refuse ``"5"`` for a number and ``"[1, 2]"`` for a list, which models send.
            text: Whether tools repeat structured content as text. Without it results cost fewer tokens; clients must
                read structured content.
            client_workarounds: Whether to serve clients that break the protocol in a known way.
        """
        check_kinds(_KINDS, locals())
        check_choice("log_level", log_level, LEVELS)
        dialect = dialect_of(dialect)
        settings = ServerSettings(
            info=_implementation(name, version, icons, (title, description, website_url)),
            instructions=instructions,
            dialect=dialect,
            revisions=REVISIONS if revisions is None else _revisions(revisions),
            limits=limits_of(dialect, limits),
            clock=clock,
            auth=_checked(auth),
            timeout=timeout,
            page_size=page_size,
            ttl_ms=ttl_ms,
            cache_scope=cache_scope,
            mask_errors=mask_errors,
            log_level=log_level,
            state_lifetime=state_lifetime,
            tasks=tasks or TaskOptions(),
            http=http or HttpOptions(),
            strict=strict,
            client_workarounds=client_workarounds and not strict,
        )
        keys, store = store_choice.keys_of(seal_keys), store_choice.store_of(store)
        self.lifecycle = Lifecycle(settings.limits, clock, _lifespan(lifespan, self))
        self.registry = Registry(
            self.lifecycle.runner,
            dialect=dialect,
            timeout=timeout,
            strict_arguments=strict_arguments,
            text=text,
        )
        self.subscriptions = Subscriptions(settings.limits, self.lifecycle.runner.call)
        self.health = Health(_HealthTarget(self))
        seal = Seal(keys or Keys.random(), settings.limits.max_request_state_bytes, owner=name)
        self.dispatcher = Dispatcher(self, settings, seal, tuple(middleware))
        self._connect_parts()
        if extensions:
            self.extensions.add(*extensions)
        if store is not None:
            self.lifecycle.use_store(store, keep_keys=keys is None)
        else:
            self.dispatcher.pipeline.use(self.middleware)

    def _connect_parts(self) -> None:
        """Connect the parts where one calls another."""
        lifecycle, dispatcher = self.lifecycle, self.dispatcher
        lifecycle.store_listeners.append(self._use_store)
        lifecycle.add(start=self._start_composition, stop=self._stop_composition)
        lifecycle.add(stop=dispatcher.pipeline.stopped)
        lifecycle.add(stop=lifecycle.runner.close)
        lifecycle.add(stop=dispatcher.pipeline.end_deferred)
        lifecycle.add(start=self.subscriptions.start, stop=self.subscriptions.stop)
        lifecycle.add(start=self._instrument, stop=dispatcher.custom_methods.stop)
        lifecycle.add(start=self.health.start, stop=self.health.stop)
        lifecycle.add(stop=self.subscriptions.end_listening)
        self.registry.find_option = self._find_option
        self.registry.version_added = lambda: (self._transform_chain(), None)[1]
        self.registry.coerced = dispatcher.admission.coerced
        self.registry.upload_added = dispatcher.offer_uploads
        if dispatcher.settings.client_workarounds:
            dispatcher.admission.is_check_disabled = self._bend

    # --- components -----------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: str | None = None, /, **options: Unpack[ToolOptions]) -> Decorator: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool: ``@server.tool`` or ``@server.tool(title=…, timeout=…)``.

        Name, description and schemas come from the function, its docstring and its annotations. The function stays an
        ordinary callable.

        Raises:
            RegistrationError: the function or an option cannot be used; the message says what to change.
        """
        return _decorate(function, options, self.registry.add_tool)

    def add_tool(
        self,
        function: Callable[..., Any] | Function | None = None,
        *,
        input_schema: Mapping[str, Any] | None = None,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> RegisteredTool:
        """Register a function as a tool; or ``name``, ``input_schema`` and ``handler``: a tool with a JSON Schema.

        The schema is kept unchanged. The handler takes the arguments as one dict or as ``**arguments``, and a
        `Context` if it has a parameter for one. Clients are notified of the change.
        """
        return self.registry.add_tool(function, input_schema=input_schema, handler=handler, **options)

    def add_tools(self, *tools: Any) -> None:
        """Register several tools at once: functions, and tools of LangChain, the OpenAI Agents SDK and Pydantic AI.

        A `FunctionToolset` of Pydantic AI stands for its tools, a list for its items.

        Raises:
            RegistrationError: one of them is not a tool, or cannot be registered.
        """
        from ..integrations.foreign_tools import tool_options  # loaded with its first use

        for options in tool_options(tools):
            self.registry.add_tool(**options)

    def remove_tool(self, name: str) -> None:
        """Remove a tool with all its versions, or only ``name@version``. Clients are notified of the change."""
        self.registry.remove_tool(name)

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Decorator:
        """Register the reader of ``uri``, or of every URI of a template such as ``weather://{city}/now``."""
        if callable(uri):
            raise RegistrationError('a resource needs its URI: @server.resource("scheme://path")')
        return decorator(lambda function: self.registry.add_resource(uri, function, **options))

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> RegisteredResource:
        """Register ``function`` as the reader of ``uri``, or of every URI that matches a template.

        Clients are notified of the change.

        Raises:
            RegistrationError: the URI is registered already or not valid, the variables of the template are not the
                parameters of the function, or the media type is not valid.
        """
        return self.registry.add_resource(uri, function, **options)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a resource template. Clients are notified of the change."""
        self.registry.remove_resource(uri)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: str | None = None, /, **options: Unpack[PromptOptions]) -> Decorator: ...
    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a prompt: its parameters are the arguments, its result the messages."""
        return _decorate(function, options, self.registry.add_prompt)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> RegisteredPrompt:
        """Register ``function`` as a prompt. Clients are notified of the change."""
        return self.registry.add_prompt(function, **options)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Clients are notified of the change."""
        self.registry.remove_prompt(name)

    def completion(self, *, ref: str, argument: str) -> Decorator:
        """Register a function that completes ``argument`` of the prompt, resource template or tool ``ref``.

        The function takes the value typed so far and, if it has a second parameter, the arguments already given. It
        returns a list of strings, or a `Completion`.
        """
        return decorator(partial(self.registry.add_completion, ref, argument))

    def restrict(
        self,
        tag: str,
        *,
        scopes: Collection[str] = (),
        auth: Callable[[Principal | None], bool] | None = None,
    ) -> None:
        """Let only callers with these ``scopes``, and for whom ``auth`` returns True, use components with this ``tag``.

        This holds for the components that are registered now and for later ones, in addition to their own rights.
        """
        self.registry.restrict(tag, scopes=scopes, auth=auth)

    # --- composition ----------------------------------------------------------------------------------------

    @classmethod
    def from_openapi(
        cls, spec: Spec, *, client: Any = None, routes: Sequence[Route] = (), **options: Any
    ) -> Self:
        """A server for the HTTP API that ``spec`` describes: see `dovetail.openapi`."""
        from ..openapi.build_server import from_openapi  # loaded with its first use

        return from_openapi(cast("Any", cls), spec, client=client, routes=routes, **options)

    @classmethod
    def from_fastapi(cls, app: Any, *, routes: Sequence[Route] = (), **options: Any) -> Self:
        """A server for a FastAPI application that runs in this process: see `dovetail.openapi`."""
        from ..openapi.build_server import from_fastapi

        return from_fastapi(cast("Any", cls), app, routes=routes, **options)

    def mount(self, child: Server | ComponentProvider | App, prefix: str | None = None) -> None:
        """Show the tools, resources and prompts of ``child`` as if they were registered here, and let it answer.

        With ``prefix="weather"`` its tool ``forecast`` is ``weather_forecast``, and its ``city://oslo`` is
        ``city://weather/oslo``. Custom methods keep their names. Later changes of ``child`` are shown too. Its
        middleware, rights and lifespan stay its own.

        Raises:
            RegistrationError: a name or the prefix is taken; the message names both servers.
        """
        from ..gateway.mounting import mount  # loaded with its first use

        mount(self, child, prefix)

    def transform(self, **options: Unpack[TransformOptions]) -> None:
        """Change how components are shown and used: ``include`` and ``exclude`` components, ``rename`` and
        ``describe`` them, ``rename_arguments``, ``hide`` arguments, set ``preset_arguments`` or give a ``default``:
        ``transform(rename={"add": "cart_add"}, preset_arguments={"add": {"currency": "EUR"}})``.

        ``schemas`` writes schemas as some clients need them. ``max_bytes`` splits large results into pages.
        ``max_name_length`` limits the names of mounted tools with their prefix: in a longer name, a hash replaces the
        end. ``resources_as_tools`` and ``prompts_as_tools`` offer resources and prompts as tools too, for clients
        that read nothing else.

        Tools and prompts are chosen by name, resources and templates by URI, tools also as ``version:>=2`` or
        ``add@1.0``, all components as ``tag:admin``. ``prompt:add`` names a prompt and no tool. ``include`` leaves
        out nothing of a kind that it does not name. Several transforms are applied one after the other, each to the
        result of the one before. Middleware sees the original names.

        Raises:
            RegistrationError: two components of a kind would have one name; the message names both.
        """
        from ..gateway.transforms import View  # loaded with its first use

        transforms = self._transform_chain()
        schemas, max_bytes = options.pop("schemas", None), options.pop("max_bytes", None)
        if schemas is not None:
            transforms.write_schemas(schemas)
        if max_bytes is not None:
            transforms.limit_results(max_bytes)
        if "max_name_length" in options:
            self.registry.limit_names(options.pop("max_name_length"))
        if not options.keys().isdisjoint(("resources_as_tools", "prompts_as_tools")):
            transforms.offer_as_tools(
                resources=options.pop("resources_as_tools", None),
                prompts=options.pop("prompts_as_tools", None),
            )
        if options:
            transforms.add_view(View(**cast("ViewOptions", options)))

    def hide(self, *names: str, tags: Collection[str] = ()) -> None:
        """Hide components, by name or by tag, until a handler shows them with ``await ctx.show(…)``.

        Names may also be ``tag:admin``, ``version:<2`` or ``add@1.0``. Without any name nothing is hidden yet, but
        handlers may hide components with ``await ctx.hide(…)``.
        """
        transforms = self._transform_chain()
        transforms.watch_visibility().hide(chosen(names, tags))
        transforms.change()

    def search(self, *, always: Collection[str] = (), limit: int = 8) -> None:
        """List only the tools ``always`` names and two others: ``search_tools``, which finds up to ``limit`` tools by
        words (BM25), and ``call_tool``, which calls what was found.

        This is for servers with hundreds of tools, those of mounted servers included. A client finds only tools that
        it may call.

        Raises:
            RegistrationError: a tool of the server has one of these names.
        """
        from ..gateway.search import Search  # loaded with its first use

        self._transform_chain().find_tools(Search(self, always, limit))

    # --- the protocol ---------------------------------------------------------------------------------------

    def method(self, name: str, **options: Unpack[MethodOptions]) -> Decorator:
        """Register a function as a custom method: ``@server.method("acme/do", capability=…)``. See `add_method`."""
        return decorator(lambda function: self.add_method(name, function, **options))

    def add_method(
        self, name: str, handler: Callable[..., Any], **options: Unpack[MethodOptions]
    ) -> RegisteredMethod:
        """Answer requests for ``name``, which is not a method of the protocol, with ``handler(params, ctx)``.

        The handler takes the params as one value of the type ``params`` (or of its annotation; without either, a
        dict) and a `Context` if it has a parameter for one. Its result must be an object. A ``capability`` such as
        ``extensions.com.acme/do`` is declared with the method.

        Raises:
            RegistrationError: the name belongs to the protocol or is taken, or the handler or an option cannot be used.
        """
        return self.dispatcher.custom_methods.add_method(name, handler, **options)

    def add_notification(
        self, name: str, handler: Callable[..., Any], **options: Unpack[NotificationOptions]
    ) -> RegisteredMethod:
        """Call ``handler(params)`` for every notification ``name`` of a client; an exception is logged."""
        return self.dispatcher.custom_methods.add_notification(name, handler, **options)

    @cached_property
    def extensions(self) -> ServerExtensions:
        """The extensions of the protocol that this server has, by id."""
        from ..extensions.extension import ServerExtensions  # a server without extensions never loads them

        return ServerExtensions(self)

    async def notify_resource_updated(self, uri: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Notify every client that subscribed to ``uri``, or to a folder that contains it, that it has changed."""
        self.subscriptions.notify_resource_updated(uri, metadata)

    def watch(self, uri: str, source: Source, *, interval: float = WATCH_SECONDS) -> Callable[[], None]:
        """Notify the subscribers of ``uri`` whenever ``source`` changes; call the returned function to stop that.

        ``source`` is a file, a folder (whose files have their URIs below ``uri``), or a function that is called
        every ``interval`` seconds and whose value is compared with the one before. The server watches while it runs.
        """
        return self.subscriptions.watch(uri, source, interval=interval)

    # --- calls in this process ------------------------------------------------------------------------------

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, principal: Principal | None = None
    ) -> CallToolResult:
        """Call a tool in this process, through the whole pipeline, as ``principal``.

        Raises:
            ProtocolError: the call was refused. An error of the tool itself is a result with ``is_error``.
        """
        from .in_process import call_tool  # loaded with its first use

        return await call_tool(self.dispatcher, name, arguments, principal)

    async def read_resource(self, uri: str, *, principal: Principal | None = None) -> ReadResourceResult:
        """Read a resource in this process, through the whole pipeline, as ``principal``.

        Raises:
            ProtocolError: the resource does not exist, or reading it was refused.
        """
        from .in_process import read_resource  # loaded with its first use

        return await read_resource(self.dispatcher, uri, principal)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, principal: Principal | None = None
    ) -> GetPromptResult:
        """Get a prompt in this process, through the whole pipeline, as ``principal``.

        Raises:
            ProtocolError: the prompt does not exist, or getting it was refused.
        """
        from .in_process import get_prompt  # loaded with its first use

        return await get_prompt(self.dispatcher, name, arguments, principal)

    # --- serving --------------------------------------------------------------------------------------------

    def route(self, path: str, *, methods: Collection[str] = ("GET",), auth: bool = True) -> Callable[[H], H]:
        """Answer HTTP requests to ``path`` with a function: ``@server.route("/items/{id}", methods=["GET"])``.

        It takes a `dovetail.RouteRequest` and returns text, bytes, a value for JSON, None (204) or a
        `RouteResponse`. Plain functions run in a worker thread. Host and Origin are checked as for the endpoint. Where
        the server verifies tokens the caller needs one, unless ``auth=False`` opens the route to all callers.

        Raises:
            RegistrationError: the path or a method is not valid, or the path is taken.
        """
        return self.dispatcher.add_route(path, methods, auth=auth)

    async def handle(self, message: bytes | str, scope: Mapping[str, Any] | None = None) -> bytes | None:
        """Answer one message or batch: bytes (or text) in, bytes out, None without a response.

        It never raises because of the content of a message. ``scope`` has what the caller knows: ``session`` (the
        legacy `Session` of the message), ``revision`` (serve without a session, as if that revision had been
        negotiated), ``principal``, and ``notify``, a function that gets the notifications sent before the reply. The
        handler has all of it as ``ctx.scope``. Without session and revision, a legacy request is refused with the
        advice to initialize.
        """
        return await serving.handle(self.dispatcher, message, scope)

    async def serve(self, transport: Transport = "stdio", **options: Any) -> None:
        """Serve until cancelled or stopped; the options are those of the transport."""
        await serving.serve(self.dispatcher, transport, options)

    def run(self, transport: Transport = "stdio", **options: Any) -> None:
        """`serve` in a new event loop: ``server.run()``, ``server.run("http", port=8000, workers=2)``.

        Raises:
            StateError: called inside a running event loop.
            SystemExit: the exit status is not 0, such as 130 after Ctrl-C.
        """
        serving.run(self.dispatcher, transport, options)

    def asgi(self, **options: Any) -> Any:
        """This server as an ASGI application, for any ASGI server; the options are those of `HttpOptions`."""
        return serving.asgi(self.dispatcher, options)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self, None]:
        """Start the server before a block and stop it after: for tests and for `handle`."""
        await self.lifecycle.start()
        try:
            yield self
        finally:
            await self.lifecycle.stop()

    # --- properties -----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name that the server reports to clients."""
        return self.dispatcher.info.name

    @property
    def version(self) -> str:
        """The version of the server, not of the protocol."""
        return self.dispatcher.info.version

    @property
    def instructions(self) -> str | None:
        """What the server is for, for the model."""
        return self.dispatcher.instructions

    @property
    def limits(self) -> Limits:
        """The limits of one peer."""
        return self.dispatcher.limits

    @property
    def middleware(self) -> tuple[Middleware | Wrapper, ...]:
        """What runs around every call, the outermost first."""
        return self.dispatcher.pipeline.middleware

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics of this server. Counting begins with the first use, or with ``metrics=True`` over HTTP."""
        from ..telemetry.metrics import measured  # a server without metrics never loads them

        return measured(self)

    def on_event(self, listener: Callable[[TelemetryEvent], Any], /) -> Callable[[TelemetryEvent], Any]:
        """Call ``listener`` with what happens to requests and sessions: see `dovetail.telemetry.events`."""
        from ..telemetry.events import listen

        return listen(self, listener)

    def __repr__(self) -> str:
        return f"Server({self.name!r}, tools={len(self.registry.tools)})"

    # --- the parts ------------------------------------------------------------------------------------------

    def _transform_chain(self) -> TransformChain:
        if self.registry.transforms is None:
            from ..gateway.transform_chain import TransformChain

            self.registry.transforms = TransformChain(self)
            self.dispatcher.pipeline.compose()
        return self.registry.transforms

    def _find_option(self, option: str) -> None:
        """Register the extension that owns an option."""
        self.extensions.add_owner(option)

    def _bend(self, name: str) -> bool:
        """Whether a rule is relaxed for a client known to break it; the first such client loads the table."""
        from ..middleware.client_workarounds import ClientWorkarounds

        workarounds = ClientWorkarounds()
        self.dispatcher.pipeline.add(workarounds)
        return workarounds.applies(name)

    def _use_store(self, store: Store, keep_keys: bool) -> None:
        from ..cluster import store_lifecycle  # loaded with the first server that has a store

        dispatcher = self.dispatcher
        self.lifecycle.wrap_lifespan(
            lambda enter: store_lifecycle.store_lifespan(dispatcher, store, enter, keep_keys=keep_keys)
        )
        self.health.add(
            "store", partial(store_lifecycle.probe, store), interval=STORE_PROBE_INTERVAL, failure_threshold=1
        )
        self._find_option("store")
        dispatcher.pipeline.use(self.middleware)

    async def _start_composition(self) -> None:
        if self.registry.composition is not None:
            await self.registry.composition.start()

    async def _stop_composition(self) -> None:
        if self.registry.composition is not None:
            await self.registry.composition.stop()

    def _instrument(self) -> None:
        from ..telemetry.auto_instrument import instrument  # small, and loads no more than is wanted

        instrument(self)


class _HealthTarget:
    """The view that `Health` has of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def limits(self) -> Limits:
        return self._server.limits

    def refuse_with(self, check: Callable[[Any], None] | None) -> None:
        self._server.dispatcher.pipeline.refuse_with(check)

    def notify_updated(self, uri: str) -> None:
        self._server.subscriptions.hub.publish_resource_updated(uri)

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Any) -> object:
        return self._server.registry.add_resource(uri, function, **options)


def _decorate(function: Any, options: dict[str, Any], add: Callable[..., Any]) -> Any:
    if callable(function):
        add(function, **options)
        return function
    if function is not None:
        options = {"name": function, **options}
    return decorator(partial(add, **options))


def _implementation(
    name: str, version: str, icons: Sequence[Icon | Mapping[str, Any]] | None, words: Sequence[str | None]
) -> Implementation:
    named = zip(("title", "description", "website_url"), words, strict=True)
    given: dict[str, Any] = {name: text for name, text in named if text}
    if icons:
        given["icons"] = msgspec.convert(list(icons), list[Icon])
    return Implementation(name, version, **given)


def _revisions(names: Sequence[str | Revision]) -> list[Revision]:
    unknown = [name for name in names if isinstance(name, str) and name not in BY_NAME]
    if unknown or not names:
        what = f"there is no revision {unknown[0]!r}" if unknown else "a server needs a revision"
        raise ValueError(f"{what}: use some of {', '.join(BY_NAME)}")
    return [BY_NAME[name] if isinstance(name, str) else name for name in names]


def _lifespan(lifespan: Life | Sequence[Life] | None, server: Server) -> Enter | None:
    if lifespan is None:
        return None
    return partial(lifespan, server) if callable(lifespan) else composed(lifespan, server)


def _checked(auth: Any) -> Any:
    if auth is not None:
        from ..auth.server.verifier import as_verifier  # loaded with the first server that has auth

        as_verifier(auth)  # report an invalid verifier here, not when the server starts
    return auth
