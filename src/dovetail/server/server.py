"""`Server`: write a tool once, serve every revision.

A server is a register, a table of methods and one exception boundary. It is a `core.channel.Service`:
transports and drivers hand it calls through `respond`; whoever has bytes and wants bytes uses `handle`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ..core.admit import Admission
from ..core.channel import EMPTY, Call, Session
from ..core.subscriptions import LIST_KINDS, PublishedChange, SubscriptionHub
from ..drivers.middleware_chain import Middleware, Wrapper
from ..model import CacheScope, Icon, Implementation, LoggingLevel, ServerCapabilities
from ..settings import Limits, TaskOptions, check_kinds
from ..stores.base import Store
from ..wire.dialects import Dialect, dialect_of
from ..wire.dialects.dialect import VENDOR, limits_of
from ..wire.revisions import BY_NAME, REVISIONS, Revision
from ..wire.seal import Keys, Seal
from . import store_choice
from .composition import Composing
from .context import LEVELS
from .dispatch import Answering
from .execution import Enter, Lifecycle, composed
from .pipeline import Pipeline
from .protocol_methods import Builtin, Handler
from .registry.component_tables import Changed, RegisteredPrompt, RegisteredResource, RegisteredTool
from .registry.custom_methods import Extending
from .registry.decorators import Registration
from .serving import Serving
from .store_choice import STORE_PROBE_INTERVAL

if TYPE_CHECKING:
    from ..extensions.base import Extension, ServerExtensions
    from ..telemetry.events import TelemetryEvent
    from ..telemetry.metrics import Metrics
    from .resource_watcher import Source, Watches
    from .tasks.task_methods import TaskMethods

WATCH_SECONDS: Final = 0.1
"""Between two looks at what is watched, at least; what changes in that time is told once."""


STATE_LIFETIME: Final = 3600.0
"""Seconds for which the state of an unanswered question is good."""

_LISTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}
"""What is declared once something of that kind is registered."""


logger = logging.getLogger("dovetail.server")
Life = Callable[[Any], AbstractAsyncContextManager[Any]]
"""Takes the server, and is entered and left with it."""
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(("name", "version"), (str, "a string")),
    **dict.fromkeys(("page_size", "timeout"), (int | float | None, "a number, or None")),
    "dialect": (str | Dialect, "the name of a dialect"),
    "limits": (Limits | None, "Limits(…)"),
    "revisions": (Sequence, "a list of revisions"),
    "icons": ((Sequence, type(None)), "a list of icons"),
    "seal_keys": ((Keys, Sequence, type(None)), "a secret, or a list of them"),
    "middleware": (Iterable, "a list of middleware"),
    "extensions": ((list, tuple), "a list of extensions"),
    "tasks": (TaskOptions | None, "TaskOptions(…)"),
    "text": (bool, "True or False"),
    "strict_arguments": (bool, "True or False"),
    "clock": (Callable, "a function that tells the time"),
}


class Server(Composing, Registration, Extending, Answering, Lifecycle, Serving):
    """A server of the Model Context Protocol, for every revision at once.

    ```python
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast:
        return Forecast(city, days)

    server.run()  # stdio; or server.run("http", port=8000), server.asgi(), await server.handle(message)
    ```
    """

    store: Store | None = None
    """Where its state is kept."""

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
        lifespan: Life | Sequence[Life] | None = None,
        dialect: str | Dialect = "official",
        limits: Limits | None = None,
        revisions: Sequence[str | Revision] = REVISIONS,
        seal_keys: Keys | bytes | str | Sequence[bytes | str] | None = None,
        state_lifetime: float = STATE_LIFETIME,
        page_size: int | None = None,
        ttl_ms: int = 0,
        cache_scope: CacheScope = "private",
        timeout: float | None = None,
        mask_errors: bool = True,
        log_level: LoggingLevel = "debug",
        middleware: Sequence[Middleware | Wrapper] = (),
        extensions: Sequence[Extension] = (),
        auth: Any = None,
        tasks: TaskOptions | None = None,
        store: Store | str | None = None,
        clock: Callable[[], float] = time.time,
        strict: bool = False,
        strict_arguments: bool = False,
        text: bool = True,
        client_workarounds: bool = True,
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
        self.dialect = dialect_of(dialect)
        self.limits, self.instructions = limits_of(self.dialect, limits), instructions
        self.info = _implementation(name, version, icons, (title, description, website_url))
        self.clock, self.state_lifetime, self.auth = clock, state_lifetime, _checked(auth)
        self.task_options, self.log_level, _ = tasks or TaskOptions(), log_level, LEVELS[log_level]
        self.strict_arguments, self.text = strict_arguments, text
        Registration.__init__(self, timeout)
        Answering.__init__(self, page_size, ttl_ms, cache_scope, mask_errors=mask_errors)
        Lifecycle.__init__(self, _lifespan(lifespan, self))
        self._open(_revisions(revisions), tuple(middleware), strict=strict)
        self.client_workarounds = client_workarounds and not strict
        """Whether clients that break a rule in a known way are served, whatever the middleware says."""
        if self.client_workarounds:
            self.admission.is_check_disabled = self._bend
        if extensions:
            self.extensions.add(*extensions)
        self._keep(store_choice.keys_of(seal_keys), store_choice.store_of(store))

    def _keep(self, keys: Keys | None, store: Store | None) -> None:
        self.seal = Seal(keys or Keys.random(), self.limits.max_request_state_bytes, owner=self.info.name)
        if store is not None:
            self.use_store(store, keep_keys=keys is None)
        else:
            self.pipeline.use(self.middleware)

    def use_store(self, store: Store, *, keep_keys: bool = False) -> None:
        """Keep state in ``store``, as if it had been given to begin with. Call it before the server starts.

        With ``keep_keys`` the keys that seal are those of the store.
        """
        from ..cluster import store_lifecycle  # a server without a store does without it

        self.store = store
        self.wrap_lifespan(
            lambda enter: store_lifecycle.store_lifespan(self, store, enter, keep_keys=keep_keys)
        )
        self.health.add(
            "store", partial(store_lifecycle.probe, store), interval=STORE_PROBE_INTERVAL, failure_threshold=1
        )
        if self.tasks is not None:
            self.tasks = None
            self.enable_tasks()
        from ..cluster.idempotency import IdempotentCalls  # only a server with a store has them

        once = self.pipeline.once = IdempotentCalls(self, store)
        self.before_store_closes = once.close
        self.pipeline.use(self.middleware)

    def _note_coercion(self, tool: str) -> None:
        self.admission.coerced(tool)

    def _bend(self, name: str) -> bool:
        """Whether a rule is bent for a client known to break it; the first such client loads the table."""
        from ..middleware.client_workarounds import ClientWorkarounds

        workarounds = ClientWorkarounds()
        self.add_middleware(workarounds)
        return workarounds.applies(name)

    def add_middleware(self, middleware: Middleware | Wrapper) -> None:
        """Run ``middleware`` around every call from now on, outside all that is there already."""
        self.pipeline.add(middleware)

    @property
    def middleware(self) -> tuple[Middleware | Wrapper, ...]:
        """What runs around every call, the outermost first."""
        return self.pipeline.middleware

    def _open(
        self, revisions: list[Revision], middleware: tuple[Middleware | Wrapper, ...], *, strict: bool
    ) -> None:
        """The rest of the beginning: what the parts above are joined by."""
        self.hub = SubscriptionHub(self.limits)
        self.tasks: TaskMethods | None = None
        """Made with the first tool that may run as a task."""
        self.watches: Watches | None = None
        """Made with the first source to watch."""
        self.capabilities = ServerCapabilities({"logging": {}})
        """What is offered, computed from what is registered; once offered it stays."""
        self.counts: dict[str, int] = {}
        """How often happened what nobody could be told of, by kind: ``connection_closed`` for a client that left."""
        headers = self.param_headers
        self.admission = Admission(
            "server", revisions, self.dialect, self.info, headers, strict=strict, limits=self.limits
        )
        self.hub.subscribed_bytes = self.admission.shared.subscribed_bytes
        self._builtin = Builtin(self)
        self.methods: dict[str, Handler] = {
            **self._builtin.methods(),
            "tools/call": self.call_tool,
            "resources/read": self.read,
            "prompts/get": self.get_prompt,
        }
        """Who answers which method."""
        self.session_watchers: list[Callable[[Session], None]] = []
        """Told of each legacy session that begins."""
        self.pipeline = Pipeline(self)
        self.hub.rights = self.pipeline.rights_to
        self.pipeline.middleware = middleware
        Extending.__init__(self)
        self.admission.set_capabilities(self.capabilities)

    # --- what others may add --------------------------------------------------------------------------------

    def add_capability(self, path: str, settings: Mapping[str, Any] = EMPTY) -> None:
        """Declare a capability that cannot be seen in the register, such as ``extensions.com.example/x``."""
        head, _, rest = path.partition(".")
        if rest:
            self.capabilities.setdefault(head, {})[rest] = dict(settings)
        else:
            self.capabilities[head] = dict(settings)
        self.admission.set_capabilities(self.capabilities)

    def enable_tasks(self) -> None:
        """Serve the methods of tasks from now on; done by itself with the first tool that may run as one."""
        if self.tasks is None:
            from .tasks.task_methods import TaskMethods  # a server without tasks never loads them

            self.tasks = TaskMethods(self)
            self.tasks.install()
            self.pipeline.compose()

    @cached_property
    def extensions(self) -> ServerExtensions:
        """The extensions of the protocol that this server has, by id."""
        from ..extensions.base import ServerExtensions  # a server without extensions never loads them

        return ServerExtensions(self)

    @cached_property
    def state_store(self) -> Store:
        """The store or, where none was given, one in memory for what handlers keep."""
        return store_choice.memory(self) if self.store is None else self.store

    def on_event(self, heard: Callable[[TelemetryEvent], Any], /) -> Callable[[TelemetryEvent], Any]:
        """Tell ``heard`` what happens to requests and sessions; `telemetry.events` says what there is to hear."""
        from ..telemetry.events import listen

        return listen(self, heard)

    @cached_property
    def metrics(self) -> Metrics:
        """What this server counts: from the first use of this member on, or of ``metrics=True`` over HTTP."""
        from ..telemetry.metrics import measured  # who counts nothing pays nothing

        return measured(self)

    @property
    def name(self) -> str:
        """What the server calls itself."""
        return self.info.name

    @property
    def version(self) -> str:
        """The version of the server, not of the protocol."""
        return self.info.version

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """The tools by name, live and read-only."""
        return self.register.tools.view

    @property
    def resources(self) -> Mapping[str, RegisteredResource]:
        """The resources by URI, live and read-only."""
        return self.register.resources.view

    @property
    def resource_templates(self) -> Mapping[str, RegisteredResource]:
        """The resource templates by template, live and read-only."""
        return self.register.templates.view

    @property
    def prompts(self) -> Mapping[str, RegisteredPrompt]:
        """The prompts by name, live and read-only."""
        return self.register.prompts.view

    def component_scopes(self) -> frozenset[str]:
        """The scopes that anything here asks for: what metadata and challenges tell clients to get."""
        scopes = self.register.scopes()
        return scopes if self.composition is None else scopes | self.composition.scopes()

    # --- what changes ---------------------------------------------------------------------------------------

    def changed(self, kind: Changed, news: PublishedChange | None = None) -> None:
        """What is listed as ``kind`` is another list now: drop what was made of it, and tell whom ``news`` is for."""
        news = news or PublishedChange(list=kind)
        self.generation += 1
        self._offer()
        self._builtin.changed(kind)
        if self._loop is None or self._loop is _running_loop():
            self.hub.publish(news)
        elif not self._loop.is_closed():
            # A plain function in a worker thread: subscribers are told on the loop they live on.
            self._loop.call_soon_threadsafe(self.hub.publish, news)

    def _offer(self) -> None:
        """Declare what is registered. What was declared once stays: sessions have been told."""
        register = self.register
        entries: dict[str, Any] = {
            "tools": register.tools,
            "prompts": register.prompts,
            "resources": register.resources if len(register.resources) else register.templates,
            "completions": self.completions,
        }
        new = [kind for kind, found in entries.items() if kind not in self.capabilities and len(found)]
        if new:
            self.capabilities.update((kind, dict(_LISTED[kind])) for kind in new)
            self.admission.set_capabilities(self.capabilities)

    async def watch_address(self, uri: str, call: Call) -> None:
        """Somebody who hears of it from another server wants to hear of ``uri``.

        Raises:
            ProtocolError: it is not there for them.
        """
        await self._builtin.watch(uri, call)

    async def notify_resource_updated(self, uri: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Tell everybody who subscribed to ``uri`` (or to what it lies in) that it changed."""
        self.hub.publish_resource_updated(
            uri, None if metadata is None else {VENDOR + "metadata": dict(metadata)}
        )

    def watch(self, uri: str, source: Source, *, interval: float = WATCH_SECONDS) -> Callable[[], None]:
        """Tell the subscribers of ``uri`` whenever ``source`` changes; call what is returned to stop that.

        ``source`` is a file, a folder (whose files have their URIs below ``uri``), or a function that is called
        every ``interval`` seconds and whose value is compared with the one before. The server looks while it runs.
        """
        if self.watches is None:
            from .resource_watcher import Watches

            self.watches = Watches(self)
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.watches.start)
        return self.watches.add(uri, source, interval)

    # --- the rest of a Service ------------------------------------------------------------------------------

    def session_opened(self, session: Session) -> None:
        """A legacy session begins: from ``initialized`` on it hears of changes to what it was told exists."""
        offered = self.admission.methods.advertised(session.codec)
        silent = {
            f"notifications/{kind}/list_changed"
            for kind in LIST_KINDS
            if not offered.has(f"{kind}.listChanged")
        }

        def notify(method: str, params: Struct | None) -> None:
            if session.notify is not None and method not in silent:
                session.notify(method, params)

        for watch in self.session_watchers:
            watch(session)
        self._loop = _running_loop()
        session.subscriber = self.hub.add_session(session, notify)
        session.subscriber.principal = session.principal

    def session_changed(self, session: Session, subscriptions: Collection[str]) -> None:
        """Another process has changed a legacy session."""
        if session.subscriber is not None:
            self.hub.resubscribe(session.subscriber, subscriptions)
        if session.phase != "paused":
            session.wake_waiting()

    def session_recovered(self, session: Session, *, lately: bool = False) -> None:
        """Nobody has kept watch for a legacy session for a while, or for a moment."""
        if session.subscriber is not None:
            self.hub.refresh(session.subscriber, lately=lately)

    def session_closed(self, session: Session) -> None:
        """A legacy session is over: it hears of nothing any more."""
        if session.subscriber is not None:
            self.hub.discard(session.subscriber)
            session.subscriber = None

    def client_disconnected(self, call: Call) -> None:
        """The client left while ``call`` ran: nobody can be told, so it is logged and counted."""
        kind = "connection_closed"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        logger.info("499 %s: the client closed the connection while it ran", call.method)

    def __repr__(self) -> str:
        return f"Server({self.info.name!r}, tools={len(self.tools)})"


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
        what = f"there is no revision {unknown[0]!r}" if unknown else "a server needs a revision to speak"
        raise ValueError(f"{what}: use some of {', '.join(BY_NAME)}")
    return [BY_NAME[name] if isinstance(name, str) else name for name in names]


def _lifespan(lifespan: Life | Sequence[Life] | None, server: Server) -> Enter | None:
    if lifespan is None:
        return None
    return partial(lifespan, server) if callable(lifespan) else composed(lifespan, server)


def _checked(auth: Any) -> Any:
    if auth is not None:
        from ..auth.server.verifier import as_verifier  # a server that asks nobody does without it

        as_verifier(auth)  # what is none is a mistake here, not where it is served
    return auth


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # a thread of its own
