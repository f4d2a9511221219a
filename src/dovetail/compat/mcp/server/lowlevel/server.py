"""The low-level `Server` of SDK 1.x: a handler per method, registered with a decorator."""

from __future__ import annotations

import base64
import inspect
import typing
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, cast

import msgspec
from typing_extensions import TypeVar

from .....model import Icon
from .....server import Server as Native
from .... import serving
from ....hook import installed
from ....serving import Served
from ... import types
from ...shared.context import RequestContext
from ..session import ServerSession
from .bridge import Bridge, plain, request_ctx
from .handlers import Handler, Handlers
from .helper_types import ReadResourceContents
from .tool_calls import ToolCall

if TYPE_CHECKING:
    from pydantic import AnyUrl

    from ..models import InitializationOptions

LifespanResultT = TypeVar("LifespanResultT", default=Any)
RequestT = TypeVar("RequestT", default=Any)
F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

_TEXT: Final = "text/plain"
_BINARY: Final = "application/octet-stream"
_OFFERED: Final = {
    "ListPromptsRequest": "prompts",
    "ListResourcesRequest": "resources",
    "ListToolsRequest": "tools",
    "SetLevelRequest": "logging",
    "CompleteRequest": "completions",
}
"""What a server offers, by the request that it then has a handler for."""


class NotificationOptions:
    """Which lists may change while a session lasts."""

    def __init__(
        self, prompts_changed: bool = False, resources_changed: bool = False, tools_changed: bool = False
    ) -> None:
        self.prompts_changed = prompts_changed
        self.resources_changed = resources_changed
        self.tools_changed = tools_changed


@asynccontextmanager
async def lifespan(_: Any) -> AsyncGenerator[dict[str, Any], None]:
    """The lifespan of a server that needs none."""
    yield {}


class Server(Served, Generic[LifespanResultT, RequestT]):
    """A server made of handlers. `native` is the server of ours that carries it."""

    def __init__(
        self, name: str, version: str | None = None, instructions: str | None = None,
        website_url: str | None = None, icons: list[types.Icon] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] = lifespan,
    ) -> None:  # fmt: skip
        self.name = name
        self.version = version
        self.instructions = instructions
        self.website_url = website_url
        self.icons = icons
        self.lifespan = lifespan
        self._handlers = Handlers()
        self._handlers.by_name["PingRequest"] = _pong
        self.notification_handlers: dict[type, Handler] = {}
        self.notification_options = NotificationOptions()
        self._tool_cache: dict[str, types.Tool] = {}
        self._native: Bridge | None = None
        self.with_tasks: Callable[[Bridge], None] | None = None
        """Set by `enable_tasks`."""
        self.event_history: Any = None
        """The program's own place for events."""
        serving.servers.add(self)

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def native(self) -> Native:
        """The server of ours, made when it is first served: by then all that it says about itself is known."""
        return self.bridge()

    def bridge(self, options: InitializationOptions | None = None) -> Bridge:
        """As `native`, with what ``options`` say about it."""
        if options is None and not self._describes_itself():
            options = self.create_initialization_options()
        if self._native is None:
            self._native = Bridge(self, self._about(options or self))
            self._native.event_history = self.event_history
        if self.with_tasks is not None:
            self.with_tasks(self._native)
        self._native.declare(
            self._offers(self.notification_options) if options is None else plain(options.capabilities)
        )
        return self._native

    def _describes_itself(self) -> bool:
        """Nobody has replaced what says what this server is: no types have to be made to ask it."""
        return all(
            name not in vars(self) and getattr(type(self), name) is own for name, own in _DESCRIBES.items()
        )

    def _about(self, told: Any) -> dict[str, Any]:
        """Options of ours, from options of theirs or from the server itself."""
        icons = [icon.model_dump(by_alias=True, exclude_none=True) for icon in told.icons or ()]
        own = told is self
        return {
            "name": self.name if own else told.server_name,
            "version": (self.version or _library_version()) if own else told.server_version,
            "instructions": told.instructions,
            "website_url": told.website_url,
            "icons": msgspec.convert(icons, list[Icon]) or None,
            "lifespan": None if self.lifespan is lifespan else self._live,
        }

    @cached_property
    def experimental(self) -> Any:
        """Tasks."""
        from .experimental import ExperimentalHandlers  # few servers have them

        return ExperimentalHandlers(self)

    @asynccontextmanager
    async def _live(self, native: Native) -> AsyncGenerator[Any, None]:
        async with self.lifespan(self) as value:
            serving.look_again(native)
            yield value

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What this server says about itself when a session begins."""
        from ..models import InitializationOptions  # known to whoever calls this

        return InitializationOptions.model_construct(
            server_name=self.name,
            server_version=self.version or _library_version(),
            capabilities=self.get_capabilities(
                notification_options or self.notification_options, experimental_capabilities or {}
            ),
            instructions=self.instructions,
            website_url=self.website_url,
            icons=self.icons,
        )

    def get_capabilities(
        self, notification_options: NotificationOptions, experimental_capabilities: dict[str, dict[str, Any]]
    ) -> types.ServerCapabilities:
        """What there are handlers for; nothing of it has to be validated, so no validator is built for it."""
        offers = self._offers(notification_options)
        found: dict[str, Any] = {
            name: getattr(types, f"{name.capitalize()}Capability").model_construct(**told)
            for name, told in offers.items()
        }
        return types.ServerCapabilities.model_construct(
            **{**dict.fromkeys(_OFFERED.values()), **found}, experimental=experimental_capabilities
        )

    def _offers(self, changed: NotificationOptions) -> dict[str, dict[str, Any]]:
        """What there are handlers for, as it is written."""
        said: dict[str, dict[str, Any]] = {
            "prompts": {"listChanged": changed.prompts_changed},
            "resources": {"subscribe": False, "listChanged": changed.resources_changed},
            "tools": {"listChanged": changed.tools_changed},
        }
        handled = self.handled
        return {name: said.get(name, {}) for kind, name in _OFFERED.items() if kind in handled}

    @property
    def handled(self) -> set[str]:
        """The names of the requests that there are handlers for: no other type has to be made to know them."""
        return self._handlers.names

    @property
    def request_context(self) -> RequestContext[ServerSession, LifespanResultT, RequestT]:
        """The request that is being served here.

        Raises:
            LookupError: there is none.
        """
        return request_ctx.get()

    # --- handlers -------------------------------------------------------------------------------------------

    @property
    def request_handlers(self) -> Handlers:
        """Who answers which request; programs look here, put in and take out."""
        return self._handlers

    @request_handlers.setter
    def request_handlers(self, given: Mapping[type, Handler]) -> None:
        self._handlers = Handlers(given)

    def _handle(self, name: str, handler: Handler) -> None:
        self._handlers.by_name[name] = handler
        if self._native is not None:
            self.bridge()

    def _listed(self, kind: str, name: str, member: str) -> Decorator[Any]:
        """A decorator for who makes lists; the result's type is asked for by its ``name`` once there is one."""

        def decorate(function: F) -> F:
            call = _with_request(function, kind)

            async def handler(request: Any) -> types.ServerResult:
                found, result = await call(request), getattr(types, name)
                if not isinstance(found, result):
                    found = result(**{member: found})
                if member == "tools":
                    self._remember(found.tools)
                return types.ServerResult.model_construct(found)  # nothing is left to validate

            self._handle(kind, handler)
            return function

        return decorate

    def list_prompts(self) -> Decorator[Any]:
        """Register who lists prompts."""
        return self._listed("ListPromptsRequest", "ListPromptsResult", "prompts")

    def list_resources(self) -> Decorator[Any]:
        """Register who lists resources."""
        return self._listed("ListResourcesRequest", "ListResourcesResult", "resources")

    def list_resource_templates(self) -> Decorator[Any]:
        """Register who lists templates of resources."""
        return self._listed(
            "ListResourceTemplatesRequest", "ListResourceTemplatesResult", "resourceTemplates"
        )

    def list_tools(self) -> Decorator[Any]:
        """Register who lists tools."""
        return self._listed("ListToolsRequest", "ListToolsResult", "tools")

    def call_tool(self, *, validate_input: bool = True) -> Decorator[Any]:
        """Register who calls tools: ``async def call(name, arguments)``."""

        def decorate(function: F) -> F:
            self._handle("CallToolRequest", ToolCall(self, function, validate=validate_input))
            return function

        return decorate

    def _remember(self, tools: Iterable[types.Tool]) -> None:
        self._tool_cache.clear()
        self._tool_cache.update((tool.name, tool) for tool in tools)

    async def tool_definition(self, name: str) -> types.Tool | None:
        """A tool as it was listed last; one that was not is looked for in a list made anew."""
        lister = self._handlers.by_name.get("ListToolsRequest")
        if name not in self._tool_cache and lister is not None:
            await lister(None)
        return self._tool_cache.get(name)

    def _simple(self, kind: str, call: Callable[[Any, Any], Awaitable[Any]]) -> Decorator[Any]:
        """A decorator whose function is called by ``call(function, params)``; None becomes an empty result."""

        def decorate(function: F) -> F:
            async def handler(request: Any) -> types.ServerResult:
                value = await call(function, request.params)
                return types.ServerResult(types.EmptyResult() if value is None else value)

            self._handle(kind, handler)
            return function

        return decorate

    def get_prompt(self) -> Decorator[Any]:
        """Register who renders prompts: ``async def get(name, arguments)``."""
        return self._simple("GetPromptRequest", lambda get, asked: get(asked.name, asked.arguments))

    def read_resource(self) -> Decorator[Any]:
        """Register who reads resources: ``async def read(uri)``."""

        async def call(read: Any, asked: Any) -> types.ReadResourceResult:
            return _read_result(asked.uri, await read(asked.uri))

        return self._simple("ReadResourceRequest", call)

    def set_logging_level(self) -> Decorator[Any]:
        """Register who hears which messages of the log a client wants."""
        return self._simple("SetLevelRequest", lambda hear, asked: hear(asked.level))

    def subscribe_resource(self) -> Decorator[Any]:
        """Register who hears that a client wants to know of changes."""
        return self._simple("SubscribeRequest", lambda hear, asked: hear(asked.uri))

    def unsubscribe_resource(self) -> Decorator[Any]:
        """Register who hears that it does not want to any more."""
        return self._simple("UnsubscribeRequest", lambda hear, asked: hear(asked.uri))

    def completion(self) -> Decorator[Any]:
        """Register who completes arguments: ``async def complete(ref, argument, context)``."""

        async def call(complete: Any, asked: types.CompleteRequestParams) -> types.CompleteResult:
            found = await complete(asked.ref, asked.argument, asked.context)
            return types.CompleteResult(
                completion=found or types.Completion(values=[], total=None, hasMore=None)
            )

        return self._simple("CompleteRequest", call)

    def progress_notification(self) -> Decorator[Any]:
        """Register who hears of the progress of a client's own work."""

        def decorate(function: F) -> F:
            async def handler(note: Any) -> None:
                said = note.params
                await function(said.progressToken, said.progress, said.total, said.message)

            self.notification_handlers[types.ProgressNotification] = handler
            return function

        return decorate

    @property
    def hears(self) -> bool:
        """Whether anybody hears of any notification."""
        return bool(self.notification_handlers)

    def notification_handler(self, kind: type) -> Handler | None:
        """Who hears of notifications of ``kind``."""
        return self.notification_handlers.get(kind)

    # --- serving --------------------------------------------------------------------------------------------

    async def run(
        self, read_stream: Any, write_stream: Any, initialization_options: InitializationOptions,
        raise_exceptions: bool = False, stateless: bool = False,
    ) -> None:  # fmt: skip
        """Serve the client at the other end of these streams; the way they came from decides how."""
        await read_stream.serve(self.bridge(initialization_options))


_DESCRIBES: Final = {
    name: vars(Server)[name] for name in ("create_initialization_options", "get_capabilities")
}


def _library_version() -> str:
    return installed("mcp") or installed("dovetail_mcp") or "0.0.0"


async def _pong(_: Any) -> types.ServerResult:
    return types.ServerResult.model_construct(types.EmptyResult())


def _with_request(function: Callable[..., Any], name: str) -> Handler:
    """Call ``function`` with the request of the type ``name`` if it takes one, and without if it takes nothing."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return lambda _: function()
    kind = getattr(types, name)
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    for parameter in parameters:
        if hints.get(parameter.name) is kind:
            return lambda request: function(**{parameter.name: request})
    if any(parameter.default is inspect.Parameter.empty for parameter in parameters):
        return lambda request: function(request)
    return lambda _: function()


def _read_result(uri: AnyUrl, value: Any) -> types.ReadResourceResult:
    if isinstance(value, str | bytes):
        warnings.warn(
            "Returning str or bytes from read_resource is deprecated. Use Iterable[ReadResourceContents] instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        value = [ReadResourceContents(value)]
    if isinstance(value, types.ReadResourceResult):
        return value
    if not isinstance(value, Iterable):
        raise ValueError(f"Unexpected return type from read_resource: {type(value)}")
    return types.ReadResourceResult(
        contents=[_contents(uri, item) for item in cast("Iterable[ReadResourceContents]", value)]
    )


def _contents(
    uri: AnyUrl, item: ReadResourceContents
) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(item.content, str):
        return types.TextResourceContents(
            uri=uri, text=item.content, mimeType=item.mime_type or _TEXT, _meta=item.meta
        )
    blob = base64.b64encode(item.content).decode()
    return types.BlobResourceContents(uri=uri, blob=blob, mimeType=item.mime_type or _BINARY, _meta=item.meta)
