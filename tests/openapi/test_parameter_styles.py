"""Where arguments go in a request: every style of parameters, and that none of them leaves its place."""

import posixpath
import unicodedata
from collections.abc import Coroutine
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail import Client, ProtocolError, Server, ToolError
from dovetail.openapi.description import Document
from dovetail.openapi.openapi_schemas import OpenApiSchemas
from dovetail.openapi.operation_arguments import RequestPlan
from dovetail.openapi.operations import Parameter, operations
from dovetail.openapi.parameter_styles import BadValue, cookies, header_value, path_piece, query_pairs
from tests.support.aio import run
from tests.support.http_clients import made_by

from .recorder import Recorder, operation, parameter, recorder, spec

LIST = ["blue", "a,b|c d"]
OBJECT = {"R": 100, "G": "x=y"}

# OpenAPI, "Style Examples": primitive, array and object, without and with explode.
PATHS = {
    ("simple", False): ("bl%2Fue", "blue,a%2Cb%7Cc%20d", "R,100,G,x%3Dy"),
    ("simple", True): ("bl%2Fue", "blue,a%2Cb%7Cc%20d", "R=100,G=x%3Dy"),
    ("label", False): (".bl%2Fue", ".blue,a%2Cb%7Cc%20d", ".R,100,G,x%3Dy"),
    ("label", True): (".bl%2Fue", ".blue.a%2Cb%7Cc%20d", ".R=100.G=x%3Dy"),
    ("matrix", False): (";color=bl%2Fue", ";color=blue,a%2Cb%7Cc%20d", ";color=R,100,G,x%3Dy"),
    ("matrix", True): (";color=bl%2Fue", ";color=blue;color=a%2Cb%7Cc%20d", ";R=100;G=x%3Dy"),
}
QUERIES = {
    ("form", False): ("color=bl%2Fue", "color=blue,a%2Cb%7Cc%20d", "color=R,100,G,x%3Dy"),
    ("form", True): ("color=bl%2Fue", "color=blue&color=a%2Cb%7Cc%20d", "R=100&G=x%3Dy"),
    ("spaceDelimited", False): ("color=bl%2Fue", "color=blue%20a%2Cb%7Cc%20d", "color=R%20100%20G%20x%3Dy"),
    ("pipeDelimited", False): ("color=bl%2Fue", "color=blue%7Ca%2Cb%7Cc%20d", "color=R%7C100%7CG%7Cx%3Dy"),
    ("deepObject", True): (
        "color=bl%2Fue",
        "color=blue&color=a%2Cb%7Cc%20d",
        "color%5BR%5D=100&color%5BG%5D=x%3Dy",
    ),
}


@pytest.mark.parametrize(("style", "explode"), PATHS)
def test_every_style_of_a_path(style: str, explode: bool) -> None:
    one = Parameter(name="color", place="path", schema={}, style=style, explode=explode)
    assert tuple(path_piece(one, value) for value in ("bl/ue", LIST, OBJECT)) == PATHS[style, explode]


@pytest.mark.parametrize(("style", "explode"), QUERIES)
def test_every_style_of_a_query(style: str, explode: bool) -> None:
    one = Parameter(name="color", place="query", schema={}, style=style, explode=explode)
    made = tuple("&".join(query_pairs(one, value)) for value in ("bl/ue", LIST, OBJECT))
    assert made == QUERIES[style, explode]


def test_deep_objects_empty_lists_booleans_and_reserved_characters() -> None:
    deep = Parameter(name="f[x]", place="query", schema={}, style="deepObject")
    assert list(query_pairs(deep, {"a": {"b": 1}, "c": [True, False]})) == [
        "f%5Bx%5D%5Ba%5D%5Bb%5D=1",
        "f%5Bx%5D%5Bc%5D=true",
        "f%5Bx%5D%5Bc%5D=false",
    ]
    plain = Parameter(name="q", place="query", schema={}, style="form", explode=True)
    assert list(query_pairs(plain, [])) == []
    allowed = Parameter(name="q", place="query", schema={}, style="form", empty=True, reserved=True)
    assert list(query_pairs(allowed, [])) == ["q="]
    assert list(query_pairs(allowed, "a/b?c:d&e=f#g")) == ["q=a/b?c:d%26e%3Df%23g"]
    assert list(query_pairs(allowed, ["a,b", "c"])) == ["q=a%2Cb,c"]
    as_json = Parameter(name="q", place="query", schema={}, json=True)
    assert list(query_pairs(as_json, {"a": [1]})) == ["q=%7B%22a%22%3A%5B1%5D%7D"]


def test_headers_and_cookies() -> None:
    header = Parameter(name="X-Ids", place="header", schema={})
    assert header_value(header, [1, 2]) == "1,2"
    assert header_value(header, {"a": 1, "b": 2}) == "a,1,b,2"
    apart = Parameter(name="X-Ids", place="header", schema={}, explode=True)
    assert header_value(apart, {"a": 1, "b": 2}) == "a=1,b=2"
    cookie = Parameter(name="id", place="cookie", schema={}, style="form", explode=True)
    assert cookies(cookie, "a; b=c") == "id=a%3B%20b%3Dc"
    assert cookies(cookie, [1, 2]) == "id=1; id=2"


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\0b", "a\x85b", "a\u2028b", "\x7f"])
def test_a_header_holds_no_line_break(value: str) -> None:
    header = Parameter(name="X-Note", place="header", schema={})
    for one in (value, [value], {value: 1}, {"a": value}):
        with pytest.raises(ValueError, match="control characters"):
            header_value(header, one)


# --- no value leaves its place --------------------------------------------------------------------------------------


def plan_of(path: str, *parameters: dict[str, Any]) -> RequestPlan:
    document = Document(spec({path: {"get": operation(*parameters)}}))
    (found,) = operations(document)
    return RequestPlan(found, document, OpenApiSchemas(document, request=True))


PIECES = st.one_of(
    st.sampled_from([
        "..", ".", "/", "//", "\\", "%2e", "%2E%2e", "%252e%252e", "%2f", "%5c", "．", "․․", "‥",
        "。", "／", "＼", "?", "#",
        "@", ":", ";", "evil.example", "http://evil.example", "\r\n", "\0", "", " ", "%00", "&", "=", "%",
    ]),
    st.text(max_size=4),
)  # fmt: skip
HOSTILE = st.lists(PIECES, min_size=1, max_size=6).map("".join)
STYLES = st.sampled_from(["simple", "label", "matrix"])
VALUES = st.one_of(
    HOSTILE, st.lists(HOSTILE, min_size=1, max_size=3), st.dictionaries(HOSTILE, HOSTILE, min_size=1)
)


def resolved(path: str) -> list[str]:
    """What a careless server may make of a path: decoded until nothing changes, normalized, climbed."""
    for _ in range(6):
        path = unquote(path)
    plain = unicodedata.normalize("NFKC", path).replace("\\", "/")
    return posixpath.normpath(plain).split("/")


@settings(max_examples=400, deadline=None)
@given(one=VALUES, two=VALUES, query=VALUES, style=STYLES, explode=st.booleans(), note=HOSTILE)
@example(one=".", two=".", query="x", style="simple", explode=False, note="")
@example(one="a/../../..", two="x", query="x", style="simple", explode=False, note="")
@example(one="%2e%2e%2f%2e%2e", two="x", query="x", style="label", explode=True, note="a\r\nHost: evil")
@example(one="‥", two="．", query="#", style="simple", explode=False, note="x")
@example(one="%25252e%25252e%25252f", two="x", query="x", style="simple", explode=False, note="x")
def test_values_never_change_host_or_path_prefix(
    one: Any, two: Any, query: Any, style: str, explode: bool, note: str
) -> None:
    plan = plan_of(
        "/v1/pets/{one}{two}/toys/{two}",
        parameter("one", "path", style=style, explode=explode),
        parameter("two", "path", style=style, explode=explode),
        parameter("q", "query"),
        parameter("X-Note", "header"),
    )
    try:
        request = plan.request({"one": one, "two": two, "q": query, "X-Note": note})
    except BadValue:
        return
    parts = urlsplit("http://api.example/base" + request.target)
    assert (parts.netloc, parts.fragment) == ("api.example", "")
    assert request.target.isascii()
    assert not set(request.target) & set(' \r\n\t\0\\#<>"')
    segments = parts.path.split("/")
    assert segments[:4] == ["", "base", "v1", "pets"]
    assert (segments[5], len(segments)) == ("toys", 7)
    careless = resolved(parts.path)
    assert careless[:4] == ["", "base", "v1", "pets"]
    assert not set("\r\n\0") & set("".join(request.headers.values()))
    assert set(request.headers) <= {"Accept", "X-Note"}


@pytest.mark.parametrize(
    "value", [".", "..", "", "a/../b", "..\\x", "%2e%2e", "．．", "‥", "..;x=1", None, [], {}]
)
def test_path_values_that_climb_or_vanish_are_refused(value: Any) -> None:
    plan = plan_of("/pets/{id}", parameter("id", "path"))
    with pytest.raises(BadValue) as refused:
        plan.request({"id": value})
    assert refused.value.argument == "id"


def test_variables_that_touch_cannot_climb_together() -> None:
    plan = plan_of("/files/{a}{b}", parameter("a", "path"), parameter("b", "path"))
    assert plan.request({"a": ".", "b": "x"}).target == "/files/.x"
    with pytest.raises(BadValue, match=r"a path segment '\.'"):
        plan.request({"a": ".", "b": "."})


PETS = spec(
    {"/pets/{id}": {"get": operation(parameter("id", "path"), parameter("q", "query", explode=False))}}
)


def in_a_client(server: Server, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]:
    async def call() -> Any:
        async with Client(server) as client:
            return await client.call_tool("call", arguments)

    return call()


@pytest.mark.parametrize("library", ["ours", "httpx2", "httpx"])
def test_the_request_line_is_the_same_with_every_client(library: str) -> None:
    @run
    async def the_same() -> None:
        async with recorder() as api:
            server = Server.from_openapi(PETS, client=f"{api.url}/v1")
            if library != "ours":
                async with made_by(library) as client:
                    server = Server.from_openapi(PETS, client=client, base_url=f"{api.url}/v1/")
                    await check(api, server)
            else:
                await check(api, server)

    async def check(api: Recorder, server: Server) -> None:
        for value, path in (
            ("a/b", "a%2Fb"),
            ("%41%2e", "%2541%252e"),
            ("ü~.", "%C3%BC~."),
            ("a?b#c", "a%3Fb%23c"),
        ):
            await in_a_client(server, {"id": value, "q": ["x,y", "z+ü &="]})
            assert api.last.line == f"GET /v1/pets/{path}?q=x%2Cy,z%2B%C3%BC%20%26%3D HTTP/1.1"

    the_same()


@run
async def test_a_refused_request_is_reported_and_nothing_is_sent() -> None:
    async with recorder() as api:
        server = Server.from_openapi(PETS, client=api.url)
        for value in ("..", ".", "a/../b"):
            with pytest.raises((ToolError, ProtocolError), match="id"):
                await in_a_client(server, {"id": value})
        assert api.requests == []


def test_headers_that_say_where_a_request_goes_are_no_arguments() -> None:
    names = (
        "Host",
        "Authorization",
        "content-length",
        "X-Original-URL",
        "Cookie",
        "X-Forwarded-Host",
        "X-Fine",
    )
    plan = plan_of("/x", *(parameter(name, "header") for name in names))
    assert list(plan.schema["properties"]) == ["X-Fine"]
