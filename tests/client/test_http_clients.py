"""HTTP clients that an application brings along, used as they are made: httpx2 and httpx."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from dovetail import Client
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.client.http_client import Response
from dovetail.errors import TransportError
from dovetail.transports.http.client.adapters import fetch_with
from dovetail.transports.http.client.connection_pool import HttpFetch

from ..http.raw_server import Peer, answer, answering, ask, outcome, raw_server, turns
from ..support.aio import run
from ..support.certificates import Authority
from ..support.everything import build
from ..support.http_clients import LIBRARIES, made_by
from ..support.proxy import forward_proxy
from ..support.rawclient import LEGACY, MODERN
from ..support.waiting import HANG
from ..support.web import served
from .fake_http import EVENTS, Reply, Request, legacy, modern, serving


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return request.param


def client(url: str, http: Any, **options: Any) -> Client:
    return Client(url, http=http, server_cache=ServerCache(), reconnect=False, **options)


# --- what is taken -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_a_session_with_progress_and_input_requests_and_the_client_stays_open(
    library: str, revision: str
) -> None:
    async with served(build()) as site, made_by(library) as http:
        url = f"http://127.0.0.1:{site.port}/{'sse' if revision == '2024-11-05' else 'mcp'}"
        seen: list[float] = []
        for _ in range(2):
            async with client(url, http, revision=revision, on_sample=lambda request: "sampled") as connected:
                await connected.call_tool("count", on_progress=lambda progress, *_: seen.append(progress))
                assert (await connected.call_tool("think")).text == "sampled"
            assert not http.is_closed
        assert seen == [1, 2, 3] * 2


@run
async def test_a_class_that_is_derived_from_one_we_know_is_known(library: str) -> None:
    derived: Any = type("Derived", (__import__(library).AsyncClient,), {})
    async with serving(modern) as (_, url), derived() as http, client(url, http) as connected:
        await connected.call_tool("x")


@run
async def test_an_object_of_ones_own_is_taken_if_it_opens_sessions() -> None:
    class Own:
        def __init__(self) -> None:
            self.sessions = 0

        def session(self) -> Any:
            self.sessions += 1
            return HttpFetch().session()

    own = Own()
    async with serving(modern) as (_, url), client(url, own) as connected:
        await connected.call_tool("x")
    assert own.sessions == 1


def test_what_is_no_http_client_is_refused_and_the_message_names_those_that_are() -> None:
    httpx = pytest.importorskip("httpx")
    wrong = {"a Client": httpx.Client(), "AsyncClient itself": httpx.AsyncClient, "a object": object()}
    wrong |= {"HttpFetch itself": HttpFetch, "a str": "httpx"}
    for words, http in wrong.items():
        with pytest.raises(TypeError, match=rf"httpx2\.AsyncClient.*httpx\.AsyncClient.*; not {words}$"):
            Client("http://127.0.0.1/mcp", http=http)
    wrong["a Client"].close()


def test_no_library_is_imported_that_the_application_has_not_imported() -> None:
    code = (
        "import sys\n"
        "from dovetail import Client\n"
        "class Own:\n"
        "    def session(self): ...\n"
        "Client('http://127.0.0.1/mcp', http=Own())\n"
        "assert not {'httpx', 'httpx2', 'httptools'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- whose business what is ----------------------------------------------------------------------------------------


@run
async def test_a_client_that_is_closed_says_so(library: str) -> None:
    async with serving(modern) as (_, url):
        async with made_by(library) as http:
            connected = client(url, http)
            await connected.open()
            await connected.call_tool("x")
        with pytest.raises(TransportError, match=rf"the {library}\.\w+ given as http=… is closed") as caught:
            await connected.call_tool("x")
        assert caught.value.cause == "closed"
        await connected.close()


@run
async def test_timeouts_of_the_built_in_client_apply(library: str) -> None:
    """Also where the library has some: an event stream may be silent for as long as we allow."""

    def handler(request: Request) -> Reply:
        if request.method == "hang":
            return Reply(hang=True)
        if request.method != "tools/call":
            return modern(request)

        async def stream() -> AsyncIterator[bytes]:
            yield b": wait\n\n"
            await asyncio.sleep(0.3)
            yield b"data: " + modern(request).body + b"\n\n"

        return Reply(200, dict(EVENTS), stream=stream())

    async with serving(handler) as (_, url), made_by(library, timeout=0.1) as http:
        async with client(url, http) as connected:
            assert (await connected.call_tool("x")).text == "null"
        async with fetch_with(http).session() as send:
            with pytest.raises(TransportError, match=r"did not respond within 0\.05 s") as caught:
                await send("POST", url, {}, b'{"method": "hang"}', 0.05)
            assert caught.value.cause == "timeout"


@run
async def test_redirects_follow_dovetails_rules_whatever_the_client_is_set_to(library: str) -> None:
    def away(request: Request) -> Reply:
        return Reply(307, {"Location": "http://127.0.0.1:9/mcp"})

    def inside(request: Request) -> Reply:
        return Reply(307, {"Location": "/there"}) if request.path == "/mcp" else modern(request)

    async with made_by(library, follow_redirects=True) as http:
        async with serving(away) as (_, url):
            with pytest.raises(TransportError, match="redirect to another origin") as caught:
                await client(url, http).open()
            assert caught.value.cause == "redirect"
        async with serving(inside) as (fake, url), client(url, http) as connected:
            await connected.call_tool("x")
            assert [request.path for request in fake.requests] == ["/mcp", "/there"] * 2


@run
async def test_headers_are_sent_as_the_built_in_client_sends_them(library: str) -> None:
    async with serving(legacy) as (fake, url), made_by(library) as http:
        url = url.replace("//", "//bob:p%40w@")
        async with client(url, http, headers={"X-Word": "Grüße"}) as connected:
            await connected.call_tool("x")
        for request in fake.requests:
            assert request.headers["authorization"] == "Basic Ym9iOnBAdw=="
            assert request.headers["x-word"] == "Grüße"
            assert request.headers["accept-encoding"] == "gzip, deflate"
            assert request.headers["host"] == url.rpartition("@")[2].partition("/")[0]
        async with client(url, http, auth="token", headers={"accept-encoding": "identity"}) as connected:
            sent = fake.requests[-1].headers
            assert (sent["authorization"], sent["accept-encoding"]) == ("Bearer token", "identity")


@run
async def test_a_header_that_would_be_two_is_refused_without_being_quoted(library: str) -> None:
    async with serving(modern) as (fake, url), made_by(library) as http, fetch_with(http).session() as send:
        for headers in ({"Authorization": "secret\r\nX: y"}, {"X-A": "secret\n"}, {"X Y": "1"}):
            with pytest.raises(TransportError) as caught:
                await send("POST", url, headers, b"{}")
            assert caught.value.cause == "protocol"
            assert "secret" not in str(caught.value)
        assert fake.requests == []


# --- bodies --------------------------------------------------------------------------------------------------------


@run
async def test_large_bodies_pass_both_ways(library: str) -> None:
    body = bytes(range(256)) * (20 << 10)

    async def script(peer: Peer) -> None:
        while True:
            _, asked = await peer.request()
            peer.send(answer(asked))

    async with raw_server(script) as server, made_by(library) as http, fetch_with(http).session() as send:
        for _ in range(2):
            assert await ask(send, server.url, body=body, limit=len(body)) == body
        assert len(server.peers) == 1, "what was read to its end is used again"
        assert await outcome(send, server.url, body=body, limit=len(body) - 1) == "protocol"


@run
async def test_a_packed_body_is_unpacked_in_bounded_pieces(library: str) -> None:
    bomb = gzip.compress(bytes(4 << 20))
    packed = answer(gzip.compress(b"hello"), "Content-Encoding: gzip")
    strange = answer(b"x", "Content-Encoding: br", "Connection: close")
    replies = iter([packed, answer(bomb, "Content-Encoding: gzip"), strange, packed[:-9]])

    async def script(peer: Peer) -> None:
        for reply in replies:
            await peer.request()
            peer.send(reply)
            if reply in (strange, packed[:-9]):
                break

    async with raw_server(script) as server, made_by(library) as http, fetch_with(http).session() as send:
        assert await ask(send, server.url) == b"hello"
        response = await send("POST", server.url, {}, b"{}")
        async for piece in response.chunks():
            assert len(piece) <= 1 << 16
        with pytest.raises(TransportError, match="unsupported Content-Encoding"):
            await ask(send, server.url)
        assert await outcome(send, server.url) == "reset"


@pytest.mark.parametrize("packed", [False, True])
@run
async def test_an_answer_that_its_library_has_read_already_is_an_answer(library: str, packed: bool) -> None:
    httpx = importlib.import_module(library)
    body, headers = (
        (gzip.compress(b"all of it"), ["Content-Encoding: gzip"]) if packed else (b"all of it", [])
    )

    async def read(response: Any) -> None:
        await response.aread()

    def whole(request: Any) -> Any:
        return httpx.Response(200, content=body, headers=[line.split(": ") for line in headers])

    async with raw_server(answering(answer(body, *headers))) as server:
        for options in ({"transport": httpx.MockTransport(whole)}, {"event_hooks": {"response": [read]}}):
            async with httpx.AsyncClient(**options) as made, fetch_with(made).session() as send:
                assert await ask(send, server.url) == b"all of it"


@run
async def test_giving_up_closes_the_connection_at_once(library: str) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
        begun.set()
        await peer.gone()
        gone.set()

    async with raw_server(script) as server, made_by(library) as http, fetch_with(http).session() as send:
        for _ in range(2):
            asking = asyncio.create_task(ask(send, server.url))
            await begun.wait()
            await turns(20)  # to somewhere in the middle of the answer
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(gone.wait(), HANG)
            begun.clear()
            gone.clear()
        response = await send("POST", server.url, {}, b"{}")
        assert await anext(response.chunks()) == b": hello\n\n"
        response.close()
        response.close()
        await asyncio.wait_for(gone.wait(), HANG)


@run
async def test_leaving_the_session_closes_what_is_open_and_nothing_else(library: str) -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await peer.gone()
        gone.set()

    async with raw_server(script) as server, made_by(library) as http:
        async with fetch_with(http).session() as send:
            response: Response = await send("GET", server.url, {})
            assert await anext(response.chunks()) == b"some"
        await asyncio.wait_for(gone.wait(), HANG)
        assert not http.is_closed


# --- failures ------------------------------------------------------------------------------------------------------

BROKEN: Mapping[str, tuple[bytes, str]] = {
    "nothing": (b"", "eof"),
    "half a body": (answer(b"hello")[:-2], "reset"),
    "half a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "reset"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.0\r\n\r\n", "protocol"),
}


@pytest.mark.parametrize("name", BROKEN)
@run
async def test_a_broken_response_has_the_cause_that_the_built_in_client_reports(
    library: str, name: str
) -> None:
    data, cause = BROKEN[name]

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(data)

    async with raw_server(script) as server, made_by(library) as http:
        for fetch in (fetch_with(http), HttpFetch()):
            async with fetch.session() as send:
                assert await outcome(send, server.url) == cause


@run
async def test_a_connection_that_is_reset_in_the_answer_is_one(library: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(answer(b"hello" * 1000)[:100])
        peer.reset()

    async with raw_server(script) as server, made_by(library) as http, fetch_with(http).session() as send:
        assert await outcome(send, server.url) == "reset"


@run
async def test_a_connection_that_cannot_be_made_says_why(library: str, tmp_path: Any) -> None:
    authority = Authority(tmp_path)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with made_by(library) as http, fetch_with(http).session() as send:
            with pytest.raises(TransportError) as caught:
                await ask(send, f"http://user:secret@127.0.0.1:{port}/secret")
            assert caught.value.cause == "refused"
            assert caught.value.message == f"http://127.0.0.1:{port} refused the connection"
            assert await outcome(send, f"http://localhost:{port}/") == "refused"
            with pytest.raises(
                TransportError, match=r"cannot resolve the host name of http://nowhere\.invalid"
            ) as caught:
                await ask(send, "http://nowhere.invalid/")
            assert caught.value.cause == "unresolved"
            for url in ("http://", "ftp://127.0.0.1/", "http://[::1"):
                with pytest.raises(TransportError, match="not a valid URL to connect to") as caught:
                    await ask(send, url)
                assert caught.value.cause == "protocol"
            async with raw_server(answering(answer()), tls=authority.server("127.0.0.1")) as server:
                with pytest.raises(TransportError, match="TLS connection to https://127") as caught:
                    await ask(send, server.url)
                assert caught.value.cause == "tls"
    async with (
        raw_server(answering(answer()), tls=authority.server("127.0.0.1")) as server,
        made_by(library, verify=authority.client()) as http,
        fetch_with(http).session() as send,
    ):
        assert await ask(send, server.url) == b"hello"


@run
async def test_proxies_of_the_library_are_used_and_their_refusals_are_reported(library: str) -> None:
    async with forward_proxy(user="me:secret") as proxy, serving(modern) as (_, url):
        async with made_by(library, proxy=f"http://me:secret@127.0.0.1:{proxy.port}") as http:
            async with client(url.replace("127.0.0.1", "server.example"), http) as connected:
                await connected.call_tool("x")
            assert proxy.lines[0].startswith("POST http://server.example:")
        async with (
            made_by(library, proxy=f"http://me:wrong@127.0.0.1:{proxy.port}") as http,
            fetch_with(http).session() as send,
        ):
            with pytest.raises(
                TransportError, match=r"the proxy for https://server\.example refused the request: .*407"
            ) as caught:
                await ask(send, "https://server.example/")
            assert caught.value.cause == "proxy"
            assert "wrong" not in str(caught.value)


@run
async def test_a_proxy_that_is_not_there_is_a_connection_that_is_refused(library: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with made_by(library, proxy=proxy) as http, fetch_with(http).session() as send:
            assert await outcome(send, "https://server.example/") in ("refused", "proxy")


# --- HTTP/2 --------------------------------------------------------------------------------------------------------


class Http2Server(asyncio.Protocol):
    """Answers like `fake_http`, on the streams of one HTTP/2 connection."""

    connections = 0

    def __init__(self, handler: Callable[[Request], Reply]) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        self._handler = handler
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._asked: dict[int, tuple[dict[str, str], bytearray]] = {}
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Http2Server.connections += 1
        self._transport = transport
        self._http.initiate_connection()
        self._transport.write(self._http.data_to_send())

    def data_received(self, data: bytes) -> None:
        from h2 import events

        for event in self._http.receive_data(data):
            if isinstance(event, events.RequestReceived):
                self._asked[event.stream_id] = (dict(event.headers), bytearray())
            elif isinstance(event, events.DataReceived):
                self._asked[event.stream_id][1].extend(event.data)
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, events.StreamEnded):
                self._answer(event.stream_id)
        self._transport.write(self._http.data_to_send())

    def _answer(self, stream: int) -> None:
        headers, body = self._asked.pop(stream)
        reply = self._handler(Request(headers[":method"], headers[":path"], headers, bytes(body)))
        head = [
            (":status", str(reply.status)),
            *((name.lower(), value) for name, value in reply.headers.items()),
        ]
        self._http.send_headers(stream, head)
        self._http.send_data(stream, reply.body, end_stream=True)


@pytest.mark.parametrize("handler", [modern, legacy])
@run
async def test_many_calls_share_one_connection_of_http2(library: str, handler: Any) -> None:
    pytest.importorskip("h2")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Http2Server(handler), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    before = Http2Server.connections
    async with made_by(library, http1=False, http2=True) as http, client(url, http) as connected:
        results = await asyncio.gather(*(connected.call_tool("x", {"n": n}) for n in range(50)))
        assert [result.text for result in results] == [f'{{"n": {n}}}' for n in range(50)]
    assert Http2Server.connections == before + 1
    server.close()
    await server.wait_closed()
