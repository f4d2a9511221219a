"""Middleware: what runs around every call of a server or a client, put together once.

The chain is one function: the first middleware written is the outermost, the last `Next` executes the request. A server
resolves what the client wrote before the chain runs, so every middleware sees one canonical component. A call that runs
as a task runs inside the chain too: the client gets the task when the chain has let the call through, and the
task's result when it has passed the chain on its way back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import EMPTY, Call, Channel, Notice, Session
from ..core.principal import Principal
from ..errors import DovetailError
from ..json_schema.coercion import coerce
from ..model import ResourceTemplateReference, Tool
from ..settings import NAME_ECHO

log = logging.getLogger("dovetail")

Respond = Callable[[Call, Channel], Awaitable[Struct | Raw]]
"""Answers a call; ``Server.respond`` is one."""
ReceiveNotification = Callable[[Notice], None]
"""Takes note of a notification; ``Server.receive_notification`` is one."""
Door = Callable[[str], Awaitable[DovetailError | None]]

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
"""The hooks of a `Middleware`, and the requests each of them runs around."""
OPERATION_OF: Final = {method: name for name, methods in OPERATIONS.items() for method in methods}
_NAMED: Final = frozenset({"tools/call", "prompts/get"})
_ADDRESSED: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


Kind = Literal["tool", "prompt", "resource", "template", "other"]


class Component(Struct, frozen=True):
    """A tool, prompt or resource as a server knows it, however a client wrote it."""

    name: str
    """Its name without a version; of a resource its URI."""
    kind: Kind = "other"
    version: str | None = None
    tags: frozenset[str] = frozenset()
    origin: str = ""
    """The server that has it: empty for the one that was asked, otherwise what is mounted there."""
    aliases: frozenset[str] = frozenset()
    """Other names it is known by: the one that clients see, the one with its version."""
    definition: Any = None
    """The `Tool`, `Prompt` or `Resource`, where this process has it."""

    def is_named(self, matches: Callable[[str], bool]) -> bool:
        """Whether one of its names matches."""
        return matches(self.name) or any(matches(alias) for alias in self.aliases)


class Request(Struct, eq=False):
    """One request on its way through the chain."""

    call: Call
    channel: Channel
    name: str = ""
    """The canonical name of the component: of a tool or prompt without its version, of a resource its URI."""
    find: Callable[[Request], Component] | None = None
    """Describes the component; `component` calls it."""
    run: Next | None = None
    """Executes this request instead of the service's own handler."""
    becomes_task: bool = False
    """The call becomes a task when the chain has let it through."""
    resumed: bool = False
    """Another process has let this call through its chain. Rates and approvals are not asked for again."""
    repeated: bool = False
    """The task of this call exists already, from an earlier try. Approvals are not asked for again."""
    task: Any = None
    """What runs this call as a task: see `on_task`."""

    @property
    def method(self) -> str:
        """The method of the protocol."""
        return self.call.method

    @property
    def operation(self) -> str:
        """The hook that runs around it; its method, if there is none."""
        return OPERATION_OF.get(self.call.method, self.call.method)

    @property
    def component(self) -> Component:
        """What the request is about; a component without a name for requests that are about none."""
        return Component(self.name) if self.find is None else self.find(self)

    @property
    def params(self) -> Any:
        """The params as the protocol has them."""
        return self.call.params

    @property
    def arguments(self) -> Any:
        """The arguments of a tool or prompt as plain data; UNSET where there are none, or where they are not JSON.

        Texts of a tool that this process has are coerced to their declared types, as before the handler runs.
        """
        if self.call.method not in _NAMED:
            return UNSET
        given = self.call.params.arguments
        try:
            found = msgspec.json.decode(given) if isinstance(given, Raw) else given
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return UNSET
        definition = self.component.definition
        return coerce(found, definition.input_schema)[0] if isinstance(definition, Tool) else found

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` of the request."""
        return self.call.meta

    @property
    def principal(self) -> Principal | None:
        """Who calls."""
        return self.call.principal

    @property
    def session(self) -> Session | None:
        """The legacy session the request came in."""
        return self.call.session

    @property
    def transport(self) -> str:
        """How it came: "http", "stdio", …; empty where the transport does not say."""
        return self.call.scope.get("transport", "")

    @property
    def revision(self) -> str:
        """The protocol revision that is spoken."""
        return self.call.revision.name

    def with_arguments(self, arguments: Mapping[str, Any]) -> Request:
        """This request with other arguments."""
        raw = Raw(msgspec.json.encode(arguments)) if self.call.method == "tools/call" else dict(arguments)
        return replace(self, call=self.call.with_params(replace(self.call.params, arguments=raw)))

    def on_task(self, begun: Callable[[str], None]) -> None:
        """Call ``begun`` with the id of the task when this call becomes one; at once, if it is one already."""
        if self.task is not None:
            self.task.on_begin(begun)


Next = Callable[[Request], Awaitable[Struct | Raw]]
"""The rest of the chain."""
Wrapper = Callable[[Next], Next]


class Middleware:
    """Inherit it and write the hooks you need; requests without a hook of yours are not slowed down.

    ```python
    class Curfew(Middleware):
        async def call_tool(self, request, call_next):
            if datetime.now().hour >= 22 and "night" not in request.component.tags:
                raise Refusal(1008, hint="we are closed until the morning")
            return await call_next(request)
    ```

    ``call_next`` is the rest of the chain: await it with the request (or with another one), or answer yourself, or
    raise a `DovetailError`. ``message`` runs around every request, before the hook of its operation. ``notification``
    gets what is not answered, and does not wait. `attach` is called with the server or client before the first request.
    """

    observes: bool = False
    """It changes nothing: a client has it also around what it passes on for others."""

    def attach(self, service: Any) -> None:
        """This middleware is about to run around ``service``: a `Server`, or the client's calls."""

    def admits(self, component: Component) -> bool:
        """Whether ``component`` may be used at all. What may not is left out of lists, here and where it is mounted."""
        return True

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        """Numbers for the metrics: the name of a metric, its labels, its value now."""
        return ()

    def stopped(self) -> None:
        """The server has stopped: close files and the like. It may start again."""

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        """Any request at all."""
        return await call_next(request)

    async def initialize(self, request: Request, call_next: Next) -> Struct | Raw:
        """``initialize``, with which a legacy session begins."""
        return await call_next(request)

    async def discover(self, request: Request, call_next: Next) -> Struct | Raw:
        """``server/discover``."""
        return await call_next(request)

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        """``tools/call``, and everything else that calls a tool."""
        return await call_next(request)

    async def list_tools(self, request: Request, call_next: Next) -> Struct | Raw:
        """``tools/list``, one page. A server's own pages are `Raw`."""
        return await call_next(request)

    async def read_resource(self, request: Request, call_next: Next) -> Struct | Raw:
        """``resources/read``."""
        return await call_next(request)

    async def list_resources(self, request: Request, call_next: Next) -> Struct | Raw:
        """``resources/list`` and ``resources/templates/list``, one page."""
        return await call_next(request)

    async def get_prompt(self, request: Request, call_next: Next) -> Struct | Raw:
        """``prompts/get``."""
        return await call_next(request)

    async def list_prompts(self, request: Request, call_next: Next) -> Struct | Raw:
        """``prompts/list``, one page."""
        return await call_next(request)

    async def complete(self, request: Request, call_next: Next) -> Struct | Raw:
        """``completion/complete``."""
        return await call_next(request)

    async def subscribe(self, request: Request, call_next: Next) -> Struct | Raw:
        """``resources/subscribe``, ``resources/unsubscribe`` and ``subscriptions/listen``."""
        return await call_next(request)

    async def task(self, request: Request, call_next: Next) -> Struct | Raw:
        """``tasks/get``, ``tasks/result`` and the other methods of tasks that exist already."""
        return await call_next(request)

    def notification(self, notice: Notice, call_next: ReceiveNotification) -> None:
        """A notification."""
        call_next(notice)

    @property
    def shut(self) -> Mapping[str, Any]:
        """Addresses that are not served, always the same table; while it has any, `at_the_door` is asked."""
        return EMPTY

    async def at_the_door(self, address: str) -> DovetailError | None:
        """Why ``address`` is not served now; None to serve it. Asked over HTTP before a message is read."""

    def wrap(self, call_next: Next) -> Next:
        """The chain with this middleware around ``call_next``. Override it where a hook per operation is too slow."""
        hooks = {
            method: cast("Callable[..., Awaitable[Struct | Raw]]", getattr(self, name))
            for name, methods in OPERATIONS.items()
            if getattr(type(self), name) is not getattr(Middleware, name)
            for method in methods
        }
        if hooks:
            call_next = _by_operation(hooks, call_next)
        if type(self).message is not Middleware.message:
            call_next = _around(self.message, call_next)
        return call_next

    def wrap_notes(self, receive_notification: ReceiveNotification) -> ReceiveNotification:
        """What receives notifications in place of ``receive_notification``."""
        if type(self).notification is Middleware.notification:
            return receive_notification

        def noted(notice: Notice) -> None:
            try:
                self.notification(notice, receive_notification)
            except Exception:
                log.exception("the middleware %s failed on %s", type(self).__name__, notice.method)

        return noted


def subject_of(call: Call) -> str:
    """The tool, prompt or resource a call names; empty for all others."""
    params = call.params
    if call.method in _NAMED:
        return params.name[:NAME_ECHO]
    return params.uri[:NAME_ECHO] if call.method == "resources/read" else ""


def name_in(call: Call) -> str:
    """The name or URI that a call is about, as it is written in its params; empty where it names none."""
    if call.method in _NAMED:
        return getattr(call.params, "name", "")  # a client may send a method's params in a form of its own
    if call.method == "completion/complete":
        ref = call.params.ref
        return ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name
    return getattr(call.params, "uri", "") if call.method in _ADDRESSED else ""


def _by_operation(hooks: dict[str, Callable[..., Awaitable[Struct | Raw]]], inner: Next) -> Next:
    def run(request: Request) -> Awaitable[Struct | Raw]:
        hook = hooks.get(request.call.method)
        return inner(request) if hook is None else hook(request, inner)

    return run


def _around(message: Callable[..., Awaitable[Struct | Raw]], inner: Next) -> Next:
    return lambda request: message(request, inner)


def compose(middleware: Sequence[Middleware | Wrapper], execute: Next) -> Next:
    """``execute`` with ``middleware`` around it, the first one outermost."""
    for each in reversed(middleware):
        execute = each.wrap(execute) if isinstance(each, Middleware) else each(execute)
    return execute


def attach(middleware: Sequence[Middleware | Wrapper], service: Any) -> None:
    """Tell each middleware what it is about to run around.

    Raises:
        TypeError: one of them is no middleware.
    """
    for each in reversed(middleware):
        if isinstance(each, Middleware):
            each.attach(service)
        elif isinstance(each, type) or not callable(each):
            raise TypeError(f"a middleware is a Middleware or a function around call_next, not {each!r}")


def doors(middleware: Sequence[Middleware | Wrapper]) -> list[tuple[Mapping[str, Any], Door]]:
    """Whom to ask about an address before anything is read from it, and whether there is anything to ask."""
    found = (each for each in middleware if isinstance(each, Middleware))
    return [
        (one.shut, one.at_the_door) for one in found if type(one).at_the_door is not Middleware.at_the_door
    ]


def compose_notes(
    middleware: Sequence[Middleware | Wrapper], receive_notification: ReceiveNotification
) -> ReceiveNotification:
    """``receive_notification`` with those of ``middleware`` around it that care for notifications."""
    for each in reversed(middleware):
        if isinstance(each, Middleware):
            receive_notification = each.wrap_notes(receive_notification)
    return receive_notification


def admitting(middleware: Sequence[Middleware | Wrapper]) -> Callable[[Component], bool] | None:
    """What decides whether a component may be used at all; None where every one may."""
    found = [each for each in middleware if isinstance(each, Middleware)]
    asked = [each.admits for each in found if type(each).admits is not Middleware.admits]
    return partial(_all_admit, asked) if asked else None


def _all_admit(asked: Sequence[Callable[[Component], bool]], component: Component) -> bool:
    return all(admits(component) for admits in asked)
