"""Connections that break: while an answer comes, before it comes, between two requests, and because we say so."""

import asyncio
import socket

import pytest

from dovetail.errors import TransportError
from tests.http.raw_server import Peer, answer, answering, ask, outcome, raw_server, session, turns
from tests.http.test_fetch_answers import CHUNKED, LENGTH, OPEN
from tests.support.aio import run
from tests.support.held import descriptors
from tests.support.rawclient import until
from tests.support.waiting import HANG

BODY = b"hello world"


def expected(whole: bytes, sent: int, reset: bool) -> bytes | str:
    """What must come out when ``sent`` bytes of ``whole`` came before the connection ended."""
    if whole is not OPEN and sent == len(whole):
        return BODY
    if whole is OPEN and sent >= len(whole) - len(BODY) and not reset:
        return whole[len(whole) - len(BODY) : sent]  # nothing says how much there should have been
    return "eof" if not sent and not reset else "reset"


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("whole", [LENGTH, CHUNKED, OPEN])
def test_an_answer_that_breaks_off_anywhere_is_one_clear_error(whole: bytes, reset: bool) -> None:
    @run
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.drip(whole[: peer.number])
            if reset:
                peer.reset()

        async with raw_server(script) as server:
            for sent in range(len(whole) + 1):
                async with session() as send:
                    assert await outcome(send, server.url) == expected(whole, sent, reset), sent
                assert len(server.peers) == sent + 1

    scenario()


@run
async def test_what_came_before_the_break_is_given_to_a_reader_of_chunks() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(LENGTH[:-6], LENGTH[-6:-3])

    async with raw_server(script) as server, session() as send:
        response = await send("POST", server.url, {}, b"{}")
        chunks = response.chunks()
        assert await anext(chunks) == b"hello"
        assert await anext(chunks) == b" wo"
        for _ in range(2):
            with pytest.raises(
                TransportError, match="closed the connection in the middle of a response"
            ) as caught:
                await anext(chunks)
            assert caught.value.cause == "reset"
        response.close()


# --- between two requests -----------------------------------------------------------------------------------------


@run
async def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(answer())

    async with raw_server(script) as server, session() as send:
        for number in range(5):
            assert await ask(send, server.url) == b"hello"
            assert len(server.peers) == number + 1
            await turns(number * 2)  # the end is on its way, is noticed, or has been dealt with


@run
async def test_a_closed_connection_is_not_confused_with_a_new_one_on_the_same_descriptor() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(answer())

    async with raw_server(script) as server, session() as send:
        before = descriptors()
        assert await ask(send, server.url) == b"hello"
        await until(lambda: descriptors() <= before)
        await turns()
        others = [each for _ in range(4) for each in socket.socketpair()]
        assert await ask(send, server.url) == b"hello"
        for each in others:
            each.close()


@run
async def test_an_unnoticed_disconnect_costs_no_request() -> None:
    async with raw_server(answering(answer())) as server, session() as send:
        for number in range(3):
            assert await ask(send, server.url) == b"hello"
            server.peers[number].writer.write_eof()
        assert len(server.peers) == 3


async def _hang_up_on_the_second(peer: Peer) -> None:
    await peer.request()
    peer.send(answer())
    await peer.request()


@run
async def test_a_post_into_a_connection_that_closes_just_then_is_not_repeated() -> None:
    async with raw_server(_hang_up_on_the_second) as server, session() as send:
        assert await ask(send, server.url) == b"hello"
        with pytest.raises(TransportError, match="closed the connection without a response") as caught:
            await ask(send, server.url)
        assert caught.value.cause == "eof"
        assert [len(peer.requests) for peer in server.peers] == [2]


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_does_no_harm_twice_is_repeated_on_a_new_connection_but_only_once(
    method: str, reset: bool
) -> None:
    @run
    async def scenario() -> None:
        lives = iter((2, 3, 1, 1))

        async def script(peer: Peer) -> None:
            for _ in range(next(lives) - 1):
                await peer.request()
                peer.send(answer())
            await peer.request()
            if reset:
                peer.reset()

        async with raw_server(script) as server, session() as send:
            results = [await outcome(send, server.url, method=method, body=None) for _ in range(4)]
            broken = "reset" if reset else "eof"
            assert results == [b"hello", b"hello", b"hello", broken]
            assert [len(peer.requests) for peer in server.peers] == [2, 3, 1]

    scenario()


# --- giving up ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", LENGTH[:20], LENGTH[:-3], CHUNKED[:-12]])
def test_giving_up_cuts_the_connection_at_once(sent: bytes) -> None:
    @run
    async def scenario() -> None:
        gone = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(sent)
            await peer.gone()
            gone.set()

        async with raw_server(script) as server, session() as send:
            waiting = asyncio.create_task(ask(send, server.url))
            await until(lambda: server.peers and server.peers[0].requests)
            await turns(10)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with asyncio.timeout(HANG):
                await gone.wait()

    scenario()


@run
async def test_cancelling_after_the_response_does_not_close_a_reused_connection() -> None:
    ready = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await ready.wait()
        peer.send(answer(b"first"))
        await peer.request()
        peer.send(answer(b"second"))
        await peer.gone()

    async with raw_server(script) as server, session() as send:
        first = asyncio.create_task(ask(send, server.url))
        await until(lambda: server.peers and server.peers[0].requests)

        def put_aside(connection: object) -> None:  # what the answer does, and two callers in the same turn
            free(connection)
            tasks.append(asyncio.create_task(ask(send, server.url)))
            asyncio.get_running_loop().call_soon(first.cancel)

        tasks: list[asyncio.Task[bytes]] = []
        (connection,) = send._open  # noqa: SLF001
        free, connection._free = connection._free, put_aside  # noqa: SLF001
        ready.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        connection._free = free  # noqa: SLF001
        assert await tasks[0] == b"second"
        assert len(server.peers) == 1


@run
async def test_a_server_that_does_not_answer_in_time_is_named_without_what_is_secret() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with raw_server(script) as server, session() as send:
        url = f"http://user:secret@127.0.0.1:{server.port}/hidden?token=1"
        with pytest.raises(TransportError) as caught:
            await send("POST", url, {}, b"{}", 0.05)
        assert caught.value.cause == "timeout"
        assert caught.value.message == f"http://127.0.0.1:{server.port} did not respond within 0.05 s"


@run
async def test_a_timeout_of_the_application_stays_its_own() -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async with raw_server(script) as server, session() as send:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await send("POST", server.url, {}, b"{}", 10.0)


# --- large requests -----------------------------------------------------------------------------------------------


@run
async def test_an_answer_is_read_while_the_request_is_still_being_sent_and_its_connection_ends() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.send(answer(b"too large", status="413 Content Too Large"))
        await peer.gone()

    async with raw_server(script) as server, session() as send:
        for number in range(2):
            response = await send("POST", server.url, {}, bytes(20 << 20))
            assert response.status == 413
            assert await response.read(100) == b"too large"
            response.close()
            assert len(server.peers) == number + 1


@run
async def test_a_server_that_takes_nothing_of_a_large_request_can_be_given_up() -> None:
    stuck = asyncio.Event()

    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()
        await stuck.wait()

    async with raw_server(script) as server, session() as send:
        waiting = asyncio.create_task(ask(send, server.url, body=bytes(20 << 20)))
        await until(lambda: server.peers)
        await turns(20)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stuck.set()


@run
async def test_a_large_request_arrives_whole_and_its_connection_is_used_again() -> None:
    async with raw_server(answering(answer())) as server, session() as send:
        body = bytes(range(256)) * (20 << 12)
        for _ in range(2):
            assert await ask(send, server.url, body=body) == b"hello"
        assert len(server.peers) == 1
        assert server.peers[0].requests[1][1] == body
