"""The low-level server below a FastMCP server: its handlers answer from the components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ....core.channel import Call, Channel
from ....errors import ProtocolError
from ...common.asking import unasked
from ...common.wire import failed, tool_result
from ...mcp import types as t
from ...mcp.server.lowlevel.bridge import Bridge
from ...mcp.server.lowlevel.server import NotificationOptions, Server
from ...mcp.server.lowlevel.tool_calls import Checks
from ...mcp.server.models import InitializationOptions
from ...mcp.server.session import ServerSession as MiddlewareServerSession
from ...mcp.server.session import current as native_current
from ...mcp.shared.exceptions import McpError, UrlElicitationRequiredError
from ..exceptions import NotFoundError
from ..generation import generation
from ..injection import current
from .context import Context
from .middleware.middleware import MiddlewareContext, through

if TYPE_CHECKING:
    from .server import FastMCP

__all__ = ["LowLevelServer", "MiddlewareServerSession"]


class LowLevelServer(Server[Any, Any]):
    """What `FastMCP._mcp_server` is."""

    def __init__(self, fastmcp: FastMCP[Any], **options: Any) -> None:
        super().__init__(**options)
        self.fastmcp = fastmcp
        self._checks = Checks()
        self.notification_options = NotificationOptions(True, True, True)
        self.request_handlers |= {
            t.ListToolsRequest: self._list_tools,
            t.ListResourcesRequest: self._list_resources,
            t.ListResourceTemplatesRequest: self._list_templates,
            t.ListPromptsRequest: self._list_prompts,
            t.CallToolRequest: self._call_tool,
            t.ReadResourceRequest: self._read_resource,
            t.GetPromptRequest: self._get_prompt,
            t.SetLevelRequest: self._set_level,
        }

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
            self._initialize = bridge.methods["initialize"]
            bridge.methods["initialize"] = self._initialized
            bridge.auth = self.fastmcp.native_auth()
            self.fastmcp.add_native_routes(bridge)
        return bridge

    # Tools

    async def _quick_call(self, call: Call, channel: Channel) -> Struct | Raw:
        """``tools/call`` without a model of the request, as long as nobody has put another handler in our place."""
        if self.request_handlers.get(t.CallToolRequest) != self._call_tool or self._native is None:
            return await self._plain_call(call, channel)
        return await self._native.run_handler(self._call, call.params, call, channel)

    async def _call(self, params: Any) -> Any:
        raw = params.arguments
        arguments: Any = {} if raw is UNSET else msgspec.json.decode(raw)
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict:
            raise ProtocolError("invalid_params", "the arguments must be an object")
        return await self._run(params.name, arguments)  # pyright: ignore[reportUnknownArgumentType]

    async def _call_tool(self, request: Any) -> Any:
        return await self._run(request.params.name, request.params.arguments or {})

    async def _run(self, name: str, arguments: dict[str, Any]) -> Any:
        fastmcp = self.fastmcp
        token = current.set(Context(fastmcp, native=native_current.get()))
        try:
            if fastmcp.middleware:
                result = await fastmcp.call_tool(name, arguments)
            else:
                result = await fastmcp.run_tool(name, arguments)
            structured = result.structured_content
            if (structured is None or generation() == 2) and (fault := self._fault(name, result)):
                return failed(f"Output validation error: {fault}")
            return tool_result(result.content, structured, is_error=result.is_error, meta=result.meta)
        except (UrlElicitationRequiredError, ProtocolError):
            raise
        except Exception as error:  # noqa: BLE001  their boundary: the text is for the model
            if (told := unasked(error)) is not None:
                raise told from None
            return failed(str(error))
        finally:
            current.reset(token)

    def _fault(self, name: str, result: Any) -> str | None:
        """What is wrong with a result, by the schema of its tool: FastMCP 3 wants it to be there, 2 checks it."""
        tool = self.fastmcp.local_provider.tables["tool"].get(name)
        if tool is None or tool.output_schema is None or result.is_error:
            return None
        if result.structured_content is None:
            return "outputSchema defined but no structured output returned"
        return self._checks.fault(tool.output_schema, result.structured_content)

    # The rest

    async def _in_context(self, work: Any) -> Any:
        token = current.set(Context(self.fastmcp, native=native_current.get()))
        try:
            return await work
        except (McpError, ProtocolError):
            raise
        except Exception as error:
            if (told := unasked(error)) is not None:
                raise told from None
            raise ProtocolError("internal_error", str(error), code=0) from error
        finally:
            current.reset(token)

    def _meta(self) -> bool | None:
        return self.fastmcp.include_fastmcp_meta

    async def _list_tools(self, _: Any) -> Any:
        found = await self._in_context(self.fastmcp.list_tools())
        return t.ListToolsResult(tools=[one.to_mcp_tool(include_fastmcp_meta=self._meta()) for one in found])

    async def _list_resources(self, _: Any) -> Any:
        found = await self._in_context(self.fastmcp.list_resources())
        shown = [one.to_mcp_resource(include_fastmcp_meta=self._meta()) for one in found]
        return t.ListResourcesResult(resources=shown)

    async def _list_templates(self, _: Any) -> Any:
        found = await self._in_context(self.fastmcp.list_resource_templates())
        shown = [one.to_mcp_template(include_fastmcp_meta=self._meta()) for one in found]
        return t.ListResourceTemplatesResult(resourceTemplates=shown)

    async def _list_prompts(self, _: Any) -> Any:
        found = await self._in_context(self.fastmcp.list_prompts())
        return t.ListPromptsResult(
            prompts=[one.to_mcp_prompt(include_fastmcp_meta=self._meta()) for one in found]
        )

    async def _read_resource(self, request: Any) -> Any:
        uri = str(request.params.uri)

        async def read() -> Any:
            try:
                result = await self.fastmcp.read_resource(uri)
            except NotFoundError as error:
                if generation() == 2:
                    raise
                raise ProtocolError(
                    "resource_not_found", f"Resource not found: {error}", data={"uri": uri}
                ) from error
            return result

        result = await self._in_context(read())
        parts = getattr(result, "contents", result)
        return t.ReadResourceResult(
            contents=[part.to_mcp_resource_contents(request.params.uri) for part in parts],
            _meta=getattr(result, "meta", None),
        )

    async def _get_prompt(self, request: Any) -> Any:
        asked = request.params
        result = await self._in_context(self.fastmcp.render_prompt(asked.name, asked.arguments))
        return result if isinstance(result, t.GetPromptResult) else result.to_mcp_prompt_result()

    async def _set_level(self, _: Any) -> Any:
        return t.EmptyResult()

    async def _initialized(self, call: Call, channel: Channel) -> Struct | Raw:
        """``initialize``, through the middleware."""
        result = await self._initialize(call, channel)
        if not self.fastmcp.middleware:
            return result
        wire: Any = msgspec.json.decode(msgspec.json.encode(call.params))
        answer = t.InitializeResult.model_validate(msgspec.json.decode(msgspec.json.encode(result)))

        async def last(_: MiddlewareContext[Any]) -> Any:
            return answer

        async def handler(request: Any) -> Any:
            token = current.set(Context(self.fastmcp, native=native_current.get()))
            try:
                context = MiddlewareContext(
                    message=request, method="initialize", fastmcp_context=current.get()
                )
                await through(self.fastmcp.middleware, context, last)
            finally:
                current.reset(token)
            return result

        assert self._native is not None
        request = t.InitializeRequest.model_validate({"method": "initialize", "params": wire})
        return await self._native.run_handler(handler, request, call, channel)
