"""How the SDK's FastMCP gets onto a wire: ``run``, ``streamable_http_app``, ``sse_app``, own routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar

from .....server import Server as Native
from .... import serving
from ....common.bounds import bound

F = TypeVar("F", bound=Callable[..., Any])
_APPS: Final = {"sse": "sse_app", "streamable-http": "streamable_http_app"}


class Running:
    """The part of a server that is spoken to."""

    settings: Any
    _custom_starlette_routes: list[Any]
    _token_verifier: Any
    _auth_server_provider: Any
    _retry_interval: int | None

    @property
    def native(self) -> Native:
        raise NotImplementedError

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Callable[[F], F]:
        """Answer HTTP requests to ``path`` with a function that takes Starlette's request."""
        from starlette.routing import Route

        def add(function: F) -> F:
            route = Route(path, function, methods=methods, name=name, include_in_schema=include_in_schema)
            self._custom_starlette_routes.append(route)
            return function

        return add

    def prepare_native(self, native: Native) -> None:
        """Give the server of ours what it needs beyond the handlers."""
        if routes := self._routes():
            from ....common.http import add_routes

            add_routes(native, routes)
        if self._token_verifier is not None or self._auth_server_provider is not None:
            from ....common.auth import verifier_of

            native.auth = verifier_of(self._token_verifier, self.settings.auth, self._auth_server_provider)

    def _routes(self) -> list[Any]:
        """Own routes, and those of an authorization server of the program's own."""
        provider, auth = self._auth_server_provider, self.settings.auth
        if provider is None or auth is None:
            return self._custom_starlette_routes
        from ..auth.routes import create_auth_routes

        options = (auth.service_documentation_url, auth.client_registration_options, auth.revocation_options)
        return [*create_auth_routes(provider, auth.issuer_url, *options), *self._custom_starlette_routes]

    def run(
        self, transport: Literal["stdio", "sse", "streamable-http"] = "stdio", mount_path: str | None = None
    ) -> None:
        """Serve until told to stop."""
        if transport not in ("stdio", "sse", "streamable-http"):
            raise ValueError(f"Unknown transport: {transport}")
        _tell_mount(mount_path)
        if (app := self._own_app(transport)) is not None:
            asyncio.run(self._serve_app(app()))
        else:
            options = {} if transport == "stdio" else self._http_options(transport)
            serving.run(self.native, transport, **options)

    def _own_app(self, transport: str) -> Callable[[], Any] | None:
        """What makes the application, where the program has put its own in the place of ours."""
        name = _APPS.get(transport)
        if name is None or (name not in vars(self) and getattr(type(self), name) is getattr(Running, name)):
            return None
        return getattr(self, name)

    async def _serve_app(self, app: Any) -> None:
        import uvicorn

        level = self.settings.log_level.lower()
        config = uvicorn.Config(app, host=self.settings.host, port=self.settings.port, log_level=level)
        await uvicorn.Server(config).serve()

    async def run_stdio_async(self) -> None:
        """Serve over stdin and stdout."""
        await serving.serve(self.native)

    async def run_sse_async(self, mount_path: str | None = None) -> None:
        """Serve HTTP+SSE."""
        _tell_mount(mount_path)
        if (app := self._own_app("sse")) is not None:
            await self._serve_app(app())
        else:
            await serving.serve(self.native, "sse", **self._http_options("sse"))

    async def run_streamable_http_async(self) -> None:
        """Serve Streamable HTTP."""
        if (app := self._own_app("streamable-http")) is not None:
            await self._serve_app(app())
        else:
            await serving.serve(self.native, "streamable-http", **self._http_options("streamable-http"))

    def _normalize_path(self, mount_path: str, endpoint: str) -> str:
        """Where ``endpoint`` lies below ``mount_path``."""
        return mount_path.rstrip("/") + (endpoint if endpoint.startswith("/") else f"/{endpoint}")

    def _http_options(self, transport: str) -> dict[str, Any]:
        settings = self.settings
        return {
            "host": settings.host,
            "port": settings.port,
            "allow_remote": True,
            **self._app_options(transport),
        }

    def _app_options(self, transport: str) -> dict[str, Any]:
        """Their settings of HTTP as ours."""
        settings = self.settings
        bound(self.native, settings.max_request_body_size, settings.max_sessions)
        options: dict[str, Any] = {"json_only": settings.json_response, "stateless": settings.stateless_http}
        if self._retry_interval is not None:
            options["retry"] = self._retry_interval
        if settings.session_idle_timeout is not None:
            options["session_idle"] = settings.session_idle_timeout
        if transport == "sse":
            options |= {"sse_path": settings.sse_path, "messages_path": settings.message_path.rstrip("/")}
        else:
            options["path"] = settings.streamable_http_path.rstrip("/") or "/"
        security = settings.transport_security
        if security is not None and security.enable_dns_rebinding_protection:
            options["allowed_hosts"] = tuple(one.removesuffix(":*") for one in security.allowed_hosts)
            options["allowed_origins"] = tuple(one.removesuffix(":*") for one in security.allowed_origins)
        return options

    def streamable_http_app(self) -> Any:
        """This server as a Starlette application."""
        from ....common.http import starlette_app

        return starlette_app(self.native, self._routes(), **self._app_options("streamable-http"))

    def sse_app(self, mount_path: str | None = None) -> Any:
        """As `streamable_http_app`, for HTTP+SSE."""
        _tell_mount(mount_path)
        from ....common.http import starlette_app

        return starlette_app(self.native, self._routes(), **self._app_options("sse"))

    @property
    def session_manager(self) -> SessionManager:
        """What runs the sessions of HTTP, for whoever mounts the application without its lifespan."""
        return SessionManager(self.native, self.settings)


def _tell_mount(mount_path: str | None) -> None:
    if mount_path is not None:
        serving.log.info("mount_path= makes no difference here: clients are told of the address they came to")


class SessionManager:
    """``async with mcp.session_manager.run()``: the server lives as long as the block."""

    def __init__(self, native: Native, settings: Any) -> None:
        self._native = native
        self.max_request_body_size: int = settings.max_request_body_size
        self.session_idle_timeout: float | None = settings.session_idle_timeout
        self.max_sessions: int | None = settings.max_sessions

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        async with self._native.running():
            yield
