"""A server of ours that is answered for by handlers of SDK 1.x: one per low-level `Server`.

Transports, revisions, sessions, tokens and layers are ours. A request that was admitted becomes the pydantic model that
the handler expects, and what the handler returns becomes a result of ours, so that older revisions are spared what
they do not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from pydantic import BaseModel

from .....core.channel import Call, Channel, Notice
from .....drivers.run import from_outside
from .....errors import DovetailError, ProtocolError, kind_of_code
from .....model import ServerCapabilities
from .....server import Context, Server
from .....server.asking.ask import CannotAsk, LegacyAsking, asking_for
from .....server.failures import missing_capability
from .....wire.methods import METHODS
from .... import serving
from ... import types
from ...shared.context import RequestContext
from ...shared.exceptions import McpError
from ..session import Unasked, current, session_of
from .handlers import Handler

if TYPE_CHECKING:
    from .....server.tasks.task_channel import TaskChannel
    from .....server.tasks.task_methods import TaskMethods
    from .server import Server as LowLevel

request_ctx: ContextVar[RequestContext[Any, Any, Any]] = ContextVar("request_ctx")
"""The request that is being served here."""

task_id: ContextVar[str | None] = ContextVar("task_id", default=None)
"""The task that what is done here is the work of."""

task_work: ContextVar[Callable[[], Awaitable[Any]] | None] = ContextVar("task_work", default=None)
"""What is to be done once the handler here has returned a task."""

REQUESTS: Final[Mapping[str, str]] = {
    "tools/list": "ListToolsRequest",
    "tools/call": "CallToolRequest",
    "resources/list": "ListResourcesRequest",
    "resources/templates/list": "ListResourceTemplatesRequest",
    "resources/read": "ReadResourceRequest",
    "resources/subscribe": "SubscribeRequest",
    "resources/unsubscribe": "UnsubscribeRequest",
    "prompts/list": "ListPromptsRequest",
    "prompts/get": "GetPromptRequest",
    "completion/complete": "CompleteRequest",
    "logging/setLevel": "SetLevelRequest",
}
"""The requests that handlers may be registered for, by the names of their types: most are never looked at."""
NOTIFICATIONS: Final[Mapping[str, str]] = {
    "notifications/progress": "ProgressNotification",
    "notifications/cancelled": "CancelledNotification",
    "notifications/initialized": "InitializedNotification",
    "notifications/roots/list_changed": "RootsListChangedNotification",
}
_OURS: Final = ("inputResponses", "requestState")
"""Members of params that belong to the rounds of 2026-07-28, not to the handler."""
_TASKS: Final = {"tasks", "extensions"}
"""What a server that runs tasks declares, on 2025-11-25 and on 2026-07-28."""
_PLAIN: Final = {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
"""Methods that change something of ours beside what the handler does."""


class LazyRequestContext(RequestContext[Any, Any, Any]):
    """A `RequestContext` of which only the parts are made that a handler looks at."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        make = _PARTS.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = vars(self)[name] = make(self._context)
        return value


def http_request(context: Context) -> Any:
    """The HTTP request that carried this call, as Starlette's; None on other transports."""
    scope = context.scope
    if scope.get("headers") is None:
        return None
    from starlette.requests import Request  # whoever looks at requests has it

    if scope.get("type") in ("http", "websocket"):
        return Request({"method": "GET", **scope, "type": "http"})  # a WebSocket begins with a GET
    raw = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in scope["headers"].items()
    ]
    client = scope.get("client")
    return Request(
        {
            "type": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"",
            "root_path": "", "scheme": "http", "headers": raw, "state": {}, "server": None, "http_version": "1.1",
            "client": (client, 0) if isinstance(client, str) else client,
        }
    )  # fmt: skip


def _meta(context: Context) -> types.RequestParams.Meta | None:
    meta = context.meta
    return types.RequestParams.Meta.model_validate(dict(meta)) if meta else None


def _experimental(context: Context) -> Any:
    from ..experimental.request_context import Experimental  # few handlers look at tasks

    return Experimental(context)


_PARTS: Final[Mapping[str, Callable[[Context], Any]]] = {
    "request_id": lambda context: context.request_id,
    "meta": _meta,
    "session": session_of,
    "lifespan_context": lambda context: context.lifespan if context.lifespan is not None else {},
    "experimental": _experimental,
    "request": http_request,
    "close_sse_stream": lambda context: context.close_stream,
    "close_standalone_sse_stream": lambda context: None,
}


class Bridge(Server):
    """Answers with the handlers of ``front``."""

    def __init__(self, front: LowLevel[Any, Any], options: Mapping[str, Any]) -> None:
        super().__init__(**options)
        self.front = front
        self._own = dict(self.methods)
        self._notes: set[asyncio.Task[None]] = set()
        self.plain_call: Callable[[Call, Channel], Awaitable[Struct | Raw]] = partial(
            self.answer, "tools/call"
        )
        """Answers ``tools/call``, also within a task."""
        self.make_tasks: Callable[[], TaskMethods] | None = None
        """Set where tools may run as tasks."""
        for method in REQUESTS:
            self.methods[method] = partial(self.answer, method)
        self.methods["subscriptions/listen"] = self.listen

    def declare(self, capabilities: dict[str, Any]) -> None:
        """Offer exactly this."""
        told = ServerCapabilities(capabilities)
        kinds = self.front.handled
        handled = {method.partition("/")[0] for method, kind in REQUESTS.items() if kind in kinds}
        for name in ("tools", "resources", "prompts"):
            if name in handled:
                told.setdefault(name, {})  # without a list they are called all the same
        if "resources" in told:
            told["resources"]["subscribe"] = "SubscribeRequest" in kinds
        if not told.get("experimental"):
            told.pop("experimental", None)
        for name in _TASKS & self.capabilities.keys() if self.tasks is not None else ():
            told[name] = self.capabilities[name]
        self.capabilities = told
        self.admission.offer(told)

    def enable_tasks(self) -> None:
        """Serve the methods of tasks from now on."""
        if self.tasks is None and self.make_tasks is not None:
            self.tasks = self.make_tasks()
            self.tasks.install()

    async def call_tool(self, call: Call, channel: Channel) -> Struct | Raw:
        return await self.plain_call(call, channel)

    async def run_task(self, call: Call, channel: Channel) -> Struct | Raw:
        token = task_id.set(cast("TaskChannel", channel).task_id)
        try:
            return await self.plain_call(call, channel)
        finally:
            task_id.reset(token)

    async def answer(self, method: str, call: Call, channel: Channel) -> Struct | Raw:
        """Have the handler of ``method`` answer."""
        handler = self.front.request_handlers.by_name.get(REQUESTS[method])
        if handler is None:
            raise ProtocolError("method_not_found", "Method not found")
        kind: Any = getattr(types, REQUESTS[method])
        wire: Any = msgspec.json.decode(msgspec.json.encode(call.params))
        for name in _OURS:
            wire.pop(name, None)
        request = kind.model_validate({"method": method, "params": wire})
        value = await self.run_handler(handler, request, call, channel)
        if isinstance(value, Struct):
            return value
        if method in _PLAIN:
            return await self._own[method](call, channel)
        data = value.model_dump_json(by_alias=True, exclude_none=True)
        return msgspec.json.decode(data, type=METHODS[method].result)

    async def run_handler(self, handler: Handler, request: Any, call: Call, channel: Channel) -> Any:
        """What the handler returned, or the `InputRequiredResult` that asks for it.

        Raises:
            DovetailError: it failed.
        """
        # Only some requests may be asked back on 2026-07-28; elsewhere a question finds that there is no way.
        asks = not call.revision.modern or METHODS[call.method].may_ask
        asking = asking_for(self, call, channel) if asks else LegacyAsking(self, call, channel)
        context = Context(self, call, channel, asking)
        before, token = current.set(context), request_ctx.set(LazyRequestContext(context))
        try:
            value = await handler(request)
            if asking.open:
                return asking.result()
            return value.root if isinstance(value, types.ServerResult) else value
        except BaseException as error:
            if from_outside(error, call) and not asking.open:
                raise
            if asking.open and not call.cancelled and not isinstance(error, asyncio.CancelledError):
                return asking.result()
            raise failure(self, error, call) from None
        finally:
            context.close()
            request_ctx.reset(token)
            current.reset(before)

    async def listen(self, call: Call, channel: Channel) -> Struct | Raw:
        """Subscriptions of 2026-07-28: the handlers hear of them as of those before."""
        uris = call.params.notifications.resource_subscriptions
        watched: list[str] = [] if uris is UNSET else list(uris)
        await self._subscribe("SubscribeRequest", watched, call, channel)
        try:
            return await self._own["subscriptions/listen"](call, channel)
        finally:
            await self._subscribe("UnsubscribeRequest", watched, call, channel)

    async def _subscribe(self, name: str, uris: list[str], call: Call, channel: Channel) -> None:
        handler = self.front.request_handlers.by_name.get(name)
        if handler is not None:
            kind: Any = getattr(types, name)
            for uri in uris:
                await self.run_handler(handler, kind.model_validate({"params": {"uri": uri}}), call, channel)

    def take_note(self, notice: Notice) -> None:
        """Give notifications to the handlers that were registered for them."""
        name = NOTIFICATIONS.get(notice.method)
        # Without handlers there is no need to know the types.
        kind: Any = getattr(types, name) if name is not None and self.front.hears else None
        handler = None if kind is None else self.front.notification_handler(kind)
        if kind is None or handler is None:
            super().take_note(notice)
            return
        params: Any = (
            None if notice.params is None else msgspec.json.decode(msgspec.json.encode(notice.params))
        )
        note = kind.model_validate({"method": notice.method, "params": params})
        task = asyncio.get_running_loop().create_task(_noted(handler, note))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)


def plain(value: Any) -> Any:
    """Capabilities as they are written; `model_dump` would build a serializer for each of their models."""
    if isinstance(value, BaseModel):
        return {name: plain(one) for name, one in value if one is not None}
    return value


async def _noted(handler: Handler, note: Any) -> None:
    try:
        await handler(note)
    except Exception:  # noqa: BLE001  a notification has nobody to tell
        serving.log.exception("the handler of %s failed", note.method)


def failure(server: Server, error: BaseException, call: Call) -> DovetailError:
    """The error that a client gets for what a handler raised."""
    if isinstance(error, DovetailError):
        return error
    if isinstance(error, Unasked) and call.revision.modern and isinstance(error.cause, CannotAsk):
        return missing_capability(error.cause)
    if isinstance(error, McpError):
        given = error.error
        kind = kind_of_code(given.code, modern=call.revision.modern)
        return ProtocolError(
            kind, given.message, code=given.code, data=UNSET if given.data is None else given.data
        )
    if serving.strict():
        try:
            server.failures.raise_other(error, call.method, call)
        except DovetailError as masked:
            return masked
    serving.log.debug("%s failed", call.method, exc_info=error)
    return ProtocolError("internal_error", str(error), code=0)
