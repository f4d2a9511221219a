"""The pool: which connections it keeps, for how long, and that nothing of it is left when it is closed."""

import asyncio
import gc
import socket
import weakref
from typing import Any

import pytest

from dovetail.errors import StateError, TransportError
from dovetail.transports.http.client import connection_pool as fetch
from tests.http.raw_server import Peer, answer, answering, ask, outcome, raw_server, session, turns
from tests.support.aio import run
from tests.support.held import descriptors
from tests.support.rawclient import until


@run
async def test_many_requests_at_once_have_a_connection_each_and_their_own_answer() -> None:
    async def script(peer: Peer) -> None:
        while True:
            _, body = await peer.request()
            await waiting.wait()
            peer.send(answer(body))

    waiting = asyncio.Event()
    async with raw_server(script) as server, session() as send:
        asked = [asyncio.create_task(ask(send, server.url, body=b"%d" % number)) for number in range(200)]
        await until(lambda: sum(len(peer.requests) for peer in server.peers) == 200)
        waiting.set()
        assert await asyncio.gather(*asked) == [b"%d" % number for number in range(200)]
        assert len(server.peers) == 200


def test_no_more_unused_connections_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CONNECTIONS_SPARE", 10)

    @run
    async def scenario() -> None:
        closed: list[int] = []
        everybody = asyncio.Event()

        async def script(peer: Peer) -> None:
            while await peer.reader.read(1 << 16):
                if len(server.peers) == 15:
                    everybody.set()
                await everybody.wait()
                peer.send(answer())
            closed.append(peer.number)

        async with raw_server(script) as server, session() as send:
            await asyncio.gather(*(ask(send, server.url) for _ in range(15)))
            await until(lambda: len(closed) == 5)
            for _ in range(10):
                assert await ask(send, server.url) == b"hello"
            assert len(closed) == 5
            assert len(server.peers) == 15

    scenario()


def test_an_unused_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CONNECTION_KEPT", 0.1)

    @run
    async def scenario() -> None:
        ended: list[int] = []

        async def script(peer: Peer) -> None:
            while await peer.reader.read(1 << 16):
                peer.send(answer())
            ended.append(peer.number)

        async with raw_server(script) as server, session() as send:
            for number in range(2):
                for _ in range(3):
                    assert await ask(send, server.url) == b"hello"
                await until(lambda number=number: ended == list(range(number + 1)))
            assert len(server.peers) == 2

    scenario()


def test_an_idle_connection_that_is_too_old_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @run
    async def scenario() -> None:
        async with raw_server(answering(answer())) as server, session() as send:
            assert await ask(send, server.url) == b"hello"
            monkeypatch.setattr(fetch, "CONNECTION_KEPT", 0.0)
            assert await ask(send, server.url) == b"hello"
            assert len(server.peers) == 2

    scenario()


def test_a_server_that_says_how_long_it_waits_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = fetch.monotonic()
    monkeypatch.setattr(fetch, "monotonic", lambda: now)

    @run
    async def scenario() -> None:
        nonlocal now
        async with (
            raw_server(answering(answer(b"hello", "Keep-Alive: max=9, timeout=5"))) as server,
            session() as send,
        ):
            for wait in (0.0, 3.9, 4.1):
                now += wait
                assert await ask(send, server.url) == b"hello"
            assert len(server.peers) == 2

    scenario()


# --- the end -------------------------------------------------------------------------------------------------------


@run
async def test_leaving_the_session_closes_everything() -> None:
    ended: list[int] = []

    async def script(peer: Peer) -> None:
        head, _ = await peer.request()
        if head.startswith("POST"):
            peer.send(answer())
        elif head.startswith("GET"):
            peer.send(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await peer.gone()
        ended.append(peer.number)

    async with raw_server(script) as server:
        async with session() as send:
            reading = await send("GET", server.url, {})
            chunks = reading.chunks()
            assert await anext(chunks) == b"some"
            more = asyncio.ensure_future(anext(chunks))
            waiting = asyncio.create_task(outcome(send, server.url, method="DELETE", body=None))
            assert await ask(send, server.url) == b"hello"
            await until(lambda: sum(len(peer.requests) for peer in server.peers) == 3)
            before = descriptors()
        assert descriptors() <= before - 3  # not in the next turn of the loop: there may be none
        with pytest.raises(TransportError, match="the HTTP session was closed") as caught:
            await more
        assert caught.value.cause == "closed"
        assert await waiting == "closed"
        await until(lambda: sorted(ended) == [0, 1, 2])
        gc.collect()  # a socket that was left open is a ResourceWarning, which is an error


@run
async def test_leaving_the_session_ends_attempts_to_connect() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        deaf.setblocking(False)
        url = f"https://127.0.0.1:{deaf.getsockname()[1]}/"  # takes connections, and never says a word
        async with session() as send:
            waiting = asyncio.create_task(outcome(send, url))
            taken, _ = await asyncio.get_running_loop().sock_accept(deaf)
            await turns(20)
        assert await waiting == "closed"
        taken.close()


@run
async def test_a_connection_that_is_lost_while_it_is_made_does_not_hold_up_the_end() -> None:
    async def script(peer: Peer) -> None:
        peer.close()

    loop = asyncio.get_running_loop()
    create = loop.create_connection

    async def slowly(*args: Any, **options: Any) -> Any:
        made = await create(*args, **options)
        await until(lambda: not made[1].is_open)
        return made

    loop.create_connection = slowly  # type: ignore[method-assign]
    async with raw_server(script) as server, session() as send:
        assert await outcome(send, server.url) == "eof"


@run
async def test_nothing_holds_on_to_a_session_that_was_left() -> None:
    async with raw_server(answering(answer())) as server:
        async with session() as send:
            assert await ask(send, server.url) == b"hello"
        left = weakref.ref(send)
        del send
        gc.collect()
        assert left() is None


@run
async def test_a_session_that_is_closed_or_was_never_opened_says_so() -> None:
    closed = session()
    with pytest.raises(StateError, match="not open"):
        await closed("GET", "http://127.0.0.1:1/", {})
    async with closed as send:
        pass
    with pytest.raises(StateError, match="not open"):
        await send("GET", "http://127.0.0.1:1/", {})


def test_a_session_belongs_to_the_loop_it_was_opened_in() -> None:
    @run
    async def scenario() -> None:
        async with raw_server(answering(answer())) as server, session() as send:
            assert await ask(send, server.url) == b"hello"

            def elsewhere() -> None:
                with pytest.raises(StateError, match="not open in this event loop"):
                    asyncio.run(ask(send, server.url))

            await asyncio.to_thread(elsewhere)
            assert await ask(send, server.url) == b"hello"
            assert len(server.peers) == 1

    scenario()


@run
async def test_two_sessions_share_no_connection() -> None:
    async with raw_server(answering(answer())) as server, session() as one, session() as other:
        for send in (one, other, one, other):
            assert await ask(send, server.url) == b"hello"
        assert [len(peer.requests) for peer in server.peers] == [2, 2]


@run
async def test_origins_share_no_connection() -> None:
    async with raw_server(answering(answer())) as server, session() as send:
        for host in ("127.0.0.1", "localhost", "127.0.0.1", "localhost"):
            assert await ask(send, f"http://{host}:{server.port}/") == b"hello"
        assert [len(peer.requests) for peer in server.peers] == [2, 2]


@run
async def test_leaving_an_event_stream_early_starts_nothing() -> None:
    async with raw_server(answering(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")) as server, session() as send:
        response = await send("GET", server.url, {})
        started: list[object] = []

        def factory(loop: asyncio.AbstractEventLoop, work: object, **options: object) -> object:
            started.append(work)
            return asyncio.Task(work, loop=loop, **options)  # type: ignore[arg-type]

        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)  # type: ignore[arg-type]
        async for chunk in response.chunks():
            assert chunk == b"data: 1\n\n"
            break
        response.close()
        await turns(20)
        loop.set_task_factory(None)
        assert not started


@run
async def test_who_gives_up_at_any_moment_of_connecting_leaves_no_connection_open() -> None:
    ended: list[int] = []

    async def script(peer: Peer) -> None:
        while await peer.reader.read(1 << 16):
            pass
        ended.append(peer.number)

    async with raw_server(script) as server, session() as send:
        for count in range(40):
            asking = asyncio.create_task(ask(send, server.url))
            await turns(count)
            asking.cancel()
            await asyncio.wait([asking])
        gc.disable()  # it would close what we forgot
        try:
            await until(lambda: len(ended) == len(server.peers))
        finally:
            gc.enable()
        assert server.peers
