"""Custom routes, on every host, with the guards of the endpoint."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Principal, RegistrationError, RouteRequest, RouteResponse, Server
from dovetail.auth import StaticTokens
from tests.support.aio import run
from tests.support.web import Site, served


def routed(**options: Any) -> Server:
    server = Server("routes", **options)

    @server.route("/hello")
    async def hello(request: RouteRequest) -> str:
        return f"hello {request.query.get('name', 'you')}"

    @server.route("/items/{id}", methods=["GET", "PUT"])
    def item(request: RouteRequest) -> dict[str, Any]:
        return {"id": request.params["id"], "body": request.text, "who": request.headers.get("x-who")}

    @server.route("/files/{name:path}", methods=["get"], auth=False)
    async def file(request: RouteRequest) -> bytes:
        return request.params["name"].encode()

    @server.route("/items/new", methods=["POST"])
    async def new(request: RouteRequest) -> RouteResponse:
        made = request.json(dict[str, int])
        return RouteResponse(made, 201, {"Location": "/items/7"})

    @server.route("/whoami")
    async def whoami(request: RouteRequest) -> str:
        return "" if request.principal is None else request.principal.subject

    @server.route("/broken")
    async def broken(request: RouteRequest) -> None:
        raise ValueError("secret")

    @server.route("/split")
    async def split(request: RouteRequest) -> RouteResponse:
        return RouteResponse("", headers={"X-Name": request.query["name"]})

    @server.route("/nothing")
    async def nothing(request: RouteRequest) -> None:
        return None

    return server


@asynccontextmanager
async def site(server: Server | None = None, **options: Any) -> AsyncIterator[Any]:
    async with served(server or routed(), **options) as place:

        async def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
            async with await place.connect() as connection:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                if method != "HEAD":
                    return await connection.ask(method, path, named, body)
                connection.request(method, path, named)
                return await connection.head()

        ask.place = place  # pyright: ignore[reportFunctionMemberAccess]
        yield ask


@run
async def test_a_query_of_very_many_members_is_400() -> None:
    async with site() as ask:
        assert (await ask("GET", "/hello?" + "a=1&" * 200 + "name=Ada")).body == b"hello Ada"
        assert (await ask("GET", "/hello?" + "a=1&" * 300)).status == 400


@run
async def test_handlers_get_a_small_request_and_answer_as_they_like() -> None:
    async with site() as ask:
        found = await ask("GET", "/hello?name=ada&x=1")
        assert (found.status, found.body) == (200, b"hello ada")
        assert found.headers["content-type"] == "text/plain; charset=utf-8"
        found = await ask("PUT", "/items/a%20b", b"data", X_Who="me")
        assert json.loads(found.body) == {"id": "a b", "body": "data", "who": "me"}
        assert found.headers["content-type"] == "application/json"
        found = await ask("GET", "/files/a/b.txt")
        assert (found.body, found.headers["content-type"]) == (b"a/b.txt", "application/octet-stream")
        found = await ask("POST", "/items/new", b'{"a": 1}')
        assert (found.status, found.headers["location"], json.loads(found.body)) == (
            201,
            "/items/7",
            {"a": 1},
        )
        assert (await ask("GET", "/nothing")).status == 204
        assert (await ask("HEAD", "/hello")).status == 200


@run
async def test_a_wrong_method_a_wrong_body_and_an_unknown_path_are_said() -> None:
    async with site() as ask:
        found = await ask("DELETE", "/items/1")
        assert (found.status, found.headers["allow"]) == (405, "GET, HEAD, PUT")
        assert (await ask("POST", "/items/new", b"not json")).status == 400
        assert (await ask("GET", "/items/")).status == 404
        assert (await ask("GET", "/items/a/b")).status == 404
        assert (await ask("GET", "/files/../x")).status in (400, 404)
        assert (await ask("GET", "/files/a/%2e%2e/x")).status in (400, 404)


@run
async def test_an_exception_is_masked_and_no_header_can_be_forged() -> None:
    async with site() as ask:
        found = await ask("GET", "/broken")
        assert found.status == 500
        assert b"secret" not in found.body
        found = await ask("GET", "/split?name=x%0d%0aSet-Cookie:%20a=b")
        assert found.status == 500
        assert "set-cookie" not in found.headers


OUTSIDE = ["//etc/passwd", "/%2Fetc/passwd", "/%2e%2e/x", "/a/..%2Fx", "/..%5Cx", "/C:%5Cx", "/a%00"]


@run
async def test_the_rest_of_a_path_stays_below_where_it_stands() -> None:
    async with site() as ask:
        for path in OUTSIDE:
            assert (await ask("GET", f"/files{path}")).status in (400, 404), path
        assert (await ask("GET", "/files/a/b")).body == b"a/b"


@run
async def test_how_an_answer_is_framed_is_not_the_authors() -> None:
    server = Server("routes")
    framing = {"Content-Length": "3", "transfer-encoding": "chunked", "Connection": "close", "X-Own": "own"}

    @server.route("/framed")
    async def framed(request: RouteRequest) -> RouteResponse:
        return RouteResponse("<p>twelve</p>", headers={**framing, "Content-Type": "text/html"})

    @server.route("/wrong/{what}")
    async def wrong(request: RouteRequest) -> RouteResponse:
        status = {"low": 101, "high": 1000}.get(request.params["what"], 200)
        return RouteResponse("x", status, {"X-Own": "é"} if status == 200 else {})

    async with site(server) as ask, await ask.place.connect() as connection:
        for _ in range(2):
            found = await connection.ask("GET", "/framed", {})
            assert (found.status, found.body, found.headers["content-length"]) == (
                200,
                b"<p>twelve</p>",
                "13",
            )
            assert (found.headers["content-type"], found.headers["x-own"]) == ("text/html", "own")
            assert "transfer-encoding" not in found.headers
        for what in ("low", "high", "letters"):
            assert (await ask("GET", f"/wrong/{what}")).status == 500


@run
async def test_host_and_origin_are_checked_as_at_the_endpoint() -> None:
    async with site(cors=True, allowed_origins=("https://page.example",)) as ask:
        assert (await ask("GET", "/hello", Host="evil.example")).status == 403
        assert (await ask("GET", "/hello", Origin="https://evil.example")).status == 403
        found = await ask(
            "OPTIONS", "/items/1", Origin="https://page.example", Access_Control_Request_Method="PUT"
        )
        assert (found.status, found.headers["access-control-allow-methods"]) == (204, "GET, HEAD, PUT")
        found = await ask("GET", "/hello", Origin="https://page.example")
        assert found.headers["access-control-allow-origin"] == "https://page.example"


@run
async def test_where_tokens_are_verified_a_route_wants_one_unless_it_is_open() -> None:
    server = routed(auth=StaticTokens({"good": Principal("ada")}))
    async with site(server) as ask:
        found = await ask("GET", "/whoami")
        assert found.status == 401
        assert "www-authenticate" in found.headers
        assert (await ask("GET", "/whoami", Authorization="Bearer bad")).status == 401
        assert (await ask("GET", "/whoami", Authorization="Bearer good")).body == b"ada"
        assert (await ask("GET", "/files/open")).body == b"open"


@run
async def test_a_body_has_the_bound_of_a_message() -> None:
    from dovetail import Limits

    server = routed(limits=Limits(max_message_bytes=1000))
    async with site(server) as ask:
        assert (await ask("PUT", "/items/1", b"x" * 1000)).status == 200
        assert (await ask("PUT", "/items/1", b"x" * 1001)).status == 413


@run
async def test_a_route_may_come_while_the_server_runs_and_the_endpoint_stays() -> None:
    server = routed()
    async with site(server) as ask:
        assert (await ask("GET", "/late")).status == 404
        server.route("/late")(lambda request: "late")
        assert (await ask("GET", "/late")).body == b"late"
        assert (await ask("GET", "/livez")).body == b"alive\n"
        assert (await ask("GET", "/readyz")).body == b"ready\n"
        assert (await ask("GET", "/mcp")).status == 405
        place: Site = ask.place
        assert place.port


@pytest.mark.parametrize(
    ("path", "methods", "words"),
    [
        ("hello", ["GET"], "slash"),
        ("/a?b", ["GET"], "query"),
        ("/a", ["FETCH"], "FETCH"),
        ("/a", [], "methods"),
        ("/a/{b}c", ["GET"], "whole segment"),
        ("/{a:path}/b", ["GET"], "or a final"),
        ("/{a}/{a}", ["GET"], "used twice"),
        ("/hello", ["GET"], "already"),
    ],
)
def test_a_route_that_cannot_be_is_refused(path: str, methods: list[str], words: str) -> None:
    with pytest.raises(RegistrationError, match=words):
        routed().route(path, methods=methods)(lambda request: None)


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("/mcp", {}, "'/mcp' is the path of the endpoint"),
        ("/mcp/", {}, "'/mcp/' is the path of the endpoint"),
        ("/here", {"path": "/here"}, "'/here' is the path of the endpoint"),
        ("/livez", {}, "path of the liveness probe"),
        ("/readyz", {}, "path of the readiness probe"),
        ("/sse", {}, "stream of HTTP"),
        ("/messages", {}, "post of HTTP"),
        ("/metrics", {"metrics": True}, "path of the page of metrics"),
        ("/.well-known/oauth-protected-resource/mcp", {}, "path of the metadata"),
    ],
)
def test_a_route_where_the_app_itself_answers_is_refused_when_that_is_made(
    path: str, options: dict[str, Any], words: str
) -> None:
    server = routed(auth=StaticTokens({"a": Principal("a")}, audience="https://a.example/mcp"))
    server.route(path, methods=["POST"])(lambda request: None)
    with pytest.raises(RegistrationError, match=words) as raised:
        server.asgi(**options)
    assert repr(path) in raised.value.message
    outer = Server("outer", auth=server.dispatcher.auth)
    outer.mount(server)
    with pytest.raises(RegistrationError, match=words):
        outer.asgi(**options)


def test_a_route_with_blanks_and_places_that_are_not_served_are_nobodys() -> None:
    server = routed()
    for path in ("/{rest:path}", "/mcp/{id}", "/sse", "/messages", "/metrics", "/.well-known/x"):
        server.route(path, methods=["POST"])(lambda request: None)
    server.asgi(sse_path=None)
    with pytest.raises(RegistrationError, match="'/sse'"):
        server.asgi()
