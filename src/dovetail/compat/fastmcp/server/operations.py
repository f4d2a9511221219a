"""What a FastMCP server answers: lists, calls, reads, prompts; through middleware, visibility and mounted servers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pydantic

from ...mcp import types as t
from ...mcp.server.session import current as native_current
from ...mcp.shared.exceptions import McpError, UrlElicitationRequiredError
from ..exceptions import FastMCPError, NotFoundError, PromptError, ResourceError, ToolError, ValidationError
from ..generation import generation
from ..injection import current
from ..utilities.tasks import TASK
from .auth.authorization import allowed
from .context import Context
from .middleware.middleware import MiddlewareContext, through
from .providers.base import Provider
from .providers.local import LocalProvider

if TYPE_CHECKING:
    from ..prompts.base import PromptResult
    from ..resources.base import ResourceResult
    from ..tools.base import ToolResult
    from .server import FastMCP

log = logging.getLogger("fastmcp")


class Operations(Provider):
    """The part of a server that answers."""

    middleware: list[Any]
    providers: list[Any]
    provider_error_strategy: str = "warn"
    """What becomes of a list when one of the providers fails: without it ("warn"), or not at all ("raise")."""
    _local_provider: LocalProvider
    _mask_error_details: bool
    ruled: bool = False
    """Some session has rules of its own about what it sees."""

    # Components

    async def _all(self, kind: str) -> Sequence[Any]:
        """Everything that is shown to this caller."""
        found: list[Any] = []
        seen: set[str] = set()
        older = generation() == 2
        # There the last one wins, and what is registered wins over what a proxy shows.
        for provider in sorted(self.providers, key=lambda one: not one.below) if older else self.providers:
            for one in await self._of(provider, kind):
                if one.key not in seen or older:
                    seen.add(one.key)
                    found.append(one)
        shown: Sequence[Any] = found
        for transform in [*self._transforms, *self._session_rules()]:
            shown = await getattr(transform, f"list_{kind}")(shown)
        return [one for one in _last(shown) if one.enabled and allowed(one)]

    async def _of(self, provider: Any, kind: str) -> Sequence[Any]:
        try:
            return await provider.provided(kind)
        except Exception:
            if provider is self._local_provider or self.provider_error_strategy == "raise":
                raise
            log.exception("the %s of %r cannot be listed", kind, provider)
            return []

    def _session_rules(self) -> list[Any]:
        context = current.get()
        return [] if context is None else context.session_rules()

    async def find(self, kind: str, key: str, version: Any = None) -> Any:
        """The component that ``key`` stands for; None where there is none to be seen."""
        found = await self.look_up(kind, key, version)
        for rule in self._session_rules():
            if found is not None:
                found = rule.change(found)
        return found if found is not None and found.enabled and allowed(found) else None

    async def _first(self, kind: str, key: str, version: Any) -> Any:
        # What was mounted last wins, as it does in their lists.
        order = self.providers if generation() == 3 else [self._local_provider, *reversed(self.providers[1:])]
        for provider in order:
            found = await provider.look_up(kind, key, version)
            if found is not None:
                return found
        return None

    async def _get_tool(self, name: str, version: Any = None) -> Any:
        return await self._first("tool", name, version)

    async def _get_resource(self, uri: str, version: Any = None) -> Any:
        return await self._first("resource", uri, version)

    async def _get_resource_template(self, uri: str, version: Any = None) -> Any:
        return await self._first("resource_template", uri, version)

    async def _get_prompt(self, name: str, version: Any = None) -> Any:
        return await self._first("prompt", name, version)

    async def _wanted(self, kind: str, key: str, version: Any) -> Any:
        """As theirs: FastMCP 2 raises for what is not there, 3 returns None."""
        found = await self.find(kind, key, version)
        if found is None and generation() == 2:
            raise NotFoundError(f"Unknown {kind.replace('_', ' ')}: {key}")
        return found

    async def get_tool(self, name: str, version: Any = None) -> Any:
        return await self._wanted("tool", name, version)

    async def get_resource(self, uri: str, version: Any = None) -> Any:
        return await self._wanted("resource", str(uri), version)

    async def get_resource_template(self, uri: str, version: Any = None) -> Any:
        return await self._wanted("resource_template", uri, version)

    async def get_prompt(self, name: str, version: Any = None) -> Any:
        return await self._wanted("prompt", name, version)

    # FastMCP 2: by name

    async def get_tools(self) -> dict[str, Any]:
        return {one.name: one for one in await self._all("tools")}

    async def get_resources(self) -> dict[str, Any]:
        return {str(one.uri): one for one in await self._all("resources")}

    async def get_resource_templates(self) -> dict[str, Any]:
        return {one.uri_template: one for one in await self._all("resource_templates")}

    async def get_prompts(self) -> dict[str, Any]:
        return {one.name: one for one in await self._all("prompts")}

    # Through the middleware

    async def _through(
        self, method: str, message: Any, last: Callable[[MiddlewareContext[Any]], Awaitable[Any]]
    ) -> Any:
        context: MiddlewareContext[Any] = MiddlewareContext(
            message=message, fastmcp_context=current.get(), method=method
        )
        return await through(self.middleware, context, last)

    async def _inside(self, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run in a context of this server: that of the request, or the one of a server it is mounted in."""
        outer = current.get()
        if outer is not None and outer.fastmcp is self:
            return await run()
        context = Context(cast("FastMCP[Any]", self), native=native_current.get(), parent=outer)
        token = current.set(context)
        try:
            return await run()
        finally:
            current.reset(token)

    async def _list(self, kind: str, method: str, request: Any, *, run_middleware: bool) -> Sequence[Any]:
        async def run() -> Sequence[Any]:
            if not (run_middleware and self.middleware):
                return await self._all(kind)
            return await self._through(method, request(method=method), lambda _: self._all(kind))

        return await self._inside(run)

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Any]:
        """The tools that this caller sees."""
        return await self._list("tools", "tools/list", t.ListToolsRequest, run_middleware=run_middleware)

    async def list_resources(self, *, run_middleware: bool = True) -> Sequence[Any]:
        """The resources that this caller sees."""
        return await self._list(
            "resources", "resources/list", t.ListResourcesRequest, run_middleware=run_middleware
        )

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Sequence[Any]:
        """The templates that this caller sees."""
        kind = t.ListResourceTemplatesRequest
        return await self._list(
            "resource_templates", "resources/templates/list", kind, run_middleware=run_middleware
        )

    async def list_prompts(self, *, run_middleware: bool = True) -> Sequence[Any]:
        """The prompts that this caller sees."""
        return await self._list(
            "prompts", "prompts/list", t.ListPromptsRequest, run_middleware=run_middleware
        )

    # Tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, version: Any = None,
        run_middleware: bool = True, **_: Any,
    ) -> ToolResult:  # fmt: skip
        """Call a tool as a client would.

        Raises:
            NotFoundError, ValidationError, ToolError: it is not there, or takes other arguments, or failed.
        """

        async def run() -> ToolResult:
            if not (run_middleware and self.middleware):
                return await self.run_tool(name, arguments or {}, version)
            message = t.CallToolRequestParams(name=name, arguments=arguments or {})

            async def last(context: MiddlewareContext[Any]) -> ToolResult:
                return await self.run_tool(context.message.name, context.message.arguments or {}, version)

            return await self._through("tools/call", message, last)

        return await self._inside(run)

    async def run_tool(self, name: str, arguments: dict[str, Any], version: Any = None) -> ToolResult:
        """Call a tool, without the middleware."""
        local = self._local_provider
        if not (version or self.ruled or self._transforms or local.chain) and len(self.providers) == 1:
            # Nothing stands between a name and what was registered under it.
            tool = local.tables["tool"].get(name)
            if tool is not None and not (tool.enabled and (tool.auth is None or allowed(tool))):
                tool = None
        else:
            tool = await self.find("tool", name, version)
        if tool is None:
            raise NotFoundError(f"Unknown tool: {name!r}" if generation() == 3 else f"Unknown tool: {name}")
        try:
            return await tool.run(arguments)
        except FastMCPError:
            raise
        except pydantic.ValidationError as error:
            raise ValidationError(str(error)) from error
        except NotFoundError as error:
            raise self._failed_tool(name, error) from error
        except Exception as error:
            log.debug("tool %r failed", name, exc_info=error)
            if isinstance(error, UrlElicitationRequiredError):
                raise
            raise self._failed_tool(name, error) from error

    def _failed_tool(self, name: str, error: Exception) -> ToolError:
        hidden = self._mask_error_details
        return ToolError(f"Error calling tool {name!r}" + ("" if hidden else f": {error}"))

    # Resources

    async def read_resource(
        self, uri: Any, *, version: Any = None, run_middleware: bool = True, **_: Any
    ) -> ResourceResult:
        """Read a resource as a client would."""
        uri = str(uri)

        async def run() -> ResourceResult:
            if not (run_middleware and self.middleware):
                return await self._read(uri, version)
            message = t.ReadResourceRequestParams(uri=uri)

            async def last(context: MiddlewareContext[Any]) -> Any:
                return await self._read(str(context.message.uri), version)

            return await self._through("resources/read", message, last)

        return await self._inside(run)

    async def _read(self, uri: str, version: Any) -> ResourceResult:
        template: Any = None
        resource: Any = await self.find("resource", uri, version)
        if resource is None:
            template = await self.find("resource_template", uri, version)
            if template is None:
                raise NotFoundError(f"Unknown resource: {uri!r}")
        _check_task(resource or template, f"Resource {uri!r}")
        try:
            if resource is not None:
                return await resource.read_result()
            return await template.read_result(uri, template.matches(uri) or {})
        except (FastMCPError, McpError):
            raise
        except Exception as error:
            log.debug("resource %r failed", uri, exc_info=error)
            where = "resource from template" if template is not None and generation() == 2 else "resource"
            words = f"Error reading {where} {uri!r}"
            raise ResourceError(words if self._mask_error_details else f"{words}: {error}") from error

    # Prompts

    async def render_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, *, version: Any = None,
        run_middleware: bool = True, **_: Any,
    ) -> PromptResult:  # fmt: skip
        """Fill in a prompt as a client would."""

        async def run() -> PromptResult:
            if not (run_middleware and self.middleware):
                return await self._render(name, arguments, version)
            message = t.GetPromptRequestParams(name=name, arguments=arguments)

            async def last(context: MiddlewareContext[Any]) -> Any:
                return await self._render(context.message.name, context.message.arguments, version)

            return await self._through("prompts/get", message, last)

        return await self._inside(run)

    async def _render(self, name: str, arguments: dict[str, Any] | None, version: Any) -> PromptResult:
        prompt = await self.find("prompt", name, version)
        if prompt is None:
            raise NotFoundError(
                f"Unknown prompt: {name!r}" if generation() == 3 else f"Unknown prompt: {name}"
            )
        _check_task(prompt, f"Prompt {name!r}")
        try:
            return await prompt.render_result(arguments)
        except (FastMCPError, McpError):
            raise
        except Exception as error:
            log.debug("prompt %r failed", name, exc_info=error)
            raise PromptError(f"Error rendering prompt {name!r}: {error}") from error


def _check_task(component: Any, what: str) -> None:
    """A prompt or a resource that may not, or must, be asked for as a task says so."""
    native = native_current.get()
    mode = "forbidden" if component.task_config is None else component.task_config.mode
    if native is None or mode == "optional":
        return
    if (TASK in native.meta) == (mode == "forbidden"):
        how = "does not support" if mode == "forbidden" else "requires"
        words = f"{what} {how} task-augmented execution"
        raise McpError(t.ErrorData(code=t.METHOD_NOT_FOUND, message=words))


def _last(components: Sequence[Any]) -> list[Any]:
    """Of several with one name the last: FastMCP 2 lets what was mounted later win."""
    if generation() == 3:
        return list(components)
    return list({one.key: one for one in components}.values())
