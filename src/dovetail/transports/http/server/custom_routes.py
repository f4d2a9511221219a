"""Custom routes: HTTP routes that the application adds to a server.

A custom route passes the checks of the endpoint: Host, Origin, shutdown, and address checks of the
middleware. If the server authenticates its callers, so does the route, unless it was registered with
``auth=False``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from ....core.principal import Principal
from ....core.route_handlers import CustomRoute, RouteRequest, RouteResponse
from ....drivers.middleware_chain import AddressCheck
from ....drivers.run import mask
from ....lazy_pattern import lazy_pattern
from .http_exchange import JSON_TYPE, TEXT_TYPE, Exchange, Headers, HttpService, refused_by_address
from .identity import CallerIdentity

QUERY_MEMBERS: Final = 256
"""Maximum members of a query string that are parsed for a handler. More of them get status 400."""

_BYTES: Final = ("content-type", "application/octet-stream")
_NAME: Final = lazy_pattern(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_FRAMING: Final = frozenset({
    "connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
"""Headers that only the HTTP server sets: a second one could split one response into two."""
_STATUSES: Final = range(200, 600)
Found = list[tuple[CustomRoute, dict[str, str]]]


class CustomRoutes:
    """The custom routes of one app."""

    def __init__(
        self,
        service: HttpService,
        identity: CallerIdentity,
        *,
        doors: Sequence[tuple[Any, AddressCheck]],
        enter: Callable[[Exchange, str, bool], Awaitable[bool]],
        read: Callable[[Exchange, int | None], Awaitable[bytes | None]],
    ) -> None:
        self._service = service
        self._identity = identity
        self._doors = doors
        self._enter = enter
        self._read = read

    def find(self, path: str) -> Callable[[Exchange], Awaitable[bool]] | None:
        """Return the handler of the custom routes at ``path``, or None. Routes may be added at any time."""
        found = self._service.find_routes(path)
        return partial(self._route, found) if found else None

    async def _route(self, found: Found, exchange: Exchange) -> bool:
        served = {name for route, _ in found for name in route.methods}
        methods = ", ".join(sorted(served | {"HEAD"} if "GET" in served else served))
        public = all(route.public for route, _ in found)
        if not await self._enter(exchange, methods, public):
            return False
        chosen = _chosen(found, exchange.method)
        if chosen is None:
            await exchange.answer(405, headers=[("allow", methods)])
            return False
        for shut, door in self._doors:
            if shut and await refused_by_address(exchange, self._service.admission, door):
                return False
        route, params = chosen
        identity = self._identity
        principal = await identity.principal_of(exchange) if identity.authenticates and route.auth else None
        from urllib.parse import parse_qsl  # imported on demand

        try:
            query = parse_qsl(exchange.query, keep_blank_values=True, max_num_fields=QUERY_MEMBERS)
        except ValueError:
            await exchange.answer(400, b"the query has too many members\n", kind=TEXT_TYPE)
            return False
        body = await self._read(exchange, route.max_body_bytes)
        if body is not None:
            await self._answer(exchange, route, params, dict(query), body, principal)
        return False

    async def _answer(
        self,
        exchange: Exchange,
        route: CustomRoute,
        params: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        principal: Principal | None,
    ) -> None:
        """Send the response of the handler. The client gets no details of an exception."""
        request = RouteRequest(
            method=exchange.method,
            path=exchange.path,
            params=params,
            query=query,
            query_string=exchange.query,
            headers=exchange.headers,
            body=body,
            principal=principal,
            scope=exchange.scope,
        )
        try:
            value = await self._service.runner.call(route.handler, request)
            status, said, headers, kind = _written(value)
        except msgspec.DecodeError:
            await exchange.answer(400, b"the body is not the JSON that is wanted\n", kind=TEXT_TYPE)
        except Exception:  # noqa: BLE001  it is in the log
            error = mask(f"the route {route.path}")
            await exchange.answer(500, f"{error.message}\n".encode(), kind=TEXT_TYPE)
        else:
            await exchange.answer(status, b"" if exchange.method == "HEAD" else said, headers, kind)


def _chosen(found: Found, method: str) -> tuple[CustomRoute, dict[str, str]] | None:
    """The route for ``method``. HEAD is a GET whose body is not sent."""
    for name in (method, "GET") if method == "HEAD" else (method,):
        for route, params in found:
            if name in route.methods:
                return route, params
    return None


def _written(value: Any) -> tuple[int, bytes, Headers, tuple[str, str]]:
    response = (
        value if isinstance(value, RouteResponse) else RouteResponse(value, 204 if value is None else 200)
    )
    body = response.body
    kind = TEXT_TYPE if isinstance(body, str) else JSON_TYPE
    if isinstance(body, bytes | bytearray):
        said, kind = bytes(body), _BYTES
    elif body is None:
        said = b""
    else:
        said = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    headers = {name.lower(): text for name, text in response.headers.items() if name.lower() not in _FRAMING}
    kind = ("content-type", response.content_type or headers.pop("content-type", kind[1]))
    for name, text in (*headers.items(), kind):
        # A line end in a value could add headers that the handler did not set.
        if not _NAME.fullmatch(name) or not text.isprintable() or not text.isascii():
            raise ValueError(f"{name!r} is not a valid header")
    if response.status not in _STATUSES:
        raise ValueError(f"{response.status!r} is not a valid status")
    return response.status, said, list(headers.items()), kind
