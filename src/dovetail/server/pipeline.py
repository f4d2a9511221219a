"""The steps between an admitted call and its handler: resolve, then the middleware chain, then execute.

    call → resolve → [ becomes a task? ] → middleware → execute → middleware → result

*Resolve* finds the component that the client means by a prefixed name, ``name@version``, the name in a view,
``call_tool`` of a search, or erlmcp's ``tasks/create``. The component does not change after it. An unknown name is
refused at the end of the chain, so that middleware counts and records it as well. A call that becomes a task continues
in the task; the client gets the task when the chain has let the call through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel, PlainChannel, ServerRequestsNotSupported
from ..core.rights import DENY_ALL, Rights, hidden
from ..core.subscription_hub import LIST_KINDS
from ..drivers.middleware_chain import (
    Component,
    Kind,
    Middleware,
    Next,
    ReceiveNotification,
    Request,
    Respond,
    Wrapper,
    attach,
    component_check,
    compose,
    compose_notifications,
    name_in,
)
from ..errors import NAME_ECHO, DovetailError, ProtocolError, ToolError
from ..model import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PaginatedResult,
    ResourceTemplateReference,
    ToolReference,
)
from ..wire.methods import METHODS
from .composition import ListName
from .registry.component_tables import RegisteredTool
from .registry.tool_versions import asked_for, joined, split, tags_of, version_of

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

_CALL: Final = "tools/call"
_COMPLETE: Final = "completion/complete"
_KINDS: Final[Mapping[str, ListName]] = {
    "tools/call": "tools",
    "prompts/get": "prompts",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
}
_SINGULAR: Final[Mapping[ListName, Kind]] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "template",
}
_LISTS: Final[Mapping[ListName, tuple[str, str, Callable[[list[Any]], PaginatedResult]]]] = {
    "tools": ("tools/list", "tools", ListToolsResult),
    "prompts": ("prompts/list", "prompts", ListPromptsResult),
    "resources": ("resources/list", "resources", ListResourcesResult),
    "templates": ("resources/templates/list", "resource_templates", ListResourceTemplatesResult),
}
"""By kind: the method that lists it, the member of the result, and the result type."""
_LIST_HOOKS: Final[Mapping[ListName, str]] = {
    "tools": "list_tools",
    "prompts": "list_prompts",
    "resources": "list_resources",
    "templates": "list_resources",
}
_NAMED: Final = frozenset({"tools/call", "prompts/get"})
_SUBSCRIBING: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
_ADDRESSED: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


class _Unheard(PlainChannel):
    """The channel of an internal list request, which has no client."""

    def notify(self, method: str, params: Struct | None) -> None: ...

    async def request(self, method: str, params: Struct) -> Any:
        raise ServerRequestsNotSupported

    async def drain(self) -> None: ...


class Once(Protocol):
    """What runs a call with a key once. An extension provides it."""

    key: str
    """The member of ``_meta`` that has the key."""

    def wrap(self, execute: Next) -> Next: ...
    def run(
        self,
        call: Call,
        channel: Channel,
        respond: Respond,
        repeat: Callable[[Callable[[], Raw]], Awaitable[Struct | Raw]] | None = None,
    ) -> Awaitable[Struct | Raw]: ...


class Deferral(Protocol):
    """What runs calls that go on after the client was answered. An extension provides it."""

    stands_for_calls: frozenset[str]
    """Methods that contain a ``tools/call``."""

    def unwrapped(self, call: Call) -> tuple[Call, Any]:
        """The ``tools/call`` that a request contains, and the client's options for it."""
        ...

    def starter(
        self, request: Request, wish: Any
    ) -> Callable[[Next, Call, Channel], Awaitable[Struct | Raw]] | None:
        """The function that starts a call as a task, given the chain; None if the call gets a direct result."""
        ...

    async def heartbeat(self) -> None:
        """Recover calls of other processes, until cancelled."""
        ...

    async def close(self) -> None:
        """End the calls that run."""
        ...


class Pipeline:
    """The pipeline of one server."""

    def __init__(self, dispatcher: Dispatcher, middleware: Sequence[Middleware | Wrapper] = ()) -> None:
        self._dispatcher = dispatcher
        self._tools = dispatcher.registry.tools.entries
        self._methods = dispatcher.methods
        self.middleware = tuple(middleware)
        """The middleware around every call, outermost first."""
        self.once: Once | None = None
        """What runs a call with a key once; None where nothing does."""
        self.deferral: Deferral | None = None
        """What runs calls that are answered later; None where every call is answered at once."""
        self.enter: Respond | None = None
        """Runs the middleware and the handler; None if there is nothing before the handler."""
        self.admits: Callable[[Component], bool] | None = None
        """Whether a component may be used at all; None if all may."""
        self._check: Callable[[Call], None] | None = None
        """Raises for a call that must not run now, for example while the server drains."""
        self.note: ReceiveNotification = dispatcher.custom_methods.handle_notification
        """Runs the middleware around a notification."""
        self._chain: Next = self._execute

    def use(self, middleware: Sequence[Middleware | Wrapper]) -> None:
        """Replace the middleware around every call."""
        self.middleware = tuple(middleware)
        attach(self.middleware, self._dispatcher.server)
        self.compose()

    def add(self, middleware: Middleware | Wrapper) -> None:
        """Add ``middleware`` outside all existing middleware."""
        self.middleware = (middleware, *self.middleware)
        attach((middleware,), self._dispatcher.server)
        self.compose()

    def append(self, middleware: Sequence[Middleware | Wrapper]) -> None:
        """Add ``middleware`` inside all existing middleware."""
        self.middleware = (*self.middleware, *middleware)
        attach(middleware, self._dispatcher.server)
        self.compose()

    def run_once_with(self, once: Once) -> None:
        """Have ``once`` run the calls that have its key."""
        self.once = once
        self.compose()

    def defer_with(self, deferral: Deferral) -> None:
        """Have ``deferral`` run the calls that are answered later."""
        self.deferral = deferral
        self.compose()

    async def end_deferred(self) -> None:
        """End the calls that go on after their answer."""
        if self.deferral is not None:
            await self.deferral.close()

    def stopped(self) -> None:
        """Notify every middleware that the server has stopped."""
        for each in self.middleware:
            if isinstance(each, Middleware):
                each.stopped()

    def refuse_with(self, check: Callable[[Call], None] | None) -> None:
        """Let ``check`` raise for calls that must not run; None serves all calls again."""
        self._check = check
        self.compose()

    def compose(self) -> None:
        """Rebuild the chain after a step was added or removed."""
        dispatcher, execute = self._dispatcher, cast("Next", self._execute)
        inner = execute
        if (
            dispatcher.registry.transforms is not None
            and dispatcher.registry.transforms.response_limit is not None
        ):
            inner = dispatcher.registry.transforms.response_limit.wrap(inner)
        if self.once is not None:
            inner = self.once.wrap(inner)
        self._chain = compose(self.middleware, inner)
        before, self.admits = self.admits, component_check(self.middleware)
        if before is not None or self.admits is not None:
            for kind in LIST_KINDS:
                dispatcher.registry.changed(kind)
        self.note = compose_notifications(self.middleware, dispatcher.custom_methods.handle_notification)
        if dispatcher.registry.transforms is not None:
            self._chain = partial(
                _relocating, self._chain, dispatcher.registry.transforms.components.relocated
            )
        # Middleware that only counts or relaxes rules, and does not wrap requests, adds no cost to a call.
        alone = self.admits is None and compose(self.middleware, execute) is execute
        guarded = not alone or self.once is not None
        if (
            dispatcher.registry.transforms is not None
            or self.deferral is not None
            or (dispatcher.registry.composition is not None and guarded)
        ):
            self.enter = self._resolve_and_run
        elif not alone or self._check is not None:
            self.enter = self._entering(self._chain)
        elif self.once is not None:
            self.enter = self._entering_once(self._chain, self.once.key)
        else:
            self.enter = None

    def _entering(self, chain: Next) -> Respond:
        """The entry for servers in which names are unambiguous: nearly all."""
        describe = self.describe

        def enter(call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
            method = call.method
            if method in _NAMED:
                name = call.params.name
            elif method in _ADDRESSED:
                name = call.params.uri
            else:
                name = name_in(call) if method == _COMPLETE else ""
            return chain(Request(call, channel, name, describe))

        return enter

    def _entering_once(self, chain: Next, key: str) -> Respond:
        """The entry with only an idempotency key to check: a call without one pays for one dictionary lookup."""

        def enter(call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
            handler = methods.get(call.method)
            if key in call.meta or handler is None:
                return chain(Request(call, channel, name_in(call), self.describe))
            return handler(call, channel)

        methods = self._dispatcher.methods
        return enter

    async def _resolve_and_run(self, call: Call, channel: Channel) -> Struct | Raw:
        transforms = self._dispatcher.registry.transforms
        tools = None if transforms is None else transforms.method_tools
        if transforms is None or tools is None or (tool := tools.find(call)) is None:
            return await self._resolve_and_run_component(call, channel)
        try:
            meant = await transforms.request_of(tool, call)
        except DovetailError as error:
            return await self._chain(self._refused(call, channel, error))
        request = replace(self._refused(call, channel, ProtocolError("tool_not_found")), repeated=True)
        try:
            answer, channel = await tools.guard(tool, call, channel, self.middleware)
        except DovetailError as error:
            return await self._chain(replace(request, run=partial(_ended, error)))
        if answer is not None:
            return await self._chain(replace(request, run=partial(_ended, answer)))
        return await tools.answer(tool, call, meant, channel, self._resolve_and_run_component)

    async def _resolve_and_run_component(self, call: Call, channel: Channel) -> Struct | Raw:
        deferral, wish = self.deferral, None
        try:
            if deferral is not None and call.method in deferral.stands_for_calls:
                call, wish = deferral.unwrapped(call)
            request = await self.resolve(call, channel)
        except DovetailError as error:
            return await self._chain(self._refused(call, channel, error))
        if deferral is None or call.method != _CALL or channel.asking is not None or request.run is not None:
            # The channel brings its own input requests: the call already runs in a task, or inside another server.
            return await self._chain(request)
        try:
            start = deferral.starter(request, wish)
        except DovetailError as error:
            return await self._chain(self._refused(request.call, channel, error))
        if start is None:
            return await self._chain(request)
        begin = partial(start, self._chain)
        if self.once is None:
            return await begin(request.call, channel)
        return await self.once.run(request.call, channel, begin, partial(self._repeat, request))

    async def _repeat(self, request: Request, kept: Callable[[], Raw]) -> Struct | Raw:
        """Return the existing task of a repeated call to its caller, through the middleware."""

        async def answered(request: Request) -> Raw:
            self.authorize(request)
            return kept()

        return await self._chain(replace(request, run=answered, repeated=True))

    def resume(self, call: Call, channel: Channel, task: Any) -> Awaitable[Struct | Raw]:
        """Run a call again that another process has admitted: it is already resolved."""
        name = self.canonical(call.params.name)
        return self._chain(Request(call, channel, name, self.describe, resumed=True, task=task))

    # --- resolve --------------------------------------------------------------------------------------------

    async def resolve(self, call: Call, channel: Channel) -> Request:
        """Build the request with the component that the call refers to."""
        transforms, composition, run = (
            self._dispatcher.registry.transforms,
            self._dispatcher.registry.composition,
            None,
        )
        if transforms is not None:
            try:
                call, run = await transforms.resolve(call)
            except DovetailError as error:
                return self._refused(call, channel, error)
        if (
            composition is not None
            and call.method == _CALL
            and (meant := composition.unwrapped(call)) is not None
        ):
            call = meant
        name = self.canonical(call.params.name) if call.method == _CALL else name_in(call)
        if transforms is not None and call.method in _SUBSCRIBING:
            name = transforms.known_as(name)
        return Request(call, channel, name, self.describe, run)

    def _refused(self, call: Call, channel: Channel, error: DovetailError) -> Request:
        """Build a request that ends with ``error`` after the chain has seen it."""

        async def refuse(request: Request) -> Struct | Raw:
            if isinstance(error, ToolError):  # the arguments are wrong: the model reads why
                return self._dispatcher.failures.of_tool(error, request.name, request.call)
            raise error

        name = name_in(call)
        name = self.canonical(name) if call.method == _CALL else name
        return Request(call, channel, name, self.describe, refuse)

    def canonical(self, name: str) -> str:
        """The name of a tool without its version, unless a tool has exactly this name."""
        if "@" not in name:
            return name
        entry = self._tools.get(name)
        if entry is not None:
            return entry.definition.name
        composition = self._dispatcher.registry.composition
        found = None if composition is None else composition.component("tools", name)
        return split(name)[0] if found is None else found.name

    def describe(self, request: Request) -> Component:
        """The component of a request."""
        call, dispatcher, composition = request.call, self._dispatcher, self._dispatcher.registry.composition
        kind = _kind_of(call)
        if kind is None:
            return Component(request.name)
        key = call.params.name if call.method in _NAMED else request.name
        if kind == "tools" and (tool := self._tools.get(key)) is not None:
            return self.of_tool(tool)
        if kind == "prompts" and (prompt := dispatcher.registry.prompts.entries.get(key)) is not None:
            return self.of_entry(kind, prompt)
        if kind == "templates" and (template := dispatcher.registry.templates.entries.get(key)) is not None:
            return self.of_entry(kind, template)
        if kind in ("resources", "templates"):
            return self._at(key)
        if kind == "tools" and "@" not in key and (wanted := asked_for(call.meta)) is not None:
            key = joined(key, wanted)  # for tools of this server the name contains it already
        found = None if composition is None else composition.component(kind, key)
        if found is None:
            version = split(key)[1] if kind == "tools" and key != request.name else None
            found = Component(request.name, _SINGULAR[kind], version, aliases=frozenset({key}))
        return self._shown(kind, found.name, found)

    def _at(self, uri: str) -> Component:
        """The component that is read at ``uri``."""
        dispatcher, found = self._dispatcher, self._dispatcher.registry.find_resource(uri)
        if found is not None:
            entry = found[0]
            return replace(self.of_entry("resources", entry), name=uri, aliases=frozenset({entry.name}))
        other = (
            None
            if dispatcher.registry.composition is None
            else dispatcher.registry.composition.component("resources", uri)
        )
        other = Component(uri, "resource") if other is None else other
        return self._shown("resources", other.name, other)

    def of_tool(self, tool: RegisteredTool) -> Component:
        """The component of a tool of this server."""
        name = tool.definition.name
        versioned = frozenset[str]() if tool.version is None else frozenset({joined(name, tool.version)})
        component = Component(
            name, "tool", tool.version, tool.tags, aliases=versioned, definition=tool.definition
        )
        return self._shown("tools", name, component)

    def of_entry(self, kind: ListName, entry: Any) -> Component:
        """The component of an entry of this server."""
        if kind == "tools":
            return self.of_tool(entry)
        component = Component(entry.name, _SINGULAR[kind], tags=entry.tags, definition=entry.definition)
        return self._shown(kind, entry.name, component)

    def of_definition(self, kind: ListName, key: str, definition: Any, origin: str = "") -> Component:
        """The component of a mounted definition. ``key`` is its name with its version, or its URI."""
        if kind != "tools":
            component = Component(
                key, _SINGULAR[kind], None, tags_of(definition), origin, definition=definition
            )
            return self._shown(kind, key, component)
        version, name = version_of(definition), self.canonical(key)
        aliases = frozenset({key, joined(name, version)}) - {name}
        component = Component(name, "tool", version, tags_of(definition), origin, aliases, definition)
        return self._shown(kind, name, component)

    def listed(self, kind: ListName) -> Iterable[tuple[Any, Rights]]:
        """The definitions that a list shows, with their access rights."""
        admits = self.admits
        of = partial(self.of_entry, kind)
        return self._dispatcher.registry.table(kind).shown(
            None if admits is None else lambda one: admits(of(one))
        )

    def filters(self, kind: ListName) -> bool:
        """Whether middleware filters lists of ``kind``, apart from `Middleware.admits`."""
        return bool(self._list_hooks(kind))

    async def filtered(
        self, kind: ListName, call: Call, entries: Sequence[Any]
    ) -> tuple[Sequence[Any], bytes]:
        """A list of another server after the middleware has filtered it, and its digest."""
        hooks = self._list_hooks(kind)
        if not hooks:
            return entries, b""
        method, member, result = _LISTS[kind]
        asking = replace(call, method=method, params=PaginatedRequestParams())

        async def listed(request: Request) -> Struct | Raw:
            return call.codec.prepare(result(list(entries)))

        chain: Next = listed
        for hook in reversed(hooks):
            chain = partial(hook, call_next=chain)
        page: Any = await chain(Request(asking, _Unheard()))
        raw = page if isinstance(page, Raw) else call.codec.prepare(page)
        left = call.codec.decode_result(METHODS[method], raw)
        return getattr(left, member), sha256(raw).digest()

    def _list_hooks(self, kind: ListName) -> list[Callable[..., Awaitable[Struct | Raw]]]:
        name = _LIST_HOOKS[kind]
        return [
            getattr(each, name)
            for each in self.middleware
            if isinstance(each, Middleware) and getattr(type(each), name) is not getattr(Middleware, name)
        ]

    def _shown(self, kind: ListName, name: str, component: Component) -> Component:
        """The component with the name that clients see, where views rename it."""
        transforms = self._dispatcher.registry.transforms
        outer = name if transforms is None else transforms.after(name, kind)
        if outer == component.name:
            return component
        return replace(component, aliases=component.aliases | {outer})

    # --- authorize ------------------------------------------------------------------------------------------

    def authorize(self, request: Request) -> None:
        """Check that the caller may use a tool, where the handler does not check it.

        Raises:
            ProtocolError: the caller may not use it.
        """
        call, composition = request.call, self._dispatcher.registry.composition
        if self.admits is not None and not self.admits(request.component):
            raise _not_found(request)
        name = call.params.name
        tool = self._tools.get(name)
        if tool is None and composition is not None:
            tool = composition.task_tool(name)
        if tool is not None and tool.rights and hidden(tool.rights, call.principal):
            raise _not_found(request)

    def rights_to(self, uri: str) -> Rights:
        """The access rights of a resource, for reading it, subscribing to it and notifying of changes."""
        dispatcher = self._dispatcher
        if self.admits is not None and not self.admits(self._at(uri)):
            return DENY_ALL
        rights = dispatcher.registry.rights_of(uri)
        if (
            not rights
            and dispatcher.registry.composition is not None
            and dispatcher.registry.find_resource(uri) is None
        ):
            rights = dispatcher.registry.composition.rights_of(uri)
        return rights

    # --- execute --------------------------------------------------------------------------------------------

    def _execute(self, request: Request) -> Awaitable[Struct | Raw]:
        if self._check is not None:
            self._check(request.call)
        if (
            self.admits is not None
            and (request.call.method in _KINDS or request.call.method == _COMPLETE)
            and not self.admits(request.component)
        ):
            raise _not_found(request)
        if request.becomes_task or request.run is not None or request.task is not None:
            return self._run_last(request)
        handler = self._methods.get(request.call.method)
        if handler is None:
            handler = self._dispatcher.find_handler(request.call.method)
        return handler(request.call, request.channel)

    async def _run_last(self, request: Request) -> Struct | Raw:
        call = request.call
        if request.becomes_task:
            await request.channel.continue_as_task()  # the client gets the id of the task
        if request.run is not None:
            return await request.run(request)
        if request.task is not None:
            call = request.task.working(call)
        return await self._dispatcher.find_handler(call.method)(call, request.channel)


async def _ended(outcome: Struct | Raw | DovetailError, request: Request) -> Struct | Raw:
    """End a request that a guard has answered already."""
    if isinstance(outcome, DovetailError):
        raise outcome
    return outcome


async def _relocating(chain: Next, relocated: Callable[[Call, Any], Any], request: Request) -> Struct | Raw:
    """The result with the URIs that clients see."""
    return relocated(request.call, await chain(request))


def _kind_of(call: Call) -> ListName | None:
    """The kind of component that a call refers to."""
    if call.method != _COMPLETE:
        return _KINDS.get(call.method)
    ref = call.params.ref
    if isinstance(ref, ResourceTemplateReference):
        return "templates"
    return "tools" if isinstance(ref, ToolReference) else "prompts"


def _not_found(request: Request) -> ProtocolError:
    """The error for a component that the caller may not use: it looks as if it did not exist."""
    if request.method == _COMPLETE:
        return ProtocolError("completion_not_found", f"nothing to complete for {request.name[:NAME_ECHO]!r}")
    kind = _SINGULAR[_KINDS[request.method]]
    member = "uri" if kind == "resource" else kind
    return ProtocolError(f"{kind}_not_found", data={member: request.name[:NAME_ECHO]})
