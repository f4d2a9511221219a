"""The WebSocket at the URL of the endpoint."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dovetail.auth import Principal, StaticTokens
from dovetail.settings import Limits, Timeouts
from tests.support.aio import run
from tests.support.everything import build
from tests.support.rawclient import MODERN
from tests.support.schemas import validate
from tests.support.waiting import HANG, until
from tests.support.web import Site, modern, request, served, text


def dial(site: Site, *subprotocols: str, path: str = "/mcp", **options: Any) -> connect:
    return connect(f"ws://127.0.0.1:{site.port}{path}", subprotocols=list(subprotocols) or None, **options)  # type: ignore[arg-type]


async def closed(socket: Any) -> int:
    try:
        while True:
            await socket.recv()
    except ConnectionClosed:
        return socket.close_code


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (("mcp",), "mcp"),
        (("mcp.v1",), "mcp.v1"),
        ((), None),
        (("x", "mcp.v1", "mcp"), "mcp.v1"),
        (("x",), None),
    ],
)
def test_a_subprotocol_we_know_is_chosen(offered: tuple[str, ...], chosen: str | None) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site, dial(site, *offered) as socket:
            assert socket.subprotocol == chosen
            message = modern("tools/call", {"name": "shout", "arguments": {"words": "hey"}})
            await socket.send(json.dumps(message))
            reply = await socket.recv()
            assert isinstance(reply, str)
            validate(reply.encode(), MODERN, method="tools/call")
            assert text(json.loads(reply)["result"]) == "HEY"

    scenario()


@run
async def test_a_frame_may_hold_several_messages_or_one_on_several_lines() -> None:
    async with served(build()) as site, dial(site) as socket:
        await socket.send("\n".join(json.dumps(request("ping", id=id)) for id in ("a", "b")) + "\n")
        assert {json.loads(await socket.recv())["id"] for _ in range(2)} == {"a", "b"}
        await socket.send(json.dumps(request("ping", id="c"), indent=2))
        assert json.loads(await socket.recv())["id"] == "c"
        await socket.send("rubbish")
        assert json.loads(await socket.recv())["error"]["code"] == -32700


@run
async def test_frames_we_cannot_take_close_the_socket() -> None:
    async with served(build(limits=Limits(max_message_bytes=1000))) as site:
        async with dial(site) as socket:
            await socket.send(b"{}")
            assert await closed(socket) == 1003
        async with dial(site) as socket:
            await socket.send("x" * 1500)
            assert await closed(socket) == 1009
        async with dial(site) as socket:
            socket.transport.write(b"\x81\x82\x00\x00\x00\x00\xff\xff")
            assert await closed(socket) == 1007
        await until(lambda: not site.app.state.sockets)


@run
async def test_closing_the_socket_cancels_what_runs_on_it() -> None:
    async with served(build()) as site:
        async with dial(site) as socket:
            await socket.send(json.dumps(modern("tools/call", {"name": "wait", "arguments": {"key": "w"}})))
            await until(lambda: any(duplex.busy for duplex in site.app.state.sockets))
        await until(lambda: not site.app.state.sockets)
        async with dial(site) as socket:
            await socket.send(
                json.dumps(modern("tools/call", {"name": "was_stopped", "arguments": {"key": "w"}}))
            )
            assert text(json.loads(await socket.recv())["result"]) == "true"


@run
async def test_a_large_answer_arrives_and_a_deaf_client_is_cut_off() -> None:
    server = build(limits=Limits(max_write_buffer_bytes=10_000))

    @server.tool
    async def big() -> str:
        return "x" * 1_000_000

    async with served(server) as site:
        async with dial(site, max_size=None) as socket:
            await socket.send(json.dumps(modern("tools/call", {"name": "big"})))
            assert len(await socket.recv()) > 1_000_000
        async with dial(site, max_size=None) as socket:
            socket.transport.pause_reading()
            await until(lambda: site.app.state.sockets)
            for _ in range(200):
                await socket.send(json.dumps(modern("tools/call", {"name": "big"})))
                if not site.app.state.sockets:
                    break
            await until(lambda: not site.app.state.sockets)
            socket.transport.abort()


@run
async def test_other_paths_too_many_and_the_end() -> None:
    async with served(build(limits=Limits(max_streams=1))) as site:
        with pytest.raises(InvalidStatus) as caught:
            async with dial(site, path="/other"):
                pass
        assert caught.value.response.status_code == 404
        async with dial(site) as socket:
            with pytest.raises(InvalidStatus) as caught:
                async with dial(site):
                    pass
            assert caught.value.response.status_code == 503
            site.end()
            assert await closed(socket) == 1001
    async with served(build(), websocket=False) as site:
        with pytest.raises(InvalidStatus):
            async with dial(site):
                pass
    await asyncio.sleep(0)


@run
async def test_one_frame_holds_as_many_messages_as_a_batch_and_no_more() -> None:
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/x"})
    async with served(build(limits=Limits(max_batch_size=10))) as site, dial(site) as socket:
        await socket.send("\n".join([note] * 9 + [json.dumps(modern("tools/list"))]))
        assert "result" in json.loads(await socket.recv())
        await socket.send("\n".join([note] * 11 + [json.dumps(modern("tools/list"))]))
        assert "error" in json.loads(await socket.recv())
        pretty = json.dumps(modern("tools/list"), indent=1).replace("{", "{\n" * 1 + "\n" * 20, 1)
        await socket.send(pretty)
        assert "result" in json.loads(await socket.recv())


@run
async def test_a_client_that_starts_with_an_invalid_message_is_disconnected() -> None:
    async with served(build()) as site, dial(site) as socket:
        await socket.send("rubbish")
        await closed(socket)


@run
async def test_a_handshake_is_a_get() -> None:
    async with served(build()) as site, await site.connect() as connection:
        connection.request(
            "POST",
            "/mcp",
            {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version": "13",
            },
        )
        assert (await connection.head()).status in (400, 405)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Sec-WebSocket-Key", "short"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZWluZGVlZA=="),
        ("Sec-WebSocket-Version", "12"),
    ],
)
def test_a_handshake_that_is_none_is_refused(header: str, value: str) -> None:
    good = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }

    @run
    async def scenario() -> None:
        async with served(build()) as site:
            async with await site.connect() as connection:
                connection.request("GET", "/mcp", good)
                assert (await connection.head()).status == 101
            async with await site.connect() as connection:
                refused = await connection.ask("GET", "/mcp", good | {header: value})
                assert refused.status in (400, 426)
            async with await site.connect() as connection:
                rest = {name: one for name, one in good.items() if name != header}
                assert (await connection.ask("GET", "/mcp", rest)).status in (400, 426)

    scenario()


@pytest.mark.parametrize(
    "lines",
    [
        "Host: evil.example\r\nHost: 127.0.0.1",
        "Host: 127.0.0.1\r\nOrigin: http://evil.example\r\nOrigin: http://127.0.0.1",
        "Host: 127.0.0.1\r\nAuthorization: Bearer one\r\nAuthorization: Bearer two",
    ],
)
def test_a_handshake_with_two_client_identities_is_refused(lines: str) -> None:
    head = (
        f"GET /mcp HTTP/1.1\r\n{lines}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )

    @run
    async def scenario() -> None:
        tokens = {"one": Principal("first"), "two": Principal("second")}
        async with served(build(auth=StaticTokens(tokens))) as site, await site.connect() as connection:
            connection.send(head.encode())
            assert (await connection.head()).status == 400

    scenario()


def test_an_idle_legacy_client_gets_a_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dovetail.drivers.heartbeat.PING_TIMEOUTS", Timeouts(connect=None, idle=None, total=1.0)
    )

    @run
    async def scenario() -> None:
        async with served(build(), session_ping_interval=0.1) as site, dial(site) as socket:
            params = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            await socket.send(json.dumps(request("initialize", params)))
            assert "protocolVersion" in str(await socket.recv())
            for _ in range(2):
                question = json.loads(await socket.recv())
                assert question["method"] == "ping"
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {}}))
            assert json.loads(await socket.recv())["method"] == "ping"
            assert await closed(socket) == 1001

    scenario()


@run
async def test_an_idle_client_of_2026_07_28_gets_no_ping() -> None:
    async with served(build(), session_ping_interval=0.05) as site, dial(site) as socket:
        for words in ("one", "two"):
            await socket.send(
                json.dumps(modern("tools/call", {"name": "shout", "arguments": {"words": words}}))
            )
            assert text(json.loads(await socket.recv())["result"]) == words.upper()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(socket.recv(), 0.2)


@run
async def test_an_internal_error_closes_the_socket_and_is_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("a defect of ours")

    async with served(build()) as site, dial(site) as socket:
        monkeypatch.setattr("dovetail.core.admit.Admission.admit", fail)
        await socket.send(json.dumps(modern("tools/list")))
        assert await closed(socket) == 1011
        await until(lambda: "a defect of ours" in caplog.text + capfd.readouterr().err)


HANDSHAKE = (
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@run
async def test_a_client_that_answers_no_ping_is_disconnected_with_1011() -> None:
    async with served(build(), websocket_ping_interval=0.1) as site, await site.connect() as connection:
        connection.send(HANDSHAKE)
        assert (await connection.head()).status == 101
        assert await connection.reader.readexactly(2) == b"\x89\x00"  # a ping
        opcode, size = await connection.reader.readexactly(2)
        reason = await connection.reader.readexactly(size)
        assert (opcode, reason) == (0x88, b"\x03\xf3no answer to a ping")
        assert await connection.at_end()


@run
async def test_a_client_that_answers_pings_stays_connected() -> None:
    async with served(build(), websocket_ping_interval=0.05) as site, await site.connect() as connection:
        connection.send(HANDSHAKE)
        assert (await connection.head()).status == 101
        for _ in range(10):
            assert await connection.reader.readexactly(2) == b"\x89\x00"
            connection.send(b"\x8a\x80\0\0\0\0")


def frame(opcode: int, payload: bytes, *, end: bool = True) -> bytes:
    """A frame of a client, with a mask of zeros."""
    size = len(payload)
    start = bytes((opcode | (0x80 if end else 0),))
    if size < 126:
        start += bytes((0x80 | size,))
    elif size < 1 << 16:
        start += b"\xfe" + size.to_bytes(2, "big")
    else:
        start += b"\xff" + size.to_bytes(8, "big")
    return start + bytes(4) + payload


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 200_000])
def test_the_bytes_of_unfinished_messages_are_counted_exactly(size: int) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site, await site.connect() as connection:
            connection.send(HANDSHAKE)
            assert (await connection.head()).status == 101
            whole = frame(1, json.dumps(request("ping", {"x": "y" * size}, id="a")).encode())
            connection.send(whole + whole)
            for _ in range(2):
                await connection.reader.readuntil(b'"id":"a"')
            assert site.app.buffered.in_use == 0
            connection.send(frame(1, b"x" * 100_000, end=False) + frame(0, b"y" * 100_000)[:-1])
            await until(lambda: site.app.buffered.in_use == 200_013)

    scenario()


WITHOUT_PACKAGE = """
import asyncio, sys
sys.modules["websockets"] = None
from dovetail import Server
from dovetail.transports.bind_address import BindAddress
from dovetail.transports.http.server.app import HttpApp
from dovetail.transports.http.http_serving import HttpServer
from dovetail.settings import HttpOptions

async def main():
    address = BindAddress(port=0)
    bound = address.listen()
    server, ready = HttpServer(HttpApp(Server("x").dispatcher, HttpOptions()), address, bound), asyncio.Event()
    task = asyncio.create_task(server.run(ready.set))
    await ready.wait()
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    writer.write(%r)
    print((await reader.read()).decode())
    server.stop.request(0)
    await task

asyncio.run(main())
"""


def test_without_the_websockets_package_a_handshake_gets_501_and_the_install_command() -> None:
    code = WITHOUT_PACKAGE % HANDSHAKE
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, check=True
    )
    assert ended.stdout.startswith("HTTP/1.1 501 Not Implemented")
    assert "connection: close" in ended.stdout
    assert "pip install 'dovetail-mcp[" in ended.stdout
    assert ended.stderr.count("WebSocket refused") == 1
    assert "Traceback" not in ended.stderr
