"""Proxies: a server that shows what another has, wherever that is."""

from __future__ import annotations

import base64
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import quote

from pydantic import Field

from .....errors import ProtocolError
from .....kinds import kind_of_code
from .....server.asking.ask import Unwind
from ....mcp.server.session import current as served
from ....mcp.shared.exceptions import McpError
from ....mcp.types import ElicitRequestURLParams, TextResourceContents
from ...client.client import Client
from ...client.transports import FastMCPTransport
from ...exceptions import ResourceError, ToolError
from ...generation import generation
from ...injection import current
from ...prompts.base import Prompt, PromptArgument, PromptResult
from ...resources.base import Resource, ResourceContent, ResourceResult
from ...resources.template import ResourceTemplate
from ...tools.base import Tool, ToolResult
from ..server import FastMCP
from .base import Provider, named

if TYPE_CHECKING:
    from ..context import Context

CACHE_SECONDS: Final = 300.0
"""How long FastMCP 3 knows the lists of the server behind; FastMCP 2 asks each time."""


class ProxyClient(Client):
    """A client for proxies: what the server behind asks and tells goes to the client in front."""

    def __init__(self, transport: Any, **options: Any) -> None:
        self._given = options
        self._front = front = _Front()
        handlers: dict[str, Any] = {
            "sampling_handler": front.sample, "elicitation_handler": front.elicit, "log_handler": front.log,
            "progress_handler": front.progress, "roots": front.roots,
        }  # fmt: skip
        super().__init__(transport, **handlers | options)

    async def __aenter__(self) -> Self:
        self._front.context = current.get() or self._front.context
        return await super().__aenter__()

    def new(self) -> Client:
        other = cast("ProxyClient", super().new())
        ProxyClient.__init__(other, self.transport, **self._given)  # with a front of its own
        return other


StatefulProxyClient = ProxyClient


class _Front:
    """The request in front of a proxy: the one that its client was entered for.

    Whoever asks may be a server in this process, in the middle of its own call: it would be sent back to itself.
    """

    context: Context | None = None

    @contextmanager
    def _there(self) -> Generator[Context, None, None]:
        """Be in the request in front."""
        context = self.context
        if context is None:
            raise RuntimeError("No active context found.")
        inner, outer = served.set(context.native), current.set(context)
        try:
            yield context
        except Unwind:
            # The call in front ends here and comes again with the answer; the one behind is not to wait for it.
            raise ProtocolError("invalid_request", "the client is being asked") from None
        except McpError as error:
            kind = kind_of_code(error.error.code, modern=False)
            raise ProtocolError(kind, error.error.message, code=error.error.code) from error
        finally:
            current.reset(outer)
            served.reset(inner)

    async def sample(self, messages: Any, params: Any, _: Any) -> Any:
        with self._there() as context:
            return await context.session.create_message(
                messages, max_tokens=params.maxTokens, system_prompt=params.systemPrompt,
                temperature=params.temperature, stop_sequences=params.stopSequences, metadata=params.metadata,
                model_preferences=params.modelPreferences,
            )  # fmt: skip

    async def roots(self, _: Any) -> Any:
        with self._there() as context:
            return (await context.session.list_roots()).roots

    async def elicit(self, message: str, _: Any, params: Any, __: Any) -> Any:
        with self._there() as context:
            if isinstance(params, ElicitRequestURLParams):
                return await context.session.elicit_url(message, params.url, params.elicitationId)
            return await context.session.elicit(message, params.requestedSchema)

    async def log(self, said: Any) -> None:
        with self._there() as context:
            await context.session.send_log_message(said.level, said.data, said.logger)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        with self._there() as context:
            await context.report_progress(progress, total, message)


class ProxyTool(Tool):
    """A tool of the server behind."""

    provider: Any = Field(exclude=True)
    behind: str = Field(exclude=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        async with self.provider.client() as client:
            result = await client.call_tool_mcp(self.behind, arguments)
        if result.isError:
            raise ToolError(next((one.text for one in result.content if hasattr(one, "text")), ""))
        return ToolResult(result.content, result.structuredContent, result.meta)


class ProxyResource(Resource):
    """A resource of the server behind."""

    provider: Any = Field(exclude=True)
    behind: str = Field(exclude=True)

    async def read_result(self) -> ResourceResult:
        return await self.provider.read(self.behind)


class ProxyTemplate(ResourceTemplate):
    """A template of the server behind."""

    provider: Any = Field(exclude=True)
    behind: str = Field(exclude=True)

    async def read_result(self, uri: str, arguments: dict[str, Any]) -> ResourceResult:
        plain = self.behind
        for name, value in arguments.items():
            plain = plain.replace("{" + name + "}", quote(str(value), safe=""))
            plain = plain.replace("{" + name + "*}", quote(str(value)))
        return await self.provider.read(plain)


class ProxyPrompt(Prompt):
    """A prompt of the server behind."""

    provider: Any = Field(exclude=True)
    behind: str = Field(exclude=True)

    async def render_result(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        async with self.provider.client() as client:
            result = await client.get_prompt(self.behind, arguments)
        return PromptResult(list(result.messages), result.description, result.meta)


class ProxyProvider(Provider):
    """What the server behind a client has; single ones are looked up in its lists of the last ``cache_ttl`` seconds."""

    below = True

    def __init__(self, client_factory: Callable[[], Any], cache_ttl: float | None = None) -> None:
        super().__init__()
        self.client_factory = client_factory
        default = CACHE_SECONDS if generation() == 3 else 0.0
        self._ttl = default if cache_ttl is None else cache_ttl
        self._lists: dict[str, tuple[float, list[Any]]] = {}

    def _keep(self, kind: str, found: list[Any]) -> list[Any]:
        for one in found if generation() == 2 else ():
            one._mirrored = True
        self._lists[kind] = time.monotonic() + self._ttl, found
        return found

    async def _known(self, kind: str) -> Sequence[Any]:
        ends, found = self._lists.get(kind, (0.0, []))
        return found if time.monotonic() < ends else await getattr(self, f"_list_{kind}")()

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        return named(await self._known("tools"), name, version)

    async def _get_resource(self, uri: str, version: Any = None) -> Any:
        return next((one for one in await self._known("resources") if str(one.uri) == uri), None)

    async def _get_resource_template(self, uri: str, version: Any = None) -> Any:
        known = await self._known("resource_templates")
        return next((one for one in known if one.matches(uri) is not None), None)

    async def _get_prompt(self, name: str, version: Any = None) -> Any:
        return named(await self._known("prompts"), name, version)

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client, None]:
        """A client that is connected, for one call."""
        made = self.client_factory()
        async with await made if inspect.isawaitable(made) else made as client:
            yield client

    async def read(self, uri: str) -> ResourceResult:
        async with self.client() as client:
            contents = await client.read_resource(uri)
        if not contents:
            raise ResourceError(f"No content found for {uri}")
        return ResourceResult([_content(one) for one in contents])

    async def _list_tools(self) -> Sequence[Any]:
        async with self.client() as client:
            made = [
                ProxyTool(
                    provider=self, behind=one.name, parameters=one.inputSchema, output_schema=one.outputSchema,
                    annotations=one.annotations, **_common(one),
                )
                for one in await client.list_tools()
            ]  # fmt: skip
        return self._keep("tools", made)

    async def _list_resources(self) -> Sequence[Any]:
        async with self.client() as client:
            made = [
                ProxyResource(
                    provider=self, behind=str(one.uri), uri=one.uri, mime_type=one.mimeType or "text/plain",
                    annotations=one.annotations, **_common(one),
                )
                for one in await client.list_resources()
            ]  # fmt: skip
        return self._keep("resources", made)

    async def _list_resource_templates(self) -> Sequence[Any]:
        async with self.client() as client:
            made = [
                ProxyTemplate(
                    provider=self, behind=one.uriTemplate, uri_template=one.uriTemplate,
                    mime_type=one.mimeType or "text/plain", annotations=one.annotations, **_common(one),
                )
                for one in await client.list_resource_templates()
            ]  # fmt: skip
        return self._keep("resource_templates", made)

    async def _list_prompts(self) -> Sequence[Any]:
        async with self.client() as client:
            made = [
                ProxyPrompt(provider=self, behind=one.name, arguments=_blanks(one), **_common(one))
                for one in await client.list_prompts()
            ]
        return self._keep("prompts", made)


def _blanks(prompt: Any) -> list[PromptArgument]:
    return [
        PromptArgument(name=blank.name, description=blank.description, required=bool(blank.required))
        for blank in prompt.arguments or ()
    ]


def _common(component: Any) -> dict[str, Any]:
    meta = dict(component.meta or {})
    own: dict[str, Any] = meta.get("fastmcp") or meta.get("_fastmcp") or {}
    return {
        "name": component.name, "title": component.title, "description": component.description,
        "icons": component.icons, "meta": meta or None, "tags": set(own.get("tags", ())),
    }  # fmt: skip


def _content(one: Any) -> ResourceContent:
    if isinstance(one, TextResourceContents):
        return ResourceContent(one.text, one.mimeType, one.meta)
    return ResourceContent(base64.b64decode(one.blob), one.mimeType, one.meta)


class FastMCPProxy(FastMCP[Any]):
    """A server that shows what the server behind a client has."""

    def __init__(
        self, *, client_factory: Callable[[], Any], provider_error_strategy: str = "warn", **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.provider_error_strategy = provider_error_strategy
        self.client_factory = client_factory
        self.add_provider(ProxyProvider(client_factory))


def create_proxy(target: Any, **settings: Any) -> FastMCPProxy:
    """A server that shows what ``target`` has: a client, a URL, a file, a configuration, another server."""
    client = target if isinstance(target, Client) else ProxyClient(target)
    factory: Callable[[], Any] = (lambda: client) if client.is_connected() else client.new
    proxy = FastMCPProxy(client_factory=factory, **settings)
    if isinstance(client.transport, FastMCPTransport):
        proxy.providers[-1].shown = (client.transport.server,)
    return proxy
