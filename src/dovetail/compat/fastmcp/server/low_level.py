"""The low-level server below a FastMCP server: its handlers answer from the components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from ....core.channel import Call, Channel
from ....errors import ProtocolError
from ...common.asking import unasked
from ...common.wire import failed, tool_result
from ...mcp import types as t
from ...mcp.server.lowlevel.bridge import Bridge
from ...mcp.server.lowlevel.handlers import Handler
from ...mcp.server.lowlevel.server import NotificationOptions, Server
from ...mcp.server.lowlevel.tool_calls import Checks
from ...mcp.server.session import ServerSession as MiddlewareServerSession
from ...mcp.server.session import current as native_current
from ...mcp.shared.exceptions import McpError, UrlElicitationRequiredError
from ..exceptions import NotFoundError
from ..generation import generation
from ..injection import current
from .context import Context
from .middleware.middleware import MiddlewareContext, through

if TYPE_CHECKING:
    from ...mcp.server.models import InitializationOptions
    from .server import FastMCP

__all__ = ["LowLevelServer", "MiddlewareServerSession"]


_CURSOR: Final = "from:"


def _start(cursor: str) -> int:
    place = cursor.removeprefix(_CURSOR)
    if place == cursor or not (place.isascii() and place.isdigit()) or len(place) > 9:
        raise ProtocolError("invalid_cursor", "the cursor is none of this list")
    return int(place)


class LowLevelServer(Server[Any, Any]):
    """What `FastMCP._mcp_server` is."""

    def __init__(self, fastmcp: FastMCP[Any], **options: Any) -> None:
        super().__init__(**options)
        self.fastmcp = fastmcp
        self._checks = Checks()
        self.notification_options = NotificationOptions(True, True, True)
        self._handlers.by_name |= {
            "ListToolsRequest": _answering(self._list_tools),
            "ListResourcesRequest": _answering(self._list_resources),
            "ListResourceTemplatesRequest": _answering(self._list_templates),
            "ListPromptsRequest": _answering(self._list_prompts),
            "CallToolRequest": self._call_tool,
            "ReadResourceRequest": _answering(self._read_resource),
            "GetPromptRequest": _answering(self._get_prompt),
            "SetLevelRequest": self._set_level,
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
            bridge.methods["tools/call"] = bridge.plain_call = self._quick_call
            self._initialize = bridge.methods["initialize"]
            bridge.methods["initialize"] = self._initialized
            bridge.auth = self.fastmcp.native_auth()
            bridge.log_level = self.fastmcp.client_log_level or bridge.log_level
            self.fastmcp.add_native_routes(bridge)
        if bridge.tasks is None and self.fastmcp.has_tasks():
            from .tasks.methods import enable  # a server without tasks never loads them

            enable(bridge, self.fastmcp)
        return bridge

    # Tools

    async def _quick_call(self, call: Call, channel: Channel) -> Struct | Raw:
        """``tools/call`` without a model of the request, as long as nobody has put another handler in our place."""
        if self._handlers.by_name.get("CallToolRequest") != self._call_tool or self._native is None:
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
        result = await self._run(request.params.name, request.params.arguments or {})
        return t.ServerResult(t.CallToolResult.model_validate_json(msgspec.json.encode(result)))

    async def _run(self, name: str, arguments: dict[str, Any]) -> Any:
        fastmcp = self.fastmcp
        token = current.set(Context(fastmcp, native=native_current.get()))
        try:
            if fastmcp.strict_input_validation and (fault := await self._unlike(name, arguments)):
                return failed(f"Input validation error: {fault}")
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

    async def _unlike(self, name: str, arguments: dict[str, Any]) -> str | None:
        """What the schema of a tool has against arguments that pydantic might well take."""
        tool = await self.fastmcp.find("tool", name)
        return None if tool is None else self._checks.fault(tool.parameters, arguments)

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

    async def _list_tools(self, request: Any) -> Any:
        found, more = self._page(await self._in_context(self.fastmcp.list_tools()), request)
        return t.ListToolsResult(tools=[self._shown(one) for one in found], nextCursor=more)

    def _shown(self, tool: Any) -> t.Tool:
        as_written: dict[str, Any] = {} if self.fastmcp.dereference_schemas else tool.as_written()
        return tool.to_mcp_tool(include_fastmcp_meta=self._meta(), **as_written)

    async def _list_resources(self, request: Any) -> Any:
        found, more = self._page(await self._in_context(self.fastmcp.list_resources()), request)
        shown = [one.to_mcp_resource(include_fastmcp_meta=self._meta()) for one in found]
        return t.ListResourcesResult(resources=shown, nextCursor=more)

    async def _list_templates(self, request: Any) -> Any:
        found, more = self._page(await self._in_context(self.fastmcp.list_resource_templates()), request)
        shown = [one.to_mcp_template(include_fastmcp_meta=self._meta()) for one in found]
        return t.ListResourceTemplatesResult(resourceTemplates=shown, nextCursor=more)

    async def _list_prompts(self, request: Any) -> Any:
        found, more = self._page(await self._in_context(self.fastmcp.list_prompts()), request)
        shown = [one.to_mcp_prompt(include_fastmcp_meta=self._meta()) for one in found]
        return t.ListPromptsResult(prompts=shown, nextCursor=more)

    def _page(self, found: Sequence[Any], request: Any) -> tuple[Sequence[Any], str | None]:
        """What ``list_page_size`` lets a client see at once, and the cursor of the rest."""
        size = self.fastmcp.list_page_size
        if size is None:
            return found, None
        params = None if request is None else request.params
        cursor: str | None = None if params is None else params.cursor
        start = 0 if cursor is None else _start(cursor)
        rest = start + size
        return found[start:rest], f"{_CURSOR}{rest}" if rest < len(found) else None

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

    @property
    def hears(self) -> bool:
        return bool(self.fastmcp.middleware) or super().hears

    def notification_handler(self, kind: type) -> Handler | None:
        handler = super().notification_handler(kind)
        if not self.fastmcp.middleware:
            return handler

        async def last(context: MiddlewareContext[Any]) -> None:
            if handler is not None:
                await handler(context.message)

        async def hear(note: Any) -> None:
            token = current.set(Context(self.fastmcp, native=native_current.get()))
            try:
                context = MiddlewareContext(
                    message=note, type="notification", method=note.method, fastmcp_context=current.get()
                )
                await through(self.fastmcp.middleware, context, last)
            finally:
                current.reset(token)

        return hear

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


def _answering(work: Handler) -> Handler:
    """A handler with a result as theirs have it: those who put their own around it look at its ``root``."""

    async def handler(request: Any) -> t.ServerResult:
        return t.ServerResult.model_construct(await work(request))

    return handler
