"""Bodies that come compressed: the same bytes, never more at once than anybody asked for, and never half of them."""

import gzip
import tracemalloc
import zlib
from typing import Any

import pytest

from dovetail.errors import TransportError
from dovetail.transports.http.client.decompression import Decompressor
from tests.http.raw_server import Peer, answer, answering, ask, header, outcome, raw_server, session
from tests.support.aio import run

TEXT = b"".join(b"event %d\n" % number for number in range(20_000))
MEGABYTE = 1 << 20


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("X-GZIP", gzip.compress(TEXT)),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without a header": ("Deflate", bare(TEXT)),
    "gzip in two members": ("gzip", gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])),
    "gzip and padding": ("gzip", gzip.compress(TEXT) + bytes(100)),
    "nothing": ("identity", TEXT),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_body_is_unpacked(name: str) -> None:
    encoding, packed = PACKED[name]

    @run
    async def scenario() -> None:
        whole = answer(packed, f"Content-Encoding: {encoding}")
        async with raw_server(answering(whole[:200], whole[200:])) as server, session() as send:
            for _ in range(2):
                assert await ask(send, server.url) == TEXT
            assert len(server.peers) == 1
            assert header(server.peers[0].requests[0][0], "accept-encoding") == "gzip, deflate"

    scenario()


@pytest.mark.parametrize("name", ["gzip", "deflate", "deflate without a header", "gzip in two members"])
def test_a_packed_body_cut_anywhere_comes_out_whole(name: str) -> None:
    encoding, packed = PACKED[name]
    for cut in [*range(1, 40), *range(len(packed) - 40, len(packed)), *range(40, len(packed) - 40, 997)]:
        inflater = Decompressor(encoding.lower())
        pieces = [*inflater.feed(packed[:cut]), *inflater.feed(packed[cut:])]
        inflater.finish()
        assert b"".join(pieces) == TEXT


def test_no_data_remains_when_a_chunk_is_full_and_all_input_is_consumed() -> None:
    for size in range((64 << 10) - 2, (64 << 10) + 300):
        inflater = Decompressor("deflate")
        assert sum(map(len, inflater.feed(bare(bytes(size))))) == size
        inflater.finish()


def test_no_piece_is_larger_than_the_others() -> None:
    assert max(map(len, Decompressor("gzip").feed(gzip.compress(bytes(4 * MEGABYTE))))) <= 64 << 10


def bomb() -> bytes:
    """About a megabyte that unpacks to a gigabyte."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packer.compress(bytes(MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * 1024


@run
async def test_a_bomb_does_not_go_off() -> None:
    packed = bomb()
    assert len(packed) < 2 * MEGABYTE
    async with (
        raw_server(answering(answer(packed, "Content-Encoding: deflate"))) as server,
        session() as send,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(TransportError, match="the response exceeds 4194304 bytes"):
                await ask(send, server.url, limit=4 * MEGABYTE)
            assert tracemalloc.get_traced_memory()[1] < 12 * MEGABYTE  # the server's own copy is in it
        finally:
            tracemalloc.stop()


@run
async def test_a_packed_body_that_breaks_off_is_never_taken_for_a_whole_one() -> None:
    packed = gzip.compress(b"hello world")

    async def script(peer: Peer) -> None:
        for length in range(1, len(packed)):
            await peer.request()
            peer.send(answer(packed[:length], "Content-Encoding: gzip"))

    async with raw_server(script) as server, session() as send:
        for _ in range(1, len(packed)):
            assert await outcome(send, server.url) == "reset"
        assert len(server.peers) == 1


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"hello"), ("gzip, gzip", b"hello"), ("gzip", b"no gzip"), ("deflate", b"\x78\x9cno deflate")],
)
def test_what_cannot_be_unpacked_is_a_typed_error_of_the_body_not_of_the_status(
    encoding: str, body: bytes
) -> None:
    @run
    async def scenario() -> None:
        whole = answer(body, f"Content-Encoding: {encoding}", status="401 Unauthorized")
        async with raw_server(answering(whole)) as server, session() as send:
            response = await send("POST", server.url, {}, b"{}")
            assert response.status == 401
            with pytest.raises(TransportError) as caught:
                await response.read(100)
            assert caught.value.cause == "protocol"
            response.close()
            assert (await send("POST", server.url, {}, b"{}")).status == 401
            assert len(server.peers) == 1

    scenario()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_nothing_can_be_packed_in_any_way(encoding: str) -> None:
    @run
    async def scenario() -> None:
        whole = answer(b"", f"Content-Encoding: {encoding}", status="202 Accepted")
        async with raw_server(answering(whole)) as server, session() as send:
            assert await ask(send, server.url) == b""

    scenario()


@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, 16 + zlib.MAX_WBITS, -zlib.MAX_WBITS])
def test_the_events_of_a_packed_stream_arrive_one_by_one(wbits: int) -> None:
    @run
    async def scenario() -> None:
        packer: Any = zlib.compressobj(wbits=wbits)
        taken: list[bytes] = []

        async def script(peer: Peer) -> None:
            await peer.request()
            encoding = b"gzip" if wbits > zlib.MAX_WBITS else b"deflate"
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n\r\n" % encoding)
            for number in range(10):
                event = b"data: %d\n\n" % number
                await peer.drip(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH))
                while len(b"".join(taken)) < len(event) * (number + 1):
                    await peer.drip()
                    await peer.drip(b"")
            peer.send(packer.flush())

        async with raw_server(script) as server, session() as send:
            response = await send("GET", server.url, {})
            async for chunk in response.chunks():
                taken.append(chunk)  # noqa: PERF401  the server waits for each
        assert b"".join(taken) == b"".join(b"data: %d\n\n" % number for number in range(10))

    scenario()
