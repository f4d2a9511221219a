"""What a request looks like on the wire, and that nothing a caller passes can make it look like two."""

import asyncio
import base64
from typing import Any

import pytest

from dovetail.errors import TransportError
from dovetail.transports.http.client.url_parts import address_of, displayed
from dovetail.transports.http.client.url_routes import request, route_to
from tests.http.raw_server import answer, answering, ask, raw_server, session
from tests.support.aio import run
from tests.support.held import held
from tests.support.waiting import HANG

HERE = route_to("http://example.com/mcp", proxy=False)


def lines(*args: Any, **options: Any) -> list[str]:
    return request(*args, **options).decode().split("\r\n")


def names(head: list[str]) -> list[str]:
    return [line.partition(":")[0].lower() for line in head[1:] if line]


def test_long_heads_are_not_kept_to_be_sent_again() -> None:
    route = route_to("http://example.com/mcp", proxy=False)
    for number in range(50):
        request("POST", route, {"Mcp-Name": f"{number}{'x' * 50_000}"}, b"")
    assert held(route.heads) < 50_000


@run
async def test_a_request_arrives_as_it_was_meant() -> None:
    async with raw_server(answering(answer())) as server, session() as send:
        await send("POST", f"http://127.0.0.1:{server.port}/a b?c=d e#f", {"X-One": "1"}, b'{"a": 1}')
        head, body = server.peers[0].requests[0]
        assert head.split("\r\n") == [
            "POST /a%20b?c=d%20e HTTP/1.1",
            f"Host: 127.0.0.1:{server.port}",
            "User-Agent: dovetail",
            "Accept-Encoding: gzip, deflate",
            "X-One: 1",
            "Content-Length: 8",
            "",
            "",
        ]
        assert body == b'{"a": 1}'


def test_a_header_of_the_caller_replaces_the_default_in_any_case() -> None:
    own = {"HOST": "other.example", "user-AGENT": "me", "Accept-encoding": "identity", "content-length": "7"}
    head = lines("POST", HERE, own, b"{}")
    assert sorted(names(head[:-1])) == ["accept-encoding", "content-length", "host", "user-agent"]
    assert "HOST: other.example" in head
    assert "Content-Length: 2" in head


def test_the_same_header_twice_in_two_cases_is_sent_once() -> None:
    head = lines("POST", HERE, {"Content-Type": "text/plain", "content-type": "application/json"}, b"{}")
    assert [line for line in head if line.lower().startswith("content-type")] == [
        "content-type: application/json"
    ]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("POST", None, "0"),
        ("POST", b"", "0"),
        ("GET", None, None),
        ("DELETE", None, None),
        ("DELETE", b"x", "1"),
    ],
)
def test_where_a_request_ends_is_said_by_us_alone(
    method: str, body: bytes | None, length: str | None
) -> None:
    for headers in ({}, {"Content-Length": "100"}):
        head = lines(method, HERE, headers, body)
        said = [line.partition(": ")[2] for line in head if line.startswith("Content-Length")]
        assert said == ([] if length is None else [length])


INJECTED = [
    "a\r\nX-Evil: 1",
    "a\nX-Evil: 1",
    "a\rX-Evil: 1",
    "a\0b",
    "\r\n\r\nGET / HTTP/1.1",
    "\n",
    "\r",
    "a\r\n b",
]


@pytest.mark.parametrize("value", INJECTED)
def test_a_value_that_ends_its_line_is_refused(value: str) -> None:
    for headers in ({"X": value}, {"X": "1", "Host": value}, {"X": value, "Y": value}):
        with pytest.raises(TransportError, match="line break or a null") as caught:
            request("POST", HERE, headers, b"{}")
        assert caught.value.cause == "protocol"


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "a\r\nb", "a\n", "a\0", "é", "a\tb", "(a)", "x" * 10 + "\r"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(TransportError, match="is not a valid header name"):
        request("POST", HERE, {name: "1"}, b"{}")


@pytest.mark.parametrize("method", ["", "GET /evil HTTP/1.1\r\nX: ", "GET ", "G\r\nT", "G\0"])
def test_a_method_that_is_none_is_refused(method: str) -> None:
    with pytest.raises(TransportError, match="is not a valid HTTP method"):
        request(method, HERE, {}, None)


def test_a_transfer_encoding_of_the_caller_is_refused() -> None:
    for _ in range(2):
        with pytest.raises(TransportError, match="bodies are sent unencoded"):
            request("POST", HERE, {"transfer-encoding": "chunked"}, b"{}")


def test_a_value_beyond_ascii_is_sent_as_utf_8_and_half_a_character_is_refused() -> None:
    assert "X: Grüße ✓".encode() in request("POST", HERE, {"X": "Grüße ✓"}, None)
    with pytest.raises(TransportError, match="unpaired surrogate"):
        request("POST", HERE, {"X": "\ud800"}, None)


@run
async def test_nothing_is_sent_of_a_request_that_is_refused() -> None:
    async with raw_server(answering(answer())) as server, session() as send:
        with pytest.raises(TransportError):
            await send("POST", server.url, {"X": "\r\n"}, b"{}")
        assert not server.peers
        assert await ask(send, server.url) == b"hello"


# --- URLs ----------------------------------------------------------------------------------------------------------

ADDRESSES = {
    "http://example.com": ((False, "example.com", 80), "/", "example.com"),
    "HTTP://EXAMPLE.com:80/": ((False, "example.com", 80), "/", "example.com"),
    "https://example.com:443/a": ((True, "example.com", 443), "/a", "example.com"),
    "https://example.com:80/a": ((True, "example.com", 80), "/a", "example.com:80"),
    "http://example.com?a=b": ((False, "example.com", 80), "/?a=b", "example.com"),
    "http://[::1]:8000/mcp": ((False, "::1", 8000), "/mcp", "[::1]:8000"),
    "http://[fe80::1%25eth0]/": ((False, "fe80::1%25eth0", 80), "/", "[fe80::1]"),
    "http://h/a b/ü/%20/%zz?q=ü&r=[1]#f": ((False, "h", 80), "/a%20b/%C3%BC/%20/%zz?q=%C3%BC&r=[1]", "h"),
    "http://bücher.example/": ((False, "xn--bcher-kva.example", 80), "/", "xn--bcher-kva.example"),
    "http://h/a\r\nX-Evil: 1": ((False, "h", 80), "/aX-Evil:%201", "h"),
    "http://h/\0\x7f\x85": ((False, "h", 80), "/%00%7F%C2%85", "h"),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_a_url_is_taken_apart(url: str) -> None:
    address = address_of(url)
    assert (address.origin, address.path, address.name) == ADDRESSES[url]
    assert address.authorization is None


@pytest.mark.parametrize(
    ("userinfo", "pair"),
    [
        ("user:pass", "user:pass"),
        ("user", "user:"),
        (":pw", ":pw"),
        ("a%40b:%C3%BC:x", "a@b:ü:x"),
        ("ü", "ü:"),
    ],
)
def test_a_user_in_the_url_becomes_basic_authorization(userinfo: str, pair: str) -> None:
    route = route_to(f"http://{userinfo}@example.com/", proxy=False)
    assert route.address.name == "example.com"
    basic = "Authorization: Basic " + base64.b64encode(pair.encode()).decode()
    assert basic in lines("GET", route, {}, None)
    assert basic not in lines("GET", route, {"authorization": "Bearer t"}, None)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mcp",
        "/mcp",
        "ftp://user:secret@example.com/",
        "ws://example.com/",
        "http://",
        "http:///mcp",
        "http://user:secret@/mcp",
        "http://user:secret@host:99999/",
        "http://user:secret@host:-1/",
        "http://user:secret@host:http/",
        "http://user:sec/ret@host/",
        "http://user:secret@[::1/",
        "http://a b/",
        "http://a\0b/",
        "http://" + "ü" * 100 + "/",
        "http://h/\ud800",
        "user:secret@example.com/mcp",
    ],
)
def test_what_is_no_url_is_a_typed_error_without_what_is_secret(url: str) -> None:
    with pytest.raises(TransportError, match="is not a valid URL to connect to") as caught:
        address_of(url)
    assert caught.value.cause == "protocol"
    assert "sec" not in caught.value.message
    assert caught.value.__suppress_context__


def test_only_the_origin_of_a_url_is_shown() -> None:
    assert displayed("https://user:secret@example.com:8443/path?token=1#f") == "https://example.com:8443"
    assert displayed("http://u:p@[::1]:1/") == "http://[::1]:1"


@run
async def test_a_host_name_that_ends_its_line_never_reaches_a_socket() -> None:
    async with session() as send:
        for url in ("http://h\r\nX-Evil: 1/", "http://h\0/", "http://h\x7f/"):
            with pytest.raises(TransportError):
                async with asyncio.timeout(HANG):
                    await send("GET", url, {})


@run
async def test_an_ipv6_literal_is_connected_to() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer())
        await reader.read()
        writer.close()

    heads: list[str] = []
    try:
        server = await asyncio.start_server(play, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = server.sockets[0].getsockname()[1]
    async with session() as send:
        assert await ask(send, f"http://[::1]:{port}/", method="GET", body=None) == b"hello"
    server.close()
    assert f"\r\nHost: [::1]:{port}\r\n" in heads[0]
