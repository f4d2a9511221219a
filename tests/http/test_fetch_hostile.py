"""Attacks of a hostile server: endless headers, wrong lengths, bodies larger than memory."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dovetail.errors import TransportError
from dovetail.transports.http.client.http_connection import MAX_UNREAD_BYTES
from tests.http.raw_server import Peer, RawServer, answer, answering, ask, outcome, raw_server, session, turns
from tests.support.aio import run
from tests.support.rawclient import until

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MEGABYTE = 1 << 20

GARBAGE = {
    "no head": b"<html><body>hello</body></html>",
    "noise": bytes(range(256)),
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an old version": b"HTTP/0.8 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a long status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a status below all": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
    "switching to nothing": b"HTTP/1.1 101 Switching\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "a null": OK + b"A: \0b\r\nContent-Length: 5\r\n\r\nhello",
    "a space in a name": OK + b"Content-Length : 5\r\n\r\nhello",
    "a folded header": OK + b"A: b\r\n Content-Length: 5\r\n\r\nhello",
    "a header is repeated too often": OK + b"a:\r\n" * 25_000 + b"Content-Length: 5\r\n\r\nhello",
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a list of lengths": OK + b"Content-Length: 5, 6\r\n\r\nhello!",
    "a length and chunks": OK
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks and a length": OK
    + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a negative length": OK + b"Content-Length: -5\r\n\r\nhello",
    "a signed length": OK + b"Content-Length: +5\r\n\r\nhello",
    "a length beyond all": OK + b"Content-Length: 99999999999999999999999\r\n\r\nhello",
    "a packed transfer": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "an unknown transfer": OK + b"Transfer-Encoding: xchunked\r\n\r\nhello",
    "chunks inside": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a negative chunk": CHUNKS + b"-5\r\nhello\r\n0\r\n\r\n",
    "a chunk beyond all": CHUNKS + b"ffffffffffffffffffff\r\nhello",
    "a chunk without its end": CHUNKS + b"5\r\nhelloXX0\r\n\r\n",
    "a chunk without its size": CHUNKS + b"\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_no_answer_is_a_typed_error_and_ends_the_connection(name: str) -> None:
    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(GARBAGE[name])
            await peer.gone()

        async with raw_server(script) as server, session() as send:
            for number in range(2):
                assert await outcome(send, server.url) == "protocol"
                assert len(server.peers) == number + 1

    scenario()


@run
async def test_the_error_says_what_is_wrong() -> None:
    whole = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    async with raw_server(answering(whole)) as server, session() as send:
        with pytest.raises(TransportError, match="does not speak HTTP: status 101"):
            await ask(send, server.url)


# --- without end ---------------------------------------------------------------------------------------------------

ENDLESS = {
    "a header": (OK + b"A: ", b"x" * 4096),
    "a name of a header": (OK, b"x" * 4096),
    "a reason": (b"HTTP/1.1 200 ", b"x" * 4096),
    "many headers": (OK, b"".join(b"X-%d: 1\r\n" % number for number in range(400))),
    "a header is repeated": (OK, b"a:\r\n" * 1000),
    "hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100),
    "an extension of a chunk": (CHUNKS + b"5;a=", b"x" * 4096),
    "the size of a chunk": (CHUNKS, b"0" * 4096),
    "trailers": (CHUNKS + b"5\r\nhello\r\n0\r\n", b"X: 1\r\n" * 1000),
    "line breaks": (b"", b"\r\n" * 2048),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_end_is_given_up_before_it_takes_much_memory(name: str) -> None:
    start, block = ENDLESS[name]

    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(start)
            await peer.stream(block, 50_000)

        async with raw_server(script) as server, session() as send:
            tracemalloc.start()
            try:
                assert await outcome(send, server.url) == "protocol"
                assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
            finally:
                tracemalloc.stop()

    scenario()


@run
async def test_headers_below_the_limit_are_taken() -> None:
    headers = [f"X-{number}: {'x' * 1000}" for number in range(100)]
    async with raw_server(answering(answer(b"hello", *headers))) as server, session() as send:
        response = await send("POST", server.url, {}, b"{}")
        assert len(response.headers) == 101
        assert await response.read(5) == b"hello"


@run
async def test_a_stream_may_last_longer_than_any_head() -> None:
    """Framing overhead is limited between two pieces of the body, not in total."""
    chunk = b"1;" + b"x" * 1000 + b"\r\n.\r\n"

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(CHUNKS)
        await peer.stream(chunk, 500)
        await peer.drip(b"0\r\n\r\n")

    async with raw_server(script) as server, session() as send:
        assert await ask(send, server.url) == b"." * 500


# --- more than a reader takes --------------------------------------------------------------------------------------

BLOCK = bytes(range(256)) * 256
TOTAL = 200 * MEGABYTE


@asynccontextmanager
async def flood(
    head: bytes, block: bytes = BLOCK, times: int = TOTAL // len(BLOCK)
) -> AsyncIterator[RawServer]:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(head)
        await peer.stream(block, times)

    async with raw_server(script) as server:
        yield server


async def stalled(peer: Peer) -> None:
    """Wait until the peer reads no more of what is sent."""
    before = -1
    while before != peer.sent:
        before = peer.sent
        await turns(200)


@pytest.mark.parametrize("head", [OK + b"Content-Length: %d\r\n\r\n" % TOTAL, OK + b"\r\n"])
def test_a_reader_that_takes_nothing_stops_the_server_and_gets_everything_later(head: bytes) -> None:
    @run
    async def scenario() -> None:
        async with flood(head) as server, session() as send:
            response = await send("POST", server.url, {}, b"{}")
            await until(lambda: response.size > MAX_UNREAD_BYTES)
            await stalled(server.peers[0])
            assert response.size < MEGABYTE
            received = 0
            async for chunk in response.chunks():
                received += len(chunk)
                assert response.size < MEGABYTE
            assert received == TOTAL

    scenario()


@run
async def test_many_small_chunks_take_no_more_memory_than_large_ones() -> None:
    async with flood(CHUNKS, b"2\r\nab\r\n" * 1000, 5000) as server, session() as send:
        tracemalloc.start()
        try:
            response = await send("POST", server.url, {}, b"{}")
            await stalled(server.peers[0])
            assert tracemalloc.get_traced_memory()[0] < 3 * MEGABYTE
        finally:
            tracemalloc.stop()
        response.close()


@run
async def test_a_reader_that_gives_up_a_stopped_answer_ends_its_connection() -> None:
    async with flood(OK + b"\r\n") as server, session() as send:
        response = await send("POST", server.url, {}, b"{}")
        await stalled(server.peers[0])
        response.close()
        await until(lambda: server.peers[0].writer.transport.is_closing())


@pytest.mark.parametrize(
    ("head", "sent"),
    [(b"Content-Length: 1001\r\n\r\n", 0), (b"\r\n", 1001), (b"Content-Length: 1001\r\n\r\n", 1001)],
)
def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not(head: bytes, sent: int) -> None:
    @run
    async def scenario() -> None:
        async with raw_server(answering(OK + head + b"x" * sent)) as server, session() as send:
            with pytest.raises(TransportError, match="the response exceeds 1000 bytes") as caught:
                await ask(send, server.url, limit=1000)
            assert caught.value.cause == "protocol"
            if sent:
                response = await send("POST", server.url, {}, b"{}")
                reading = asyncio.create_task(response.read(1001))
                await turns(10)
                if head == b"\r\n":
                    server.peers[-1].close()
                assert await reading == b"x" * 1001

    scenario()
