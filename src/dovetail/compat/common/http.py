"""Servers of ours as Starlette applications, and routes of Starlette on servers of ours."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from ...core.routes import METHODS, Response
from ...core.routes import Request as OwnRequest
from ...extras import missing
from ...server import Server
from .. import serving

try:
    from starlette.applications import Starlette
    from starlette.middleware.exceptions import ExceptionMiddleware
    from starlette.routing import BaseRoute, Match, Mount, Route
except ModuleNotFoundError:
    raise missing("starlette", "serving others over HTTP") from None

_CONVERTED: Final = re.compile(r"\{(\w+):(?!path)\w+\}")
"""A blank of Starlette's that takes only numbers and the like: it looks itself whether it got them."""


class StarletteWithLifespan(Starlette):
    """An application whose lifespan others can run: ``FastAPI(lifespan=app.lifespan)``."""

    @property
    def lifespan(self) -> Any:
        return self.router.lifespan_context


def create_base_app(
    routes: Sequence[BaseRoute], middleware: Sequence[Any] = (), debug: bool = False, lifespan: Any = None
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
    serving.prepared.append(lambda: native)

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
    """Have a server of ours answer routes of Starlette, and applications that are mounted; the first one counts."""
    taken: dict[str, set[str]] = {}
    for route in routes:
        path, methods = _CONVERTED.sub(r"{\1}", route.path), set(METHODS)
        if isinstance(route, Mount):
            path = path.rstrip("/") + "/{path:path}"
        else:
            methods = set(route.methods or {"GET"}) - {"HEAD"}
        methods -= taken.setdefault(path, set())
        if methods:
            native.route(path, methods=methods, auth=False)(native_handler(route))
            taken[path] |= methods


def native_handler(route: Any) -> Any:
    """A route of Starlette as one of ours: the request is made for it, its response is taken apart."""
    answer: Any = ExceptionMiddleware(route.handle)

    async def handle(asked: OwnRequest) -> Response:
        scope: dict[str, Any] = {
            "type": "http", "http_version": "1.1", "method": asked.method, "path": asked.path, "root_path": "",
            "raw_path": asked.path.encode(), "query_string": asked.query_string.encode(), "scheme": "http",
            "headers": _raw(asked.headers),
            "client": asked.scope.get("client"), "server": asked.scope.get("server"), "state": {},
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

        match, child = route.matches(scope)
        if match is Match.NONE:  # a blank that takes numbers, and got something else
            return Response("Not Found", 404)
        await answer({**scope, **child}, receive, send)
        kind = headers.pop("content-type", None)
        headers.pop("content-length", None)
        return Response(bytes(body), status, headers, kind)

    return handle


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
