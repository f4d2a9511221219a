"""`OpenAPIProvider`: an HTTP API as tools and resources, over our own server for such APIs."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ......openapi.routes import Route
from ......server import Server
from ......shapes import is_object
from ....client.client import Client
from ....client.transports import ClientTransport
from ..proxy import ProxyProvider
from .collisions import told_apart
from .routing import ComponentFn, HTTPRoute, MCPType, RouteMap, RouteMapFn, routes_of


class _InProcess(ClientTransport):
    def __init__(self, server: Server) -> None:
        self._server = server

    def target(self) -> Any:
        return self._server


class OpenAPIProvider(ProxyProvider):
    """What ``Server.from_openapi`` makes of a description, shown as components of FastMCP."""

    def __init__(
        self, openapi_spec: dict[str, Any], client: Any = None, *, route_maps: list[RouteMap] | None = None,
        route_map_fn: RouteMapFn | None = None, mcp_component_fn: ComponentFn | None = None,
        mcp_names: dict[str, str] | None = None, tags: set[str] | None = None, validate_output: bool = True,
    ) -> None:  # fmt: skip
        if not validate_output:
            openapi_spec = _unpromised(openapi_spec)
        self._routes = {one.name: one for one in routes_of(openapi_spec)}
        self._maps, self._tags = list(route_maps or ()), tags or set[str]()
        self._names: dict[str, str] = mcp_names or {}
        self._component_fn = mcp_component_fn
        written, openapi_spec = openapi_spec, told_apart(openapi_spec)
        rules = _decided(routes_of(openapi_spec), self._maps, route_map_fn)
        options: dict[str, Any] = {"routes": rules, "names": self._names, "name": "OpenAPI"}
        application = "openapi" in dir(client)  # of FastAPI, run in this process
        if application and validate_output and openapi_spec == written:
            self._server = Server.from_fastapi(client, **options)
        else:
            reached = _client_of(client) if application else client
            self._server = Server.from_openapi(openapi_spec, client=reached, **options)
        super().__init__(lambda: Client(_InProcess(self._server)))

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        async with self._server.running():
            yield

    def _dressed(self, components: Sequence[Any]) -> list[Any]:
        """Components with the tags of their routes, as the author's function leaves them."""
        for one in components:
            route = self._route(one)
            one.tags |= self._tags
            if route is not None:
                one.tags |= {
                    *route.tags,
                    *(tag for rule in self._maps if rule.matches(route) for tag in rule.mcp_tags),
                }
                if self._component_fn is not None:
                    self._component_fn(route, one)
        return list(components)

    def _route(self, component: Any) -> HTTPRoute | None:
        renamed: dict[str, str] = {new: old for old, new in self._names.items()}
        name: Any = renamed.get(component.name, component.name)
        plain = {re.sub(r"[^A-Za-z0-9_.-]", "_", key): route for key, route in self._routes.items()}
        return self._routes.get(name) or plain.get(name)

    async def _list_tools(self) -> Sequence[Any]:
        return self._dressed(await super()._list_tools())

    async def _list_resources(self) -> Sequence[Any]:
        return self._dressed(await super()._list_resources())

    async def _list_resource_templates(self) -> Sequence[Any]:
        return self._dressed(await super()._list_resource_templates())


def _client_of(application: Any) -> Any:
    import httpx  # whoever writes for FastMCP has it

    return httpx.AsyncClient(transport=httpx.ASGITransport(app=application), base_url="http://fastapi")


def _unpromised(spec: dict[str, Any]) -> dict[str, Any]:
    """The description without what it says of answers: so nothing of them is checked."""
    paths: dict[str, Any] = {}
    for path, item in spec.get("paths", {}).items():
        paths[path] = {
            word: {**said, "responses": {}} if is_object(said) and "responses" in said else said
            for word, said in item.items()
        }
    return {**spec, "paths": paths}


def _decided(routes: Any, maps: list[RouteMap], decide: RouteMapFn | None) -> list[Route]:
    """The routes of ours; where a function decides, one for each operation."""
    if decide is None:
        return [one.native() for one in maps]
    found: list[Route] = []
    for route in routes:
        kind = next((one.mcp_type for one in maps if one.matches(route)), MCPType.TOOL)
        said = decide(route, kind) or kind
        exact = f"^{re.escape(route.path)}$"
        found.append(RouteMap(methods=[route.method], pattern=exact, mcp_type=said).native())
    return found
