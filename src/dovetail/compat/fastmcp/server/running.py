"""How a FastMCP server gets onto a wire: ``run``, ``run_async``, ``http_app``, own routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ....server import Server as Native
from ... import serving

if TYPE_CHECKING:
    from .http import StarletteWithLifespan

F = TypeVar("F", bound=Callable[..., Any])
log = logging.getLogger("fastmcp")


class Running:
    """The part of a server that is spoken to."""

    auth: Any
    _settings: Any
    _additional_http_routes: list[Any]

    @property
    def native(self) -> Native:
        raise NotImplementedError

    # Own routes

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Callable[[F], F]:
        """Answer HTTP requests to ``path`` with a function that takes Starlette's request."""
        from starlette.routing import Route

        def add(function: F) -> F:
            route = Route(path, function, methods=methods, name=name, include_in_schema=include_in_schema)
            self._additional_http_routes.append(route)
            return function

        return add

    def _get_additional_http_routes(self) -> list[Any]:
        return self._additional_http_routes

    def add_native_routes(self, native: Native) -> None:
        """Have the server of ours answer the same routes."""
        if routes := [*self._get_additional_http_routes(), *self.auth_routes()]:
            from ...common.http import add_routes

            add_routes(native, routes)

    def auth_routes(self, auth: Any = None) -> list[Any]:
        """Routes that belong to what verifies tokens: those of an authorization server of the program's own."""
        provider = auth or self.auth
        if provider is None:
            return []
        from .auth.auth import AuthProvider

        path = _path(self._settings.streamable_http_path)
        routes = provider.get_routes(path) if isinstance(provider, AuthProvider) else []
        # What the endpoint says of itself (RFC 9728) is answered by ours.
        return [one for one in routes if not one.path.startswith("/.well-known/oauth-protected-resource")]

    # Running

    def run(self, transport: Any = None, show_banner: bool | None = None, **transport_kwargs: Any) -> None:
        """Serve until told to stop: ``run()`` is stdio, ``run("http", port=8000)``."""
        transport = self._placed(transport, transport_kwargs)
        if transport == "stdio":
            serving.run(self.native)
        elif self._needs_asgi(transport_kwargs):
            asyncio.run(self._run_asgi(transport, transport_kwargs))
        else:
            serving.run(self.native, transport, **self._http_options(transport, transport_kwargs))

    async def run_async(
        self, transport: Any = None, show_banner: bool | None = None, **transport_kwargs: Any
    ) -> None:
        """As `run`, in the event loop of the caller."""
        transport = self._transport(transport)
        if transport == "stdio":
            await self.run_stdio_async()
        else:
            await self.run_http_async(transport=transport, **transport_kwargs)

    async def run_stdio_async(self, show_banner: bool = True, log_level: str | None = None, **_: Any) -> None:
        """Serve over stdin and stdout."""
        await serving.serve(self.native)

    async def run_http_async(
        self, show_banner: bool | None = None, transport: str = "http", **options: Any
    ) -> None:
        """Serve over HTTP."""
        self._placed(transport, options)
        if self._needs_asgi(options):
            await self._run_asgi(transport, options)
        else:
            await serving.serve(self.native, transport, **self._http_options(transport, options))

    async def run_sse_async(self, **options: Any) -> None:
        """Serve HTTP+SSE."""
        await self.run_http_async(transport="sse", **options)

    async def run_streamable_http_async(self, **options: Any) -> None:
        """Serve Streamable HTTP."""
        await self.run_http_async(transport="http", **options)

    def _transport(self, transport: Any) -> str:
        name = transport or self._settings.transport
        if name not in {"stdio", "http", "sse", "streamable-http"}:
            raise ValueError(f"Unknown transport: {name}")
        return name

    def _placed(self, transport: Any, options: dict[str, Any]) -> str:
        """The transport; where a path is given, tokens are for the endpoint there."""
        name = self._transport(transport)
        if options.get("path") and name != "sse":
            self._settings.streamable_http_path = options["path"]
        return name

    def _needs_asgi(self, options: dict[str, Any]) -> bool:
        """The author's own ASGI middleware, settings of uvicorn, or an application put together otherwise."""
        if options.get("middleware") or options.get("uvicorn_config"):
            return True
        return type(self).http_app is not Running.http_app

    async def _run_asgi(self, transport: str, options: dict[str, Any]) -> None:
        import uvicorn

        given = dict(options)
        host, port = (
            given.pop("host", None) or self._settings.host,
            given.pop("port", None) or self._settings.port,
        )
        config: dict[str, Any] = {
            "log_level": str(given.pop("log_level", None) or self._settings.log_level).lower()
        }
        config |= given.pop("uvicorn_config", None) or {}
        given.pop("show_banner", None)
        app = self.http_app(transport=transport, **given)
        await uvicorn.Server(uvicorn.Config(app, host=host, port=port, lifespan="on", **config)).serve()

    def _http_options(self, transport: str, given: dict[str, Any]) -> dict[str, Any]:
        """Their options of HTTP as ours."""
        settings = self._settings
        known = {"host", "port", "path", "json_response", "stateless_http", "stateless", "log_level", "uvicorn_config",
                 "middleware", "show_banner", "allowed_hosts", "allowed_origins", "host_origin_protection"}  # fmt: skip
        if unknown := given.keys() - known:
            raise TypeError(f"run() got an unexpected keyword argument {min(unknown)!r}")
        options: dict[str, Any] = {
            "host": given.get("host") or settings.host, "port": given.get("port") or settings.port,
            "json_only": _chosen(given.get("json_response"), settings.json_response),
            "stateless": _chosen(given.get("stateless_http", given.get("stateless")), settings.stateless_http),
            # Theirs let in whoever reaches the address; ours wants to be told so.
            "allow_remote": True,
        }  # fmt: skip
        options |= self._guards(given)
        if transport == "sse":
            options["sse_path"] = given.get("path") or settings.sse_path
            options["messages_path"] = settings.message_path.rstrip("/")
        else:
            options["path"] = _path(given.get("path") or settings.streamable_http_path)
        return options

    def _guards(self, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("host_origin_protection") is False:
            serving.log.info(
                "host_origin_protection=False makes no difference here: ours looks at every Host"
            )
        hosts = given.get("allowed_hosts") or self._settings.http_allowed_hosts or ()
        origins = given.get("allowed_origins") or self._settings.http_allowed_origins or ()
        return {"allowed_hosts": tuple(hosts), "allowed_origins": tuple(origins)}

    # Applications

    def http_app(
        self, path: str | None = None, middleware: Sequence[Any] | None = None,
        json_response: bool | None = None, stateless_http: bool | None = None, transport: str = "http",
        event_store: Any = None, retry_interval: int | None = None, session_idle_timeout: Any = None,
        **guards: Any,
    ) -> StarletteWithLifespan:  # fmt: skip
        """This server as a Starlette application."""
        from .http import create_sse_app, create_streamable_http_app

        if unknown := guards.keys() - {"allowed_hosts", "allowed_origins", "host_origin_protection"}:
            raise TypeError(f"http_app() got an unexpected keyword argument {min(unknown)!r}")
        options = self._guards(guards)
        if session_idle_timeout not in (None, "auto"):
            options["session_idle"] = float(session_idle_timeout)
        settings = self._settings
        self._placed(transport, {"path": path})
        if transport == "sse":
            return create_sse_app(
                self, settings.message_path, path or settings.sse_path, middleware=middleware, **options
            )
        return create_streamable_http_app(
            self, _path(path or settings.streamable_http_path), event_store, retry_interval,
            json_response=_chosen(json_response, settings.json_response),
            stateless_http=_chosen(stateless_http, settings.stateless_http), middleware=middleware,
            **options,
        )  # fmt: skip

    def streamable_http_app(self, path: str | None = None, middleware: Any = None) -> StarletteWithLifespan:
        """As `http_app`."""
        return self.http_app(path, middleware)

    def sse_app(
        self, path: str | None = None, message_path: str | None = None, middleware: Any = None
    ) -> Any:
        """As `http_app`, for HTTP+SSE."""
        if message_path is not None:
            self._settings.message_path = message_path
        return self.http_app(path, middleware, transport="sse")

    # Who may call

    def native_auth(self) -> Any:
        """What verifies tokens for the server of ours."""
        if self.auth is None:
            return None
        from .auth.auth import AuthProvider

        if isinstance(self.auth, AuthProvider):
            self.auth.set_mcp_path(_path(self._settings.streamable_http_path))
            return self.auth.as_verifier()
        from ...common.auth import TokenVerifier

        return TokenVerifier(self.auth.verify_token)

    def _default_auth(self) -> Any:
        """What ``FASTMCP_SERVER_AUTH`` names, or nobody."""
        kind = self._settings.server_auth_class
        return None if kind is None else kind()


def _chosen(given: bool | None, default: bool) -> bool:
    return default if given is None else given


def _path(path: str) -> str:
    """Ours has no slash at its end; a request with one is answered all the same."""
    return path.rstrip("/") or "/"
