"""The middleware chain: code that runs around every call of a server or a client.

The chain is one function: the first middleware is the outermost, the last `Next` executes the request. A
server resolves names before the chain runs, so every middleware sees one canonical component. A call that
runs as a task passes the chain too: the task is created when the chain has admitted the call, and its result
passes the chain before it is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.admit import Admission
from ..core.channel import EMPTY, Call, Channel, Notice, Session
from ..core.principal import Principal
from ..errors import NAME_ECHO, DovetailError
from ..model import ResourceTemplateReference, Tool

log = logging.getLogger("dovetail")

Respond = Callable[[Call, Channel], Awaitable[Struct | Raw]]
"""Serves a call; ``Server.respond`` is one."""
ReceiveNotification = Callable[[Notice], None]
"""Handles a notification; ``Server.receive_notification`` is one."""
AddressCheck = Callable[[str], Awaitable[DovetailError | None]]

OPERATIONS: Final = {
    "initialize": ("initialize",),
    "discover": ("server/discover",),
    "call_tool": ("tools/call",),
    "list_tools": ("tools/list",),
    "read_resource": ("resources/read",),
    "list_resources": ("resources/list", "resources/templates/list"),
    "get_prompt": ("prompts/get",),
    "list_prompts": ("prompts/list",),
    "complete": ("completion/complete",),
    "subscribe": ("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
    "task": ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"),
}
"""The hooks of a `Middleware`, with the requests that each one wraps."""
OPERATION_OF: Final = {method: name for name, methods in OPERATIONS.items() for method in methods}
_NAMED: Final = frozenset({"tools/call", "prompts/get"})
_ADDRESSED: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


Kind = Literal["tool", "prompt", "resource", "template", "other"]


class Component(Struct, frozen=True):
    """A tool, prompt or resource with its canonical name, however the client wrote it."""

    name: str
    """Its name without a version; of a resource its URI."""
    kind: Kind = "other"
    version: str | None = None
    tags: frozenset[str] = frozenset()
    origin: str = ""
    """Where it comes from: empty for the server itself, otherwise the mounted server."""
    aliases: frozenset[str] = frozenset()
    """Other names of the component: the name that clients see, and the name with its version."""
    definition: Any = None
    """The `Tool`, `Prompt` or `Resource`, if this process has it."""

    def is_named(self, matches: Callable[[str], bool]) -> bool:
        """Whether one of its names matches."""
        return matches(self.name) or any(matches(alias) for alias in self.aliases)


class Request(Struct, eq=False):
    """One request in the chain."""

    call: Call
    channel: Channel
    name: str = ""
    """Canonical name of the component: of a tool or prompt without its version, of a resource its URI."""
    find: Callable[[Request], Component] | None = None
    """Looks up the component; `component` calls it."""
    run: Next | None = None
    """Executes this request instead of the service's handler."""
    becomes_task: bool = False
    """The call becomes a task once the chain has admitted it."""
    resumed: bool = False
    """Another process has run the chain for this call already.

    Rate limits and approvals are not checked again.
    """
    repeated: bool = False
    """The task of this call exists already, from an earlier attempt. Approvals are not checked again."""
    task: Any = None
    """The task that runs this call: see `on_task`."""

    @property
    def method(self) -> str:
        """The MCP method."""
        return self.call.method

    @property
    def operation(self) -> str:
        """The name of the hook that wraps it; the method without a hook."""
        return OPERATION_OF.get(self.call.method, self.call.method)

    @property
    def component(self) -> Component:
        """The component of the request. Its name is empty for requests without a component."""
        return Component(self.name) if self.find is None else self.find(self)

    @property
    def params(self) -> Any:
        """The decoded params."""
        return self.call.params

    @property
    def arguments(self) -> Any:
        """The arguments of a tool or prompt as plain data; UNSET without arguments, or if they are not JSON.

        Strings for a tool of this process are coerced to their declared types, as before the handler runs.
        """
        if self.call.method not in _NAMED:
            return UNSET
        given = self.call.params.arguments
        try:
            found = msgspec.json.decode(given) if isinstance(given, Raw) else given
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return UNSET
        definition = self.component.definition
        from ..json_schema.coercion import coerce  # most middleware reads no arguments

        return coerce(found, definition.input_schema)[0] if isinstance(definition, Tool) else found

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` of the request."""
        return self.call.meta

    @property
    def principal(self) -> Principal | None:
        """The caller."""
        return self.call.principal

    @property
    def session(self) -> Session | None:
        """The legacy session of the request."""
        return self.call.session

    @property
    def transport(self) -> str:
        """The transport: "http", "stdio", …; empty if unknown."""
        return self.call.scope.get("transport", "")

    @property
    def revision(self) -> str:
        """The protocol revision of the peer."""
        return self.call.revision.name

    def with_arguments(self, arguments: Mapping[str, Any]) -> Request:
        """Copy this request with other arguments."""
        raw = Raw(msgspec.json.encode(arguments)) if self.call.method == "tools/call" else dict(arguments)
        return replace(self, call=self.call.with_params(replace(self.call.params, arguments=raw)))

    def on_task(self, begun: Callable[[str], None]) -> None:
        """Call ``begun`` with the task id when this call becomes a task; at once if it is one already."""
        if self.task is not None:
            self.task.on_begin(begun)


Next = Callable[[Request], Awaitable[Struct | Raw]]
"""The rest of the chain."""
Wrapper = Callable[[Next], Next]


class Middleware:
    """Base class of middleware. Override the hooks you need; other requests are not slowed down.

    ```python
    class Curfew(Middleware):
        async def call_tool(self, request, call_next):
            if datetime.now().hour >= 22 and "night" not in request.component.tags:
                raise Refusal(1008, hint="the service is closed until the morning")
            return await call_next(request)
    ```

    ``call_next`` is the rest of the chain. Await it with the request (or with another one), return a result,
    or raise a `DovetailError`. ``message`` wraps every request, outside the hook of its operation.
    ``notification`` receives notifications and must not block. `attach` is called with the server or client
    before the first request.
    """

    observes: bool = False
    """The middleware changes nothing. A client then also runs it around forwarded requests."""

    guards_names: bool = False
    """`call_tool` also guards tools that stand for another request, such as ``read_resource``, by their names."""

    def attach(self, service: Any) -> None:
        """Prepare to run around ``service``: a `Server`, or the calls of a client."""

    def admits(self, component: Component) -> bool:
        """Whether ``component`` may be used.

        If not, it is left out of lists, here and in servers that mount this one.
        """
        return True

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        """Yield metrics: name, labels and current value."""
        return ()

    def stopped(self) -> None:
        """Release resources such as files. Called when the server has stopped; it may start again."""

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap any request."""
        return await call_next(request)

    async def initialize(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``initialize``, which starts a legacy session."""
        return await call_next(request)

    async def discover(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``server/discover``."""
        return await call_next(request)

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``tools/call``, and every other method that calls a tool."""
        return await call_next(request)

    async def list_tools(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``tools/list``, one page. The pages of a server are `Raw`."""
        return await call_next(request)

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``resources/read``."""
        return await call_next(request)

    async def list_resources(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``resources/list`` and ``resources/templates/list``, one page."""
        return await call_next(request)

    async def get_prompt(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``prompts/get``."""
        return await call_next(request)

    async def list_prompts(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``prompts/list``, one page."""
        return await call_next(request)

    async def complete(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``completion/complete``."""
        return await call_next(request)

    async def subscribe(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``resources/subscribe``, ``resources/unsubscribe`` and ``subscriptions/listen``."""
        return await call_next(request)

    async def task(self, request: Request, call_next: Next) -> Struct | Raw:
        """Wrap ``tasks/get``, ``tasks/result`` and the other methods of existing tasks."""
        return await call_next(request)

    def notification(self, notice: Notice, call_next: ReceiveNotification) -> None:
        """Wrap a notification."""
        call_next(notice)

    @property
    def blocked_addresses(self) -> Mapping[str, Any]:
        """Blocked client addresses; always the same mapping.

        While it is not empty, `check_address` is called.
        """
        return EMPTY

    async def check_address(self, address: str) -> DovetailError | None:
        """Return the refusal for ``address``, or None to serve it.

        Called over HTTP before a message is read.
        """

    def wrap(self, call_next: Next) -> Next:
        """Wrap ``call_next`` with this middleware. Override it if a hook per operation is too slow."""
        hooks = {
            method: cast("Callable[..., Awaitable[Struct | Raw]]", getattr(self, name))
            for name, methods in OPERATIONS.items()
            if getattr(type(self), name) is not getattr(Middleware, name)
            for method in methods
        }
        if hooks:
            call_next = _by_operation(hooks, call_next)
        if type(self).message is not Middleware.message:
            call_next = _wrap_all(self.message, call_next)
        return call_next

    def wrap_notifications(self, receive_notification: ReceiveNotification) -> ReceiveNotification:
        """Wrap ``receive_notification`` with this middleware."""
        if type(self).notification is Middleware.notification:
            return receive_notification

        def noted(notice: Notice) -> None:
            try:
                self.notification(notice, receive_notification)
            except KeyboardInterrupt:
                raise
            except BaseException:
                log.exception(
                    "middleware failed notification=%s middleware=%s", notice.method, type(self).__name__
                )

        return noted


def subject_of(call: Call) -> str:
    """Return the tool, prompt or resource that a call names; empty for other calls."""
    params = call.params
    if call.method in _NAMED:
        return params.name[:NAME_ECHO]
    return params.uri[:NAME_ECHO] if call.method == "resources/read" else ""


def tool_standing_for(call: Call) -> str | None:
    """Return the tool that the client called, such as ``read_resource``, for the request that the call became.

    None for every other request, also for ``tools/call`` itself. Check ``call.source`` first where speed matters.
    """
    source = None if call.method == "tools/call" else call.source
    while source is not None and source.method != "tools/call":
        source = source.source
    return None if source is None else source.params.name


def name_in(call: Call) -> str:
    """Return the name or URI in the params of a call as the client wrote it; empty without one."""
    if call.method in _NAMED:
        return getattr(call.params, "name", "")  # a client may send params of another shape
    if call.method == "completion/complete":
        ref = call.params.ref
        return ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name
    return getattr(call.params, "uri", "") if call.method in _ADDRESSED else ""


def _by_operation(hooks: dict[str, Callable[..., Awaitable[Struct | Raw]]], inner: Next) -> Next:
    def run(request: Request) -> Awaitable[Struct | Raw]:
        hook = hooks.get(request.call.method)
        return inner(request) if hook is None else hook(request, inner)

    return run


def _wrap_all(message: Callable[..., Awaitable[Struct | Raw]], inner: Next) -> Next:
    return lambda request: message(request, inner)


def compose(middleware: Sequence[Middleware | Wrapper], execute: Next) -> Next:
    """Build the chain: ``execute`` wrapped by ``middleware``, the first one outermost."""
    for each in reversed(middleware):
        execute = each.wrap(execute) if isinstance(each, Middleware) else each(execute)
    return execute


def admission_of(service: Any) -> Admission:
    """The admission of a `Server` or of a client's calls, for `Middleware.attach`."""
    return getattr(service, "dispatcher", service).admission


def attach(middleware: Sequence[Middleware | Wrapper], service: Any) -> None:
    """Call `Middleware.attach` of each middleware with the service.

    Raises:
        TypeError: one of them is not a middleware.
    """
    for each in reversed(middleware):
        if isinstance(each, Middleware):
            each.attach(service)
        elif isinstance(each, type) or not callable(each):
            raise TypeError(
                f"middleware must be a Middleware instance or a function of call_next, not {each!r}"
            )


def address_checks(
    middleware: Sequence[Middleware | Wrapper],
) -> list[tuple[Mapping[str, Any], AddressCheck]]:
    """Return the address checks of all middleware, each with its table of blocked addresses."""
    found = (each for each in middleware if isinstance(each, Middleware))
    return [
        (one.blocked_addresses, one.check_address)
        for one in found
        if type(one).check_address is not Middleware.check_address
    ]


def compose_notifications(
    middleware: Sequence[Middleware | Wrapper], receive_notification: ReceiveNotification
) -> ReceiveNotification:
    """Build the notification chain: ``receive_notification`` wrapped by the middleware that handles
    notifications."""
    for each in reversed(middleware):
        if isinstance(each, Middleware):
            receive_notification = each.wrap_notifications(receive_notification)
    return receive_notification


def component_check(middleware: Sequence[Middleware | Wrapper]) -> Callable[[Component], bool] | None:
    """Return the check whether a component may be used, or None if every component may."""
    found = [each for each in middleware if isinstance(each, Middleware)]
    asked = [each.admits for each in found if type(each).admits is not Middleware.admits]
    return partial(_all_admit, asked) if asked else None


def _all_admit(asked: Sequence[Callable[[Component], bool]], component: Component) -> bool:
    return all(admits(component) for admits in asked)
