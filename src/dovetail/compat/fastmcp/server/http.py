"""FastMCP servers as Starlette applications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...common.bounds import history_of
from ...common.http import StarletteWithLifespan, create_base_app, starlette_app

__all__ = ["StarletteWithLifespan", "create_base_app", "create_sse_app", "create_streamable_http_app"]


def _app(
    server: Any, routes: Sequence[Any] | None, middleware: Sequence[Any] | None, shown: str, **options: Any
) -> Any:
    auth = options.pop("auth", None)
    if auth is not None:
        options["auth"] = auth.as_verifier()
    extra = server._get_additional_http_routes()  # the name is theirs, and servers override it
    every = [*(routes or ()), *extra, *server.auth_routes(auth)]
    app = starlette_app(server.native, every, middleware or (), **options)
    app.state.fastmcp_server = server
    app.state.path = shown
    return app


def create_streamable_http_app(
    server: Any, streamable_http_path: str, event_store: Any = None, retry_interval: int | None = None,
    auth: Any = None, json_response: bool = False, stateless_http: bool = False, debug: bool = False,
    routes: Sequence[Any] | None = None, middleware: Sequence[Any] | None = None, **others: Any,
) -> StarletteWithLifespan:  # fmt: skip
    """``server`` over Streamable HTTP, every revision at one path."""
    if event_store is not None:
        server.native.event_history = history_of(event_store)
    options = {"json_only": json_response, "stateless": stateless_http, "sse_path": None, **others}
    if retry_interval is not None:
        options["retry"] = retry_interval
    path = streamable_http_path
    return _app(server, routes, middleware, path, path=path, auth=auth, **options)


def create_sse_app(
    server: Any, message_path: str, sse_path: str, auth: Any = None, debug: bool = False,
    routes: Sequence[Any] | None = None, middleware: Sequence[Any] | None = None, **others: Any,
) -> StarletteWithLifespan:  # fmt: skip
    """``server`` over HTTP+SSE, the pair of 2024-11-05."""
    messages = message_path.rstrip("/") or "/messages"
    return _app(
        server, routes, middleware, sse_path, sse_path=sse_path, messages_path=messages, auth=auth, **others
    )
