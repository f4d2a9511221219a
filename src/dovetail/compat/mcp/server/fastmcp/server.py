"""`FastMCP` of SDK 1.x, carried by a server of ours."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from typing_extensions import TypeVar

from .....core.channel import Call, Channel
from .....errors import ProtocolError
from .....server import Server as Native
from ....common.asking import unasked
from ....common.bounds import history_of
from ....common.wire import failed, tool_result
from ....serving import Served
from ... import types as t
from ...shared.exceptions import UrlElicitationRequiredError
from ..lowlevel.bridge import Bridge, request_ctx
from ..lowlevel.helper_types import ReadResourceContents
from ..lowlevel.server import Server
from .context import Context
from .exceptions import ResourceError
from .prompts import PromptManager
from .resources import ResourceManager
from .running import Running
from .settings import Settings
from .tools import ToolManager
from .utilities.context_injection import find_context_parameter
from .utilities.logging import configure_logging, get_logger

if TYPE_CHECKING:
    from ..models import InitializationOptions
    from .prompts import Prompt
    from .resources import Resource
    from .tools import Tool

LifespanResultT = TypeVar("LifespanResultT", default=Any)
log = logging.getLogger("mcp.server.fastmcp")


class LowLevelServer(Server[Any, Any]):
    """What `FastMCP._mcp_server` is."""

    def __init__(self, fastmcp: FastMCP[Any], **options: Any) -> None:
        super().__init__(**options)
        self._fastmcp = fastmcp
        self.own_call: Any = None
        """The handler of tools that stands for `FastMCP.call_tool`."""

    @property
    def started(self) -> bool:
        """The server of ours has been made: whatever changes now is told to it."""
        return self._native is not None

    def bridge(self, options: InitializationOptions | None = None) -> Bridge:
        fresh = self._native is None
        bridge = super().bridge(options)
        if fresh:
            self._plain_call = bridge.methods["tools/call"]
            bridge.methods["tools/call"] = self._quick_call
            self._fastmcp.prepare_native(bridge)
        return bridge

    async def _quick_call(self, call: Call, channel: Channel) -> Struct | Raw:
        """``tools/call`` without a model of the request, as long as nobody has put another handler in our place."""
        if self._handlers.by_name.get("CallToolRequest") is not self.own_call or self._native is None:
            return await self._plain_call(call, channel)
        return await self._native.run_handler(self._call, call.params, call, channel)

    async def _call(self, params: Any) -> Any:
        raw = params.arguments
        arguments: Any = {} if raw is UNSET else msgspec.json.decode(raw)
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict:
            raise ProtocolError("invalid_params", "the arguments must be an object")
        try:
            value = await self._fastmcp.call_tool(params.name, arguments)  # pyright: ignore[reportUnknownArgumentType]
        except (UrlElicitationRequiredError, ProtocolError):
            raise
        except Exception as error:  # noqa: BLE001  their boundary: the text is for the model
            if (told := unasked(error)) is not None:
                raise told from None
            return failed(str(error))
        if isinstance(value, t.CallToolResult):
            return tool_result(
                value.content, value.structuredContent, is_error=value.isError, meta=value.meta
            )
        return tool_result(*cast("Any", value)) if type(value) is tuple else tool_result(value)


class FastMCP(Running, Served, Generic[LifespanResultT]):
    """A server of tools, resources and prompts."""

    def __init__(
        self, name: str | None = None, instructions: str | None = None, website_url: str | None = None,
        icons: list[t.Icon] | None = None, auth_server_provider: Any = None, token_verifier: Any = None,
        event_store: Any = None, retry_interval: int | None = None, *, tools: list[Tool] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        unknown = settings.keys() - Settings.model_fields.keys() - {"version"}
        if unknown:
            raise TypeError(f"FastMCP.__init__() got an unexpected keyword argument {min(unknown)!r}")
        version = settings.pop("version", None)
        self.settings: Any = Settings(lifespan=lifespan, **settings)
        self._auth_server_provider = auth_server_provider
        self._token_verifier = token_verifier
        if self.settings.dependencies:
            log.info("FastMCP(dependencies=…) makes no difference here: install them beside the server")
        self._retry_interval = retry_interval
        self._custom_starlette_routes: list[Any] = []
        self._session_manager: Any = None
        options: dict[str, Any] = {} if lifespan is None else {"lifespan": lambda _: lifespan(self)}  # pyright: ignore[reportUnknownLambdaType]
        self._mcp_server = LowLevelServer(
            self, name=name or "FastMCP", version=version, instructions=instructions, website_url=website_url,
            icons=icons, **options,
        )  # fmt: skip
        self._mcp_server.event_history = history_of(event_store)
        self._tool_manager = ToolManager(self.settings.warn_on_duplicate_tools, tools=tools)
        self._resource_manager = ResourceManager(self.settings.warn_on_duplicate_resources)
        self._prompt_manager = PromptManager(self.settings.warn_on_duplicate_prompts)
        self._setup_handlers()
        configure_logging(self.settings.log_level)

    def _setup_handlers(self) -> None:
        """Whoever overrides ``list_tools`` and its kin in a subclass is asked."""
        server = self._mcp_server
        server.list_tools()(self.list_tools)
        server.call_tool(validate_input=False)(self.call_tool)
        server.own_call = server.request_handlers.by_name["CallToolRequest"]
        server.list_resources()(self.list_resources)
        server.read_resource()(self.read_resource)
        server.list_prompts()(self.list_prompts)
        server.get_prompt()(self.get_prompt)
        server.list_resource_templates()(self.list_resource_templates)

    @property
    def native(self) -> Native:
        return self._mcp_server.native

    @property
    def name(self) -> str:
        return self._mcp_server.name

    @property
    def instructions(self) -> str | None:
        return self._mcp_server.instructions

    @property
    def website_url(self) -> str | None:
        return self._mcp_server.website_url

    @property
    def icons(self) -> list[t.Icon] | None:
        return self._mcp_server.icons

    def get_context(self) -> Context[Any, Any, Any]:
        """The context of the request that is served here; outside of one it can do little."""
        return Context(request_context=request_ctx.get(None), fastmcp=self)

    # Tools

    async def list_tools(self) -> list[t.Tool]:
        """The tools as clients see them."""
        await self._tool_manager.make()
        return [
            t.Tool(
                name=one.name, title=one.title, description=one.description, inputSchema=one.parameters,
                outputSchema=one.output_schema, annotations=one.annotations, icons=one.icons, _meta=one.meta,
            )
            for one in self._tool_manager.list_tools()
        ]  # fmt: skip

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool: content, content and data, or a whole result."""
        return await self._tool_manager.call_tool(
            name, arguments, context=self.get_context(), convert_result=True
        )

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, *args: Any, **options: Any) -> None:
        """Register a function as a tool."""
        words = ("title", "description", "annotations", "icons", "meta", "structured_output")
        self._tool_manager.register(fn, name, **dict(zip(words, args, strict=False)), **options)
        self._changed("tools")

    def remove_tool(self, name: str) -> None:
        """Take a tool out of the list."""
        self._tool_manager.remove_tool(name)
        self._changed("tools")

    def tool(self, name: str | None = None, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Register a function as a tool: ``@mcp.tool()``."""
        if callable(name):
            raise TypeError(
                "The @tool decorator was used incorrectly. Did you forget to call it? Use @tool() instead of @tool"
            )

        def add(function: Any) -> Any:
            self.add_tool(function, name, *args, **options)
            return function

        return add

    def _changed(self, kind: Any) -> None:
        if self._mcp_server.started:
            self.native.changed(kind)

    # Resources

    async def list_resources(self) -> list[t.Resource]:
        """The resources as clients see them."""
        return [
            t.Resource(
                uri=one.uri, name=one.name or "", title=one.title, description=one.description,
                mimeType=one.mime_type, icons=one.icons, annotations=one.annotations, _meta=one.meta,
            )
            for one in self._resource_manager.list_resources()
        ]  # fmt: skip

    async def list_resource_templates(self) -> list[t.ResourceTemplate]:
        """The templates as clients see them."""
        return [
            t.ResourceTemplate(
                uriTemplate=one.uri_template, name=one.name, title=one.title, description=one.description,
                mimeType=one.mime_type, icons=one.icons, annotations=one.annotations, _meta=one.meta,
            )
            for one in self._resource_manager.list_templates()
        ]  # fmt: skip

    async def read_resource(self, uri: Any) -> Iterable[ReadResourceContents]:
        """Read a resource."""
        try:
            found = await self._resource_manager.get_resource(uri, context=self.get_context())
        except ValueError as error:
            raise ResourceError(str(error)) from error
        if found is None:
            raise ResourceError(f"Unknown resource: {uri}")
        try:
            content = await found.read()
        except Exception as error:
            log.debug("resource %s failed", uri, exc_info=error)
            raise ResourceError(str(error)) from error
        return [ReadResourceContents(content, found.mime_type, found.meta)]

    def add_resource(self, resource: Resource) -> None:
        """Register a resource."""
        self._resource_manager.add_resource(resource)
        self._changed("resources")

    def resource(self, uri: str, **options: Any) -> Callable[[Any], Any]:
        """Register the reader of a URI, or of all URIs of a template."""
        if callable(uri):
            raise TypeError(
                "The @resource decorator was used incorrectly. Did you forget to call it? "
                "Use @resource('uri') instead of @resource"
            )

        def add(function: Any) -> Any:
            context = find_context_parameter(function)
            names = {one for one in inspect.signature(function).parameters if one != context}
            if ("{" in uri and "}" in uri) or names:
                _check(uri, names)
                self._resource_manager.add_template(function, uri, **options)
                self._changed("resources")
            else:
                from .resources import FunctionResource  # known to whoever has resources

                self.add_resource(FunctionResource.from_function(function, uri, **options))
            return function

        return add

    # Prompts

    async def list_prompts(self) -> list[t.Prompt]:
        """The prompts as clients see them."""
        return [
            t.Prompt(
                name=one.name, title=one.title, description=one.description, icons=one.icons,
                arguments=[
                    t.PromptArgument(name=blank.name, description=blank.description, required=blank.required)
                    for blank in one.arguments or ()
                ],
            )
            for one in self._prompt_manager.list_prompts()
        ]  # fmt: skip

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> t.GetPromptResult:
        """Fill in a prompt."""
        prompt = self._prompt_manager.get_prompt(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        messages = await prompt.render(arguments, context=self.get_context())
        shown = [t.PromptMessage(role=one.role, content=one.content) for one in messages]
        return t.GetPromptResult(description=prompt.description, messages=shown)

    def add_prompt(self, prompt: Prompt) -> None:
        """Register a prompt."""
        self._prompt_manager.add_prompt(prompt)
        self._changed("prompts")

    def prompt(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Any = None,
    ) -> Callable[[Any], Any]:
        """Register a function as a prompt: ``@mcp.prompt()``."""
        if callable(name):
            raise TypeError(
                "The @prompt decorator was used incorrectly. Did you forget to call it? "
                "Use @prompt() instead of @prompt"
            )

        def add(function: Any) -> Any:
            from .prompts import Prompt  # known to whoever has prompts

            self.add_prompt(Prompt.from_function(function, name, title, description, icons))
            return function

        return add

    def completion(self) -> Callable[[Any], Any]:
        """Register who completes arguments: ``async def complete(ref, argument, context)``."""
        return self._mcp_server.completion()


def _check(uri: str, names: Sequence[str] | set[str]) -> None:
    import re

    given = set(re.findall(r"{(\w+)}", uri))
    if given != set(names):
        raise ValueError(f"Mismatch between URI parameters {given} and function parameters {set(names)}")


__all__ = ["Context", "FastMCP", "Settings", "configure_logging", "get_logger"]
