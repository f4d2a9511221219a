"""Servers of ours as Starlette applications, and routes of Starlette on servers of ours."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route

from ...core.routes import Request as OwnRequest
from ...core.routes import Response
from ...server import Server


class StarletteWithLifespan(Starlette):
    """An application whose lifespan others can run: ``FastAPI(lifespan=app.lifespan)``."""

    @property
    def lifespan(self) -> Any:
        return self.router.lifespan_context


def create_base_app(
    routes: Sequence[BaseRoute],
    middleware: Sequence[Any] = (),
    debug: bool = False,
    lifespan: Any = None,
) -> StarletteWithLifespan:
    """An application of these routes."""
    return StarletteWithLifespan(
        routes=list(routes), middleware=list(middleware), debug=debug, lifespan=lifespan
    )


def starlette_app(
    native: Server, routes: Sequence[Any], middleware: Sequence[Any] = (), **options: Any
) -> StarletteWithLifespan:
    """``native`` as an application: ``routes`` first, and all the rest is ours to answer."""
    face: Any = native.asgi(**options)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        await face.app.life.start()
        try:
            yield
        finally:
            await face.app.life.stop()

    # The endpoint stands in the table by its name, for those who look for it there.
    named = [Route(options[word], endpoint=face) for word in ("path", "sse_path") if options.get(word)]
    return create_base_app([*routes, *named, Mount("/", app=face)], middleware, lifespan=lifespan)


def add_routes(native: Server, routes: Iterable[Any]) -> None:
    """Have a server of ours answer routes of Starlette."""
    for route in routes:
        methods = set(route.methods or {"GET"}) - {"HEAD"}
        native.route(route.path, methods=methods, auth=False)(native_handler(route.endpoint))


def native_handler(endpoint: Any) -> Any:
    """A route of Starlette as one of ours: the request is made for it, its response is taken apart."""

    async def handle(asked: OwnRequest) -> Response:
        scope: dict[str, Any] = {
            "type": "http", "http_version": "1.1", "method": asked.method, "path": asked.path, "root_path": "",
            "raw_path": asked.path.encode(), "query_string": asked.query_string.encode(), "scheme": "http",
            "headers": _raw(asked.headers),
            "client": asked.scope.get("client"), "server": asked.scope.get("server"), "path_params": dict(asked.params),
            "state": {},
        }  # fmt: skip
        sent = [{"type": "http.request", "body": asked.body, "more_body": False}]

        async def receive() -> Any:
            return sent.pop() if sent else {"type": "http.disconnect"}

        status, headers, body = 200, dict[str, str](), bytearray()

        async def send(message: Any) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {
                    name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]
                }
            else:
                body.extend(message.get("body", b""))

        response = await _answered(endpoint, Request(scope, receive, send))
        await response(scope, receive, send)
        kind = headers.pop("content-type", None)
        headers.pop("content-length", None)
        return Response(bytes(body), status, headers, kind)

    return handle


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _answered(endpoint: Any, request: Request) -> Any:
    if inspect.iscoroutinefunction(endpoint):
        return await endpoint(request)
    value = await asyncio.to_thread(endpoint, request)
    return await value if inspect.isawaitable(value) else value
