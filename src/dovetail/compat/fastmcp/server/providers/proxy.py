"""Proxies: a server that shows what another has, wherever that is."""

from __future__ import annotations

import base64
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic import Field

from ....mcp.types import TextResourceContents
from ...client.client import Client
from ...exceptions import ResourceError, ToolError
from ...generation import generation
from ...prompts.base import Prompt, PromptArgument, PromptResult
from ...resources.base import Resource, ResourceContent, ResourceResult
from ...resources.template import ResourceTemplate
from ...tools.base import Tool, ToolResult
from ..server import FastMCP
from .base import Provider, named

CACHE_SECONDS: Final = 300.0
"""How long FastMCP 3 knows the lists of the server behind; FastMCP 2 asks each time."""


class ProxyClient(Client):
    """A client for proxies: what the server behind asks, it asks the client in front."""

    def __init__(self, transport: Any, **options: Any) -> None:
        options.setdefault("sampling_handler", _sample)
        options.setdefault("elicitation_handler", _elicit)
        options.setdefault("log_handler", _log)
        options.setdefault("progress_handler", _progress)
        super().__init__(transport, **options)
        # To a server in this process the newest revision: there a question comes back to the call that it belongs to,
        # and is not asked in the middle of the call behind, whose context is another.
        self._options.pop("revision", None)


StatefulProxyClient = ProxyClient


def _session() -> Any:
    from ..dependencies import get_context

    return get_context().session


async def _sample(messages: Any, params: Any, _: Any) -> Any:
    return await _session().create_message(
        messages, max_tokens=params.maxTokens, system_prompt=params.systemPrompt, temperature=params.temperature,
        stop_sequences=params.stopSequences, metadata=params.metadata, model_preferences=params.modelPreferences,
    )  # fmt: skip


async def _elicit(message: str, _: Any, params: Any, __: Any) -> Any:
    if getattr(params, "url", None) is not None:
        return await _session().elicit_url(message, params.url, params.elicitationId)
    return await _session().elicit(message, params.requestedSchema)


async def _log(said: Any) -> None:
    await _session().send_log_message(said.level, said.data, said.logger)


async def _progress(progress: float, total: float | None, message: str | None) -> None:
    from ..dependencies import get_context

    await get_context().report_progress(progress, total, message)


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
            plain = plain.replace("{" + name + "}", str(value)).replace("{" + name + "*}", str(value))
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

    def __init__(self, client_factory: Callable[[], Any], cache_ttl: float | None = None) -> None:
        super().__init__()
        self.client_factory = client_factory
        default = CACHE_SECONDS if generation() == 3 else 0.0
        self._ttl = default if cache_ttl is None else cache_ttl
        self._lists: dict[str, tuple[float, list[Any]]] = {}

    def _keep(self, kind: str, found: list[Any]) -> list[Any]:
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
                    provider=self, behind=str(one.uri), uri=str(one.uri), mime_type=one.mimeType or "text/plain",
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
    return FastMCPProxy(client_factory=factory, **settings)
