"""What a connection that comes to nothing says: always where it was meant to go."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dovetail.errors import TransportError
from dovetail.transports import tcp, websocket
from tests.support.aio import run

from .recorder import Recorder

Act = Callable[[asyncio.StreamWriter], None]


def reset(writer: asyncio.StreamWriter) -> None:
    """Answer with a RST."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


def turn_away(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    writer.close()


def babble(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example.com ESMTP\r\n")
    writer.close()


@asynccontextmanager
async def listening(act: Act) -> AsyncIterator[int]:
    """A port where ``act`` runs for each client after its first message."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        act(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("act", "cause", "reason"),
    [
        (reset, "reset", "reset the connection"),
        (hang_up, "eof", "closed the connection"),
        (turn_away, "status", "HTTP 403"),
        (babble, "eof", "closed the connection"),
    ],
)
def test_a_websocket_that_does_not_open_names_the_address(act: Act, cause: str, reason: str) -> None:
    @run
    async def scenario() -> None:
        async with listening(act) as port:
            with pytest.raises(TransportError) as caught:
                await websocket.connect(Recorder(), f"ws://127.0.0.1:{port}/mcp")
        assert caught.value.cause == cause
        assert f"127.0.0.1:{port}" in caught.value.message
        assert reason in caught.value.message

    scenario()


@pytest.mark.parametrize(
    ("act", "cause"), [(reset, "refused"), (hang_up, "refused"), (turn_away, "tls"), (babble, "tls")]
)
@pytest.mark.parametrize("kind", ["tcp", "websocket"])
def test_tls_that_does_not_come_about_names_the_address(act: Act, cause: str, kind: str) -> None:
    @run
    async def scenario() -> None:
        context = ssl.create_default_context()
        async with listening(act) as port:
            url = f"wss://127.0.0.1:{port}/mcp"
            attempt = (
                tcp.connect(Recorder(), "127.0.0.1", port, ssl=context)
                if kind == "tcp"
                else websocket.connect(Recorder(), url, ssl=context)
            )
            with pytest.raises(TransportError) as caught:
                await attempt
        assert caught.value.cause == cause
        assert f"127.0.0.1:{port}" in caught.value.message

    scenario()


@run
async def test_a_connection_that_is_reset_before_its_first_answer_names_the_address() -> None:
    receiver = Recorder()
    async with listening(reset) as port:
        link = await tcp.connect(receiver, "127.0.0.1", port)
        link.send(b"{}")
        await receiver.until(lambda: receiver.losses)
    [error] = receiver.losses
    assert (error.cause, error.message) == ("reset", f"127.0.0.1:{port} reset the connection")


@run
async def test_no_password_of_a_url_is_shown() -> None:
    async with listening(reset) as port:
        for url in (f"ws://ada:hunter2@127.0.0.1:{port}/mcp", "ws://ada:hunter2@127.0.0.1:1/mcp"):
            with pytest.raises(TransportError) as caught:
                await websocket.connect(Recorder(), url)
            assert "127.0.0.1" in caught.value.message
            assert "hunter2" not in caught.value.message
