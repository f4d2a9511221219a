"""Answers of a server, however they are cut and framed, and what becomes of their connection."""

import pytest

from dovetail.transports.http.client.http_requests import status_error
from tests.http.raw_server import Peer, answer, answering, ask, raw_server, session, turns
from tests.support.aio import run

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
LENGTH = HEAD + b"Content-Length: 11\r\n\r\nhello world"
CHUNKED = (
    HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\nDate: x\r\n\r\n"
)
OPEN = HEAD + b"\r\nhello world"


@run
async def test_an_answer_cut_anywhere_comes_out_whole_and_the_connection_is_used_again() -> None:
    for whole in (LENGTH, CHUNKED):
        cuts = iter(range(len(whole) + 1))

        async def script(peer: Peer, whole: bytes = whole, cuts: object = cuts) -> None:
            for cut in cuts:  # type: ignore[attr-defined]
                await peer.request()
                await peer.drip(whole[:cut], whole[cut:])

        async with raw_server(script) as server, session() as send:
            for _ in range(len(whole) + 1):
                assert await ask(send, server.url) == b"hello world"
            assert len(server.peers) == 1


@run
async def test_an_answer_that_lasts_until_the_end_of_the_connection_comes_out_whole_wherever_it_is_cut() -> (
    None
):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(OPEN[: peer.number], OPEN[peer.number :])

    async with raw_server(script) as server, session() as send:
        for number in range(len(OPEN)):
            assert await ask(send, server.url) == b"hello world"
            assert len(server.peers) == number + 1


@run
async def test_an_answer_that_comes_byte_by_byte_comes_out_whole() -> None:
    for whole in (LENGTH, CHUNKED):
        pieces = [whole[at : at + 1] for at in range(len(whole))]
        async with raw_server(answering(*pieces)) as server, session() as send:
            for _ in range(2):
                response = await send("POST", server.url, {}, b"{}")
                assert response.headers["CONTENT-type"] == "text/plain"
                assert b"".join([chunk async for chunk in response.chunks()]) == b"hello world"
                response.close()
            assert len(server.peers) == 1


@pytest.mark.parametrize(
    "whole",
    [
        answer(b"hello", "Connection: close"),
        answer(b"hello", "connection: Keep-Alive, CLOSE"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        answer(b"hello", "Keep-Alive: timeout=0"),
    ],
)
def test_a_connection_that_ends_with_its_answer_is_not_used_again(whole: bytes) -> None:
    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(whole)
            await peer.gone()

        async with raw_server(script) as server, session() as send:
            for number in range(3):
                assert await ask(send, server.url) == b"hello"
                assert len(server.peers) == number + 1

    scenario()


@run
async def test_hints_before_the_answer_are_passed_over() -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Old: 1\r\n\r\n"
    async with raw_server(answering(hints[:30], hints[30:] + LENGTH)) as server, session() as send:
        for _ in range(2):
            response = await send("POST", server.url, {}, b"{}")
            assert response.status == 200
            assert dict(response.headers) == {"content-type": "text/plain", "content-length": "11"}
            assert await response.read(100) == b"hello world"
        assert len(server.peers) == 1


@pytest.mark.parametrize("head", ["204 No Content", "304 Not Modified", "202 Accepted\r\nContent-Length: 0"])
def test_an_answer_without_a_body_is_complete_with_its_head(head: str) -> None:
    @run
    async def scenario() -> None:
        whole = f"HTTP/1.1 {head}\r\n\r\n".encode()
        async with raw_server(answering(whole)) as server, session() as send:
            for _ in range(3):
                response = await send("POST", server.url, {}, b"{}")
                assert response.status == int(head[:3])
                assert await response.read(0) == b""
                response.close()
            assert len(server.peers) == 1

    scenario()


@run
async def test_the_length_that_a_304_speaks_of_is_no_body() -> None:
    whole = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\nContent-Encoding: gzip\r\n\r\n"
    async with raw_server(answering(whole)) as server, session() as send:
        assert await ask(send, server.url, limit=10) == b""


@run
async def test_the_answer_to_a_head_request_is_its_head() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    async with raw_server(answering(whole)) as server, session() as send:
        for _ in range(2):
            response = await send("HEAD", server.url, {})
            assert response.headers["content-length"] == "1000"
            assert await response.read(10) == b""


@run
async def test_repeated_headers_are_joined_and_trailers_are_none() -> None:
    whole = b"HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: 3\r\nB: 4\r\n\r\n"
    async with raw_server(answering(whole)) as server, session() as send:
        response = await send("POST", server.url, {}, b"{}")
        assert await response.read(0) == b""
        assert dict(response.headers) == {"a": "1, 2", "transfer-encoding": "chunked"}
        assert "A" in response.headers
        assert response.headers.get("nothing") is None


# --- unsolicited data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 9, len(LENGTH) - 11, len(LENGTH) - 1, len(LENGTH)])
def test_a_second_answer_in_the_same_packet_is_never_given_to_the_next_request(length: int) -> None:
    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(answer(b"%d" % peer.number) + LENGTH[:length])
            await peer.request()
            peer.send(LENGTH[length:])

        async with raw_server(script) as server, session() as send:
            for number in range(3):
                assert await ask(send, server.url) == b"%d" % number

    scenario()


@run
async def test_an_unsolicited_response_closes_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(answer(b"%d" % peer.number), LENGTH)
        await peer.gone()

    async with raw_server(script) as server, session() as send:
        for number in range(3):
            assert await ask(send, server.url) == b"%d" % number
            await turns(10)
        assert len(server.peers) == 3


@run
async def test_what_waits_in_the_socket_when_a_request_is_made_is_not_taken_for_its_answer() -> None:
    async with raw_server(answering(answer())) as server, session() as send:
        for number in range(3):
            assert await ask(send, server.url) == b"hello"
            assert len(server.peers) == number + 1
            server.peers[number].send(LENGTH)  # it arrives before the next request, unread


@run
async def test_a_body_after_a_204_is_the_end_of_the_connection_but_not_of_the_answer() -> None:
    whole = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"
    async with raw_server(answering(whole)) as server, session() as send:
        for number in range(2):
            assert await ask(send, server.url) == b""
            assert len(server.peers) == number + 1


@run
async def test_an_answer_is_read_on_while_its_connection_serves_the_next_request() -> None:
    async with raw_server(answering(answer(b"one"))) as server, session() as send:
        first = await send("POST", server.url, {}, b"{}")
        second = await send("POST", server.url, {}, b"{}")
        first.close()
        assert await first.read(3) == b"one"
        assert await second.read(3) == b"one"
        assert await ask(send, server.url) == b"one"
        assert len(server.peers) == 1


@run
async def test_a_digit_that_is_no_number_is_no_time_to_wait() -> None:
    refused = b"HTTP/1.1 503 Away\r\nContent-Length: 0\r\nRetry-After: \xb2\r\n\r\n"
    async with raw_server(answering(refused)) as server, session() as send:
        response = await send("POST", server.url, {}, b"{}")
        assert response.headers["retry-after"].isdigit()
        assert (await status_error(response, "it")).retry_after is None
