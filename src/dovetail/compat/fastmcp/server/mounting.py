"""Servers inside of servers: `mount`, `import_server`, providers, proxies."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from .providers.local import LocalProvider
from .transforms.namespace import Namespace
from .transforms.tool_transform import ToolTransform

if TYPE_CHECKING:
    from .providers.fastmcp_provider import FastMCPProvider
    from .server import FastMCP


class Mounting:
    """The part of a server that shows others."""

    providers: list[Any]
    _local_provider: LocalProvider

    def components_changed(self) -> None:
        raise NotImplementedError

    def add_transform(self, transform: Any) -> None:
        raise NotImplementedError

    def mount(
        self, server: Any, namespace: str | None = None, as_proxy: bool | None = None,
        tool_names: dict[str, str] | None = None, prefix: str | None = None,
    ) -> None:  # fmt: skip
        """Show what ``server`` has as if it were registered here, with a prefix before its names."""
        if isinstance(server, str):  # FastMCP 2 once took the prefix first
            server, namespace = cast("Any", namespace), server
        provider = _provider(server)
        if tool_names:
            from ..tools.tool_transform import ToolTransformConfig

            renamed = {old: ToolTransformConfig(name=new) for old, new in tool_names.items()}
            provider.add_transform(ToolTransform(renamed))
        self.add_provider(
            provider, namespace=namespace or prefix or "", renamed=set((tool_names or {}).values())
        )

    def add_provider(self, provider: Any, *, namespace: str = "", renamed: set[str] | None = None) -> None:
        """Show what ``provider`` has.

        Raises:
            ValueError: this server would contain itself.
        """
        for server in provider.shown:
            if self in _within(server):
                raise ValueError(f"{server!r} cannot be mounted in {self!r}: it would contain itself")
        if namespace:
            provider.add_transform(_Around(namespace, renamed or set()))
        self.providers.append(provider)
        self.components_changed()

    async def import_server(self, server: Any, prefix: str | None = None) -> None:
        """Take in what ``server`` has now; what it gains later does not show."""
        if isinstance(server, str):
            server, prefix = cast("Any", prefix), server
        provider = _provider(server)
        for kind in ("tools", "resources", "resource_templates", "prompts"):
            for one in await provider.provided(kind):
                self._local_provider.add(Namespace(prefix).change(one) if prefix else one)

    def add_tool_transformation(self, tool_name: str, transformation: Any) -> None:
        """Show a tool with another name, description or arguments."""
        self.add_transform(ToolTransform({tool_name: transformation}))

    def mounted(self) -> list[Any]:
        """The servers whose components this one shows."""
        others = [one for one in self.providers if not isinstance(one, LocalProvider)]
        if not others:
            return []
        from .providers.fastmcp_provider import FastMCPProvider

        return [one.server for one in others if isinstance(one, FastMCPProvider)]

    def has_tasks(self) -> bool:
        """Whether a tool of it, or of what it shows, may run as a task."""
        tools = cast("FastMCP[Any]", self).local_provider.tables["tool"].values()
        return any(one.execution is not None for one in tools) or any(
            one.has_tasks() for one in self.mounted()
        )

    @classmethod
    def as_proxy(cls, backend: Any, **settings: Any) -> Any:
        """A server that shows what ``backend`` has: a client, a URL, a configuration, another server."""
        from .proxy import create_proxy

        return create_proxy(backend, **settings)

    @classmethod
    def from_openapi(
        cls, openapi_spec: dict[str, Any], client: Any = None, name: str | None = None, **options: Any
    ) -> Any:
        """A server for the HTTP API that ``openapi_spec`` describes."""
        from .openapi import FastMCPOpenAPI

        kind = cls if issubclass(cls, FastMCPOpenAPI) else FastMCPOpenAPI
        return kind(openapi_spec, client, name or "OpenAPI Server", **options)

    @classmethod
    def from_fastapi(cls, app: Any, name: str | None = None, **options: Any) -> Any:
        """A server for a FastAPI application, which runs in this process."""
        kept: dict[str, Any] | None = options.pop("httpx_client_kwargs", None)
        client: Any = app
        if kept:
            import httpx  # whoever has words for it has it

            kept = {"base_url": "http://fastapi", **kept}
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), **kept)
        return cls.from_openapi(app.openapi(), client, name or app.title, **options)

    @classmethod
    def from_client(cls, client: Any, **settings: Any) -> Any:
        """As `as_proxy`."""
        warnings.warn("from_client() is now as_proxy()", DeprecationWarning, stacklevel=2)
        return cls.as_proxy(client, **settings)


def _provider(server: Any) -> FastMCPProvider:
    from .providers.fastmcp_provider import FastMCPProvider  # few servers show another

    return FastMCPProvider(server)


class _Around(Namespace):
    """A prefix before all names but those that were given by hand."""

    def __init__(self, prefix: str, without: set[str]) -> None:
        super().__init__(prefix)
        self._without = without

    def name(self, name: str) -> str:
        return name if name in self._without else super().name(name)

    def plain_name(self, name: str) -> str | None:
        return name if name in self._without else super().plain_name(name)


def _within(server: Any) -> list[Any]:
    """``server``, all servers that it shows, and those they show."""
    providers = server.providers if isinstance(server, Mounting) else ()
    return [server, *(deeper for one in providers for inner in one.shown for deeper in _within(inner))]
