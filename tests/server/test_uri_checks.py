"""URIs and media types: what can be registered, and the errors for invalid ones."""

from typing import Any

import pytest

from dovetail import RegistrationError, Server
from tests.server.weather import every_revision
from tests.support.aio import run
from tests.support.peer import MODERN, Peer

ODD = {
    "readme": ("invalid_uri", -32022),
    "": ("invalid_uri", -32022),
    "//host/path": ("invalid_uri", -32022),
    "1a:b": ("invalid_uri", -32022),
    "not a uri": ("uri_syntax_error", -32023),
    "x://a/%zz": ("uri_syntax_error", -32023),
    "x://a\nb": ("uri_syntax_error", -32023),
    "x://[::1": ("uri_syntax_error", -32023),
    "x://host:port/": ("uri_syntax_error", -32023),
    "x://host:99999/": ("uri_syntax_error", -32023),
    "C:\\file": ("uri_syntax_error", -32023),
    "x://" + "a" * 9000: ("uri_too_long", -32024),
}
WELL = ["x://nowhere", "urn:isbn:123", "x://grüße/ö", "x:///a?b=c#d", "x://a/%20b", "http://[::1]:80/"]


def build(dialect: str = "official") -> Server:
    server = Server("addresses", dialect=dialect)

    @server.resource("weather://{city}/now")
    def now(city: str) -> str:
        """Now."""
        return city

    @server.resource("x://there")
    def there() -> str:
        """There."""
        return "here"

    return server


@every_revision
@pytest.mark.parametrize(("uri", "expected"), ODD.items(), ids=[uri[:12] for uri in ODD])
@run
async def test_an_invalid_uri_and_a_missing_resource_have_different_errors(
    revision: str, uri: str, expected: tuple[str, int]
) -> None:
    kind, number = expected
    for method in ("resources/read", "resources/subscribe")[: 1 if revision == MODERN else 2]:
        error = await Peer(build(), revision).error(method, uri=uri)
        assert (error["code"], error["data"]["kind"]) == (-32602, kind)
        assert error["data"]["uri"] == uri[:1024]
        error = await Peer(build("erlmcp"), revision).error(method, uri=uri)
        found = error["data"]["dialectCode"] if revision == MODERN else error["code"]
        assert (found, error["data"]["kind"]) == (number, kind)


@every_revision
@run
async def test_an_address_that_is_one_is_simply_not_there(revision: str) -> None:
    peer = Peer(build(), revision)
    for uri in WELL:
        error = await peer.error("resources/read", uri=uri)
        assert (error["code"], error["data"]["kind"]) == (
            -32602 if revision == MODERN else -32002,
            "resource_not_found",
        )
        if revision != MODERN:
            assert await peer.result("resources/subscribe", uri=uri) == {}


@every_revision
@run
async def test_a_template_that_is_not_there_is_called_one(revision: str) -> None:
    for dialect, number in (("official", -32002), ("erlmcp", -32021)):
        error = await Peer(build(dialect), revision).error("resources/read", uri="people://{name}")
        assert error["code"] == (-32602 if revision == MODERN else number)
        assert error["data"]["kind"] == "resource_template_not_found"


@pytest.mark.parametrize(("uri", "expected"), ODD.items(), ids=[uri[:12] for uri in ODD])
def test_what_is_no_uri_cannot_be_registered(uri: str, expected: tuple[str, int]) -> None:
    server = build()
    with pytest.raises(RegistrationError) as caught:
        server.add_resource(uri, lambda: "x", name="x")
    assert caught.value.kind == expected[0]
    assert list(server.registry.resources) == ["x://there"]


@pytest.mark.parametrize("uri", WELL)
def test_every_uri_can_be_registered_once(uri: str) -> None:
    server = build()
    server.add_resource(uri, lambda: "x", name="x")
    with pytest.raises(RegistrationError) as caught:
        server.add_resource(uri, lambda: "x", name="x")
    assert caught.value.kind == "resource_already_exists"
    with pytest.raises(RegistrationError) as caught:
        server.add_resource("weather://{city}/now", lambda city: "x", name="x")
    assert caught.value.kind == "resource_already_exists"


@pytest.mark.parametrize(
    "text", ["markdown", "", "text/", "/plain", "text/pl ain", "a/b/c", "te xt/plain", "ü/x"]
)
def test_what_is_no_media_type_cannot_be_registered(text: str) -> None:
    server = build()
    for add in (server.add_resource, server.add_resource):
        uri = "y://one" if add == server.add_resource else "y://{one}"
        function: Any = (lambda: "x") if add == server.add_resource else (lambda one: "x")
        with pytest.raises(RegistrationError) as caught:
            add(uri, function, name="x", mime_type=text)
        assert caught.value.kind == "invalid_mime_type"


@pytest.mark.parametrize(
    "text",
    [
        "text/plain",
        "text/html;profile=mcp-app",
        "text/plain; charset=utf-8",
        "application/vnd.custom+json",
        "x/y",
        "inode/directory",
        "audio/mp3",
    ],
)
def test_every_media_type_can_be_registered(text: str) -> None:
    build().add_resource("y://one", lambda: "x", name="x", mime_type=text)
