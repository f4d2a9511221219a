"""`Dispatcher`: answers the calls of one server.

Transports serve it: it is a `core.channel.Service`. `Pipeline` has the steps before a handler; this module has the
handlers that run an author's code (``tools/call``, ``prompts/get``, ``resources/read``, custom methods). Each has one
exception boundary: only results and `DovetailError`s leave it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

from msgspec import UNSET, Raw, Struct, field
from msgspec.structs import replace

from .. import model as m
from ..core.admit import Admission
from ..core.channel import EMPTY, Call, Channel, Notice, Session
from ..core.principal import Principal
from ..core.rights import at, hidden
from ..core.subscription_hub import PublishedChange
from ..drivers.middleware_chain import Middleware, Wrapper
from ..errors import NAME_ECHO, URI_ECHO, ProtocolError
from ..settings import HttpOptions, Limits, TaskOptions
from ..stores.base import Store
from ..wire.dialects import OFFICIAL, Dialect
from ..wire.revisions import REVISIONS, Revision
from ..wire.seal import Keys, Seal
from . import current_call
from .context import Context
from .execution import resumed
from .failures import Failures, unreadable
from .input_requests.input_required import InputRequired
from .pipeline import Pipeline
from .protocol_methods import Handler, ProtocolMethods
from .registry.component_tables import Changed, Registered, RegisteredResource
from .registry.custom_methods import CustomMethods, RegisteredMethod
from .registry.uri_checks import not_there
from .signatures.returns import prompt_messages, resource_contents, tool_result, without_system, writable

if TYPE_CHECKING:
    from ..core.route_handlers import CustomRoute, RouteTable
    from ..telemetry.metrics import Metrics
    from .composition import Composition
    from .server import Server
    from .uploads import Uploads

logger = logging.getLogger("dovetail.server")

H = TypeVar("H", bound=Callable[..., Any])
CONFIRMATION_PATH: Final = "/confirm/"
"""The prefix of the pages on which users confirm an operation; the rest of the path is the token of one link."""
UPLOAD_PATH: Final = "/uploads/"
"""The prefix of the URLs to which files are sent; the rest of the path is the token of one file."""
UPLOAD_TOOL: Final = "create_upload"
"""The name of the tool that returns such a URL."""
STATE_LIFETIME: Final = 3600.0
"""Seconds for which the state of an unanswered input request is valid."""
_LISTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}
"""The capability that is declared once a component of that kind is registered."""


class ServerSettings(Struct, frozen=True, kw_only=True):
    """The options of a server that its dispatcher follows."""

    info: m.Implementation
    instructions: str | None = None
    dialect: Dialect = OFFICIAL
    revisions: Sequence[Revision] = field(default_factory=lambda: REVISIONS)
    limits: Limits = Limits()
    clock: Callable[[], float] = time.time
    auth: Any = None
    timeout: float | None = None
    page_size: int | None = None
    ttl_ms: int = 0
    cache_scope: m.CacheScope = "private"
    mask_errors: bool = True
    log_level: m.LoggingLevel = "debug"
    state_lifetime: float = STATE_LIFETIME
    tasks: TaskOptions = TaskOptions()
    http: HttpOptions = HttpOptions()
    strict: bool = False
    client_workarounds: bool = True

    def __post_init__(self) -> None:
        if self.page_size is not None and self.page_size < 1:
            raise ValueError(f"page_size must be at least 1, not {self.page_size}")
        if self.ttl_ms < 0:
            raise ValueError(f"ttl_ms must be 0 or more, not {self.ttl_ms}")
        if self.cache_scope not in ("public", "private"):
            raise ValueError(f"cache_scope must be 'public' or 'private', not {self.cache_scope!r}")


class Dispatcher:
    """Runs admitted calls through the pipeline of one server. It is the `Service` that transports serve."""

    def __init__(
        self,
        server: Server,
        settings: ServerSettings,
        seal: Seal,
        middleware: Sequence[Middleware | Wrapper] = (),
    ) -> None:
        self._server = server
        self.settings = settings
        self.registry, self.subscriptions = server.registry, server.subscriptions
        self.lifecycle, self.runner = server.lifecycle, server.lifecycle.runner
        self.health = server.health
        self.info, self.dialect, self.limits = settings.info, settings.dialect, settings.limits
        self.clock, self.auth, self.seal = settings.clock, settings.auth, seal
        self.instructions = settings.instructions
        self.page_size = settings.page_size or settings.limits.page_size
        self.failures = Failures(mask=settings.mask_errors)
        self.json_mime_type = "text/plain" if self.dialect.json_as_plain_text else "application/json"
        self.capabilities = m.ServerCapabilities({"logging": {}})
        """The declared capabilities, computed from the registered components. A capability once declared stays
        declared.
        """
        self.counts: dict[str, int] = {}
        """Events that could not be reported to a peer, by kind: ``connection_closed`` for a client that disconnected.
        """
        self.routes: RouteTable | None = None
        """Custom HTTP routes; None without any."""
        self.uploads: Uploads | None = None
        """Created with the first tool that takes an `Upload`."""
        self.admission = Admission(
            "server",
            list(settings.revisions),
            self.dialect,
            self.info,
            self.registry.param_headers,
            strict=settings.strict,
            limits=self.limits,
        )
        self._protocol_methods = ProtocolMethods(self)
        self.methods: dict[str, Handler] = {
            **self._protocol_methods.methods(),
            "tools/call": self.call_tool,
            "resources/read": self.read,
            "prompts/get": self.get_prompt,
        }
        """The handler of each method."""
        self.custom_methods = CustomMethods(self)
        self.pipeline = Pipeline(self, middleware)
        hub = self.subscriptions.hub
        hub.subscribed_bytes, hub.rights = self.admission.shared.subscribed_bytes, self.pipeline.rights_to
        self.registry.listeners.append(self._list_changed)
        self.offer()

    @property
    def server(self) -> Server:
        """The server that handlers, middleware and extensions see."""
        return self._server

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.info.name

    # --- declared capabilities ------------------------------------------------------------------------------

    def add_capability(self, path: str, settings: Mapping[str, Any] = EMPTY) -> None:
        """Declare a capability that no component implies, such as ``extensions.com.example/x``."""
        head, _, rest = path.partition(".")
        if rest:
            self.capabilities.setdefault(head, {})[rest] = dict(settings)
        else:
            self.capabilities[head] = dict(settings)
        self.offer()

    def offer(self) -> None:
        """Recompute the declared `capabilities`."""
        self.admission.set_capabilities(self.capabilities)

    def _list_changed(self, kind: Changed | Literal["completions"], news: PublishedChange | None) -> None:
        """Declare the capabilities of new components, drop the cached pages of the list, and notify subscribers."""
        self._offer_registered()
        if kind != "completions":
            self._protocol_methods.changed(kind)
            self.subscriptions.publish(news or PublishedChange(list=kind))

    def _offer_registered(self) -> None:
        """Declare the capabilities of the registered components. Declared capabilities stay, since sessions rely on
        them.
        """
        registry = self.registry
        entries: dict[str, Any] = {
            "tools": registry.tools,
            "prompts": registry.prompts,
            "resources": registry.resources or registry.templates,
            "completions": registry.completions,
        }
        new = [kind for kind, found in entries.items() if kind not in self.capabilities and len(found)]
        if new:
            self.capabilities.update((kind, dict(_LISTED[kind])) for kind in new)
            self.offer()

    def compose_with(self, composition: Composition) -> None:
        """Serve the components mounted in ``composition``."""
        self.registry.composition = composition
        self.pipeline.compose()

    def answer(self, handlers: Mapping[str, Handler]) -> None:
        """Use these handlers for methods of the protocol from now on."""
        self.methods |= handlers

    def introduce(self, info: m.Implementation, instructions: str | None) -> None:
        """Report this name, version and instructions to clients from now on."""
        self.info, self.instructions = info, instructions
        for codec in self.admission.codecs.values():
            codec.set_server_info(info)

    def use_keys(self, keys: Keys) -> None:
        """Seal with ``keys`` from now on."""
        self.seal = Seal(keys, self.limits.max_request_state_bytes, owner=self.info.name)

    def change_limits(self, **members: Any) -> None:
        """Set some limits; call it before the server starts."""
        self.limits = replace(self.limits, **members)

    def add_route(
        self, path: str, methods: Collection[str], *, auth: bool, public: bool = False
    ) -> Callable[[H], H]:
        """`Server.route`; ``public`` lets pages of all origins call it."""
        from ..core.route_handlers import CustomRoute, RouteTable  # most servers have none

        if self.routes is None:
            self.routes = RouteTable()
        routes = self.routes

        def add(handler: H) -> H:
            wanted = frozenset(name.upper() for name in methods)
            routes.add(CustomRoute(path, handler, wanted, auth, public=public))
            return handler

        return add

    # --- what transports call -------------------------------------------------------------------------------

    async def start(self) -> None:
        """`Lifecycle.start`."""
        await self.lifecycle.start()

    async def stop(self) -> None:
        """`Lifecycle.stop`."""
        await self.lifecycle.stop()

    def end_listening(self) -> None:
        """`Subscriptions.end_listening`."""
        self.subscriptions.end_listening()

    def session_opened(self, session: Session) -> None:
        """`Subscriptions.session_opened`."""
        self.subscriptions.session_opened(session, self.admission.methods.advertised(session.codec))

    def session_changed(self, session: Session, subscriptions: Collection[str]) -> None:
        """`Subscriptions.session_changed`."""
        self.subscriptions.session_changed(session, subscriptions)

    def delivered_changes(self, session: Session) -> dict[str, int]:
        """`Subscriptions.delivered_changes`."""
        return self.subscriptions.delivered_changes(session)

    def session_recovered(
        self, session: Session, *, lately: bool = False, delivered: Mapping[str, int] | None = None
    ) -> None:
        """`Subscriptions.session_recovered`."""
        self.subscriptions.session_recovered(session, lately=lately, delivered=delivered)

    def session_closed(self, session: Session) -> None:
        """`Subscriptions.session_closed`."""
        self.subscriptions.session_closed(session)

    def receive_notification(self, notice: Notice) -> None:
        """Take a notification of a client through the middleware."""
        self.pipeline.note(notice)

    def client_disconnected(self, call: Call) -> None:
        """The client disconnected while ``call`` ran: count it and log it."""
        kind = "connection_closed"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        logger.info("499 %s: the client closed the connection while it ran", call.method)

    @property
    def middleware(self) -> tuple[Middleware | Wrapper, ...]:
        """The middleware around every call, outermost first."""
        return self.pipeline.middleware

    @property
    def store(self) -> Store | None:
        """Where the server keeps its state; None without a store."""
        return self.lifecycle.store

    def use_store(self, store: Store) -> None:
        """`Lifecycle.use_store`."""
        self.lifecycle.use_store(store)

    @property
    def event_history(self) -> Any:
        """`Lifecycle.event_history`."""
        return self.lifecycle.event_history

    @property
    def metrics(self) -> Metrics:
        """`Server.metrics`."""
        return self._server.metrics

    def component_scopes(self) -> frozenset[str]:
        """The scopes that the components require. Metadata and challenges report them to clients."""
        return self.registry.scopes()

    def find_routes(self, path: str) -> list[tuple[CustomRoute, dict[str, str]]]:
        """All custom routes that match ``path``; those of mounted servers come last."""
        found = [] if self.routes is None else self.routes.find(path)
        if path.startswith(CONFIRMATION_PATH):
            from . import confirmation  # most servers do not confirm anything

            found = [*found, confirmation.route(lambda: self.lifecycle.state_store, path)]
        if self.uploads is not None and path.startswith(UPLOAD_PATH):
            route = self.uploads.route(path)
            found = found if route is None else [*found, route]
        composition = self.registry.composition
        return found if composition is None else found + composition.find_routes(path)

    def offer_uploads(self) -> Uploads:
        """Serve files for tools that take an `Upload`, and register the tool that gives URLs for them."""
        from .uploads import Uploads  # most servers take no files

        if self.uploads is None:
            self.uploads = Uploads(self)
            self.registry.add_tool(
                self.uploads.create,
                name=UPLOAD_TOOL,
                annotations={"readOnlyHint": True, "openWorldHint": False},
            )
        return self.uploads

    async def watch_address(self, uri: str, call: Call) -> None:
        """Check a subscription that a parent server made for its own client.

        Raises:
            ProtocolError: that client cannot see such a resource.
        """
        await self._protocol_methods.watch(uri, call)

    # --- the pipeline ---------------------------------------------------------------------------------------

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        """Answer one admitted call: await it. Raises only `DovetailError`s (and lets cancellation through)."""
        enter, session, lifespan = self.pipeline.enter, call.session, self.lifecycle.lifespan
        monitor = self.health.monitor
        if monitor.asleep:
            monitor.wake()
        if (session is not None and session.phase == "paused") or (
            lifespan is not None and not lifespan.running
        ):
            return self._respond(call, channel)
        if enter is not None:
            return enter(call, channel)
        handler = self.methods.get(call.method)
        if handler is None:
            return self._respond(call, channel)
        return handler(call, channel)  # the common case adds no coroutine

    async def _respond(self, call: Call, channel: Channel) -> Struct | Raw:
        """`respond` with a middleware or a composition before the handler."""
        lifespan = self.lifecycle.lifespan
        if lifespan is not None and not lifespan.running:
            await self.lifecycle.start()
        session = call.session
        if session is not None and session.phase == "paused" and call.method != "ping":
            await resumed(session)
        if self.pipeline.enter is not None:
            return await self.pipeline.enter(call, channel)
        return await self.find_handler(call.method)(call, channel)

    def find_handler(self, method: str) -> Handler:
        """The handler of requests for ``method``.

        Raises:
            ProtocolError: the method has no handler.
        """
        handler = self.methods.get(method)
        if handler is None:
            raise ProtocolError("method_not_found", data={"method": method})
        return handler

    async def call_tool(self, call: Call, channel: Channel) -> Struct | Raw:
        """Run ``tools/call``: every outcome is a result or a `DovetailError`."""
        params = call.params
        tool = self.registry.tools.entries.get(params.name)
        if tool is None or (tool.rights and hidden(tool.rights, call.principal)):
            return await self._elsewhere(call, channel, "tool")
        function = tool.function
        try:
            if tool.context_parameter is None and params.request_state is UNSET and not current_call.wanted:
                value = await tool.call(**function.decode(params.arguments))
                return _needs_context() if type(value) is InputRequired else tool_result(value, function)
            # From here on the handler may send input requests, or refer to earlier ones.
            value = await self._converse(tool, partial(function.decode, params.arguments), call, channel)
            return value if type(value) is m.InputRequiredResult else tool_result(value, function)
        except BaseException as error:  # noqa: BLE001  the one boundary for tools
            return self.failures.of_tool(error, tool.name, call)

    async def get_prompt(self, call: Call, channel: Channel) -> Struct | Raw:
        """``prompts/get``."""
        params = call.params
        prompt = self.registry.prompts.entries.get(params.name)
        if prompt is None or (prompt.rights and hidden(prompt.rights, call.principal)):
            return await self._elsewhere(call, channel, "prompt")
        try:
            value = await self._converse(
                prompt, partial(prompt.function.decode, params.arguments), call, channel
            )
            if type(value) is m.InputRequiredResult:
                return value
            keeps_system = call.codec.dialect.system_role and not call.revision.modern
            if not isinstance(value, m.GetPromptResult):
                messages = prompt_messages(value, prompt.name, bare=keeps_system)
                value = m.GetPromptResult(messages, description=prompt.definition.description)
            writable(value, prompt.name, "prompt_render_failed")
            return value if keeps_system else without_system(value)
        except BaseException as error:  # noqa: BLE001  the one boundary for prompts
            self.failures.raise_other(
                error, f"prompt {prompt.name!r}", call, {"prompt": prompt.name}, "prompt_render_failed"
            )

    async def _elsewhere(self, call: Call, channel: Channel, what: str) -> Struct | Raw:
        """Let the mounted server that has the component answer.

        Raises:
            ProtocolError: no mounted server has it.
        """
        found = (
            None
            if self.registry.composition is None
            else await self.registry.composition.respond(call, channel)
        )
        if found is None:
            name = call.params.name[:NAME_ECHO]
            raise ProtocolError(f"{what}_not_found", f"Unknown {what}: {name}", data={what: name})
        return found

    async def read(self, call: Call, channel: Channel) -> Struct | Raw:
        """``resources/read``."""
        uri = call.params.uri
        if self.registry.composition is not None and self.registry.find_resource(uri) is None:
            found = await self.registry.composition.respond(call, channel)
            if found is not None:
                return found
        entry, arguments = self._find(uri, call.principal)
        try:
            value = await self._converse(entry, arguments.copy, call, channel)
            if type(value) is m.InputRequiredResult:
                return value
            return self._contents(entry, uri, value)
        except BaseException as error:  # noqa: BLE001  the one boundary for resources
            kind = unreadable(
                error, "internal_error" if entry.function.template is None else "template_render_failed"
            )
            self.failures.raise_other(error, f"resource {entry.name!r}", call, {"uri": uri[:URI_ECHO]}, kind)

    async def run_method(self, method: RegisteredMethod, call: Call, channel: Channel) -> Struct | Raw:
        """Run a custom method of the author."""
        if method.rights and hidden(method.rights, call.principal):
            raise ProtocolError("method_not_found", data={"method": call.method})
        function = method.function
        try:
            value = await self._converse(method, function.keywords(call.params), call, channel)
            if isinstance(value, m.Result):
                return writable(value, method.name, "internal_error")
            members: dict[str, Any] = {**function.write(value)}
            if method.row.cacheable and call.revision.modern:
                members = {
                    "ttlMs": self.settings.ttl_ms,
                    "cacheScope": self.settings.cache_scope,
                    **members,
                }
            return call.codec.prepare(members)
        except BaseException as error:  # noqa: BLE001  the one boundary for methods of the author's own
            what = f"method {method.name!r}"
            self.failures.raise_other(error, what, call, {"method": method.name})

    async def read_for(self, uri: str, context: Context) -> list[m.ResourceContents]:
        """Read a resource on behalf of the handler that has ``context``.

        Raises:
            ProtocolError: of kind ``resource_not_found``, or of another kind that says what is wrong with ``uri``. An
            exception of the reader is raised unchanged.
        """
        entry, arguments = self._find(uri, context.principal)
        parameter = entry.context_parameter
        if parameter is not None:
            arguments[parameter] = context
        return self._contents(entry, uri, await entry.call(**arguments)).contents

    def _find(self, uri: str, principal: Principal | None) -> tuple[RegisteredResource, dict[str, Any]]:
        found = self.registry.find_resource(uri)
        if found is None or (found[0].rights and hidden(at(found[0].rights, uri, found[1]), principal)):
            raise not_there(uri, self.limits.max_uri_length)
        return found

    def _contents(self, entry: RegisteredResource, uri: str, value: Any) -> m.ReadResourceResult:
        if isinstance(value, m.ReadResourceResult):
            result = writable(value, uri, "internal_error")
        else:
            result = m.ReadResourceResult(
                resource_contents(value, uri, entry.mime_type, json_mime_type=self.json_mime_type)
            )
        if result.ttl_ms is UNSET:
            result.ttl_ms = self.settings.ttl_ms if entry.ttl_ms is None else entry.ttl_ms
        if result.cache_scope is UNSET:
            result.cache_scope = entry.cache_scope or self.settings.cache_scope
        if entry.rights:
            result.cache_scope = "private"
        return result

    async def _converse(
        self, entry: Registered, decode: Callable[[], dict[str, Any]], call: Call, channel: Channel
    ) -> Any:
        """Run a handler that may send input requests; return its value, or the `InputRequiredResult`."""
        parameter = entry.context_parameter
        if parameter is None and call.params.request_state is UNSET and not current_call.wanted:
            value = await entry.call(**decode())
            return _needs_context() if type(value) is InputRequired else value
        from .input_requests.client_requests import (
            asking_for,  # loaded with the first handler that has a Context
        )

        asking = asking_for(self, call, channel)
        context = Context(self._server, call, channel, asking)
        before = current_call.context.set(context) if current_call.wanted else None
        try:
            while True:
                arguments = decode()
                if parameter is not None:
                    arguments[parameter] = context
                try:
                    value = await entry.call(**arguments)
                except asyncio.CancelledError:
                    raise
                except BaseException:
                    # With unanswered input requests, the handler's result does not count.
                    if not asking.open or call.client_cancelled:
                        raise
                    return asking.result()
                if asking.open:
                    return asking.result()
                if type(value) is not InputRequired:
                    return value
                required = await asking.take(value)
                if required is not None:
                    return required
        finally:
            context.close()
            if before is not None:
                current_call.context.reset(before)

    def context(self, call: Call, channel: Channel) -> Context:
        """A context for ``call``, for handlers of methods added with `add_method`."""
        from .input_requests.client_requests import asking_for

        return Context(self._server, call, channel, asking_for(self, call, channel))


def _needs_context() -> NoReturn:
    raise TypeError("a handler that returns InputRequired needs a Context, to read the answers from")
