"""TCP, TLS and Unix sockets, on both sides."""

import asyncio
import json
import os
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from dovetail.core.channel import Call, Channel
from dovetail.errors import RequestTimeout, TransportError
from dovetail.model import CallToolResult
from dovetail.settings import Limits, Timeouts
from dovetail.transports import tcp, unix
from dovetail.transports.loopback import is_loopback
from tests.drivers.parrot import Gate, Parrot, call, said, text
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.held import held
from tests.support.rawclient import MODERN, RawClient
from tests.support.waiting import HANG, turns, until
from tests.support.web import modern

from .recorder import Recorder

LARGE = 3 << 20
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}\n'
)


@run
async def test_many_clients_at_once_each_get_their_own_answers() -> None:
    listener = await tcp.listen(Parrot())
    clients = [RawClient(MODERN) for _ in range(20)]
    for client in clients:
        await tcp.connect(client, *listener.address)
    results = await asyncio.gather(*(client.request("tools/call", call("echo")) for client in clients))
    assert [said(result) for result in results] == ["echo"] * 20
    for client in clients:
        await client.close()
    await listener.close()


@run
async def test_a_connection_beyond_the_limit_is_closed_and_a_free_place_is_given_again() -> None:
    listener = await tcp.listen(Parrot(), connections=1)
    first, second = RawClient(MODERN), Recorder()
    await tcp.connect(first, *listener.address)
    await first.request("tools/call", call("echo"))
    await tcp.connect(second, *listener.address)
    await second.until(lambda: second.has_ended or second.losses)
    (refusal,) = second.messages
    assert json.loads(refusal)["error"]["code"] == 1060
    second.link.abort()
    await first.close()
    await until(lambda: not listener.connections)
    third = RawClient(MODERN)
    await tcp.connect(third, *listener.address)
    assert said(await third.request("tools/call", call("echo"))) == "echo"
    await third.close()
    await listener.close()


@run
async def test_a_silent_connection_is_closed_unless_a_call_is_under_way() -> None:
    gate = Gate()
    listener = await tcp.listen(Parrot(slow=gate), idle=0.3)
    busy = RawClient(MODERN)
    await tcp.connect(busy, *listener.address)
    id = busy.start("tools/call", call("slow"))
    for _ in range(3):  # one after the other, each for as long as a connection may be silent
        silent = Recorder()
        await tcp.connect(silent, *listener.address)
        await silent.until(lambda silent=silent: silent.has_ended)
        silent.link.close()
    gate.open.set()
    assert said((await busy.response(id))["result"]) == "through"
    await until(lambda: not listener.connections)
    await busy.close()
    await listener.close()


def test_a_client_has_so_long_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.drivers.heartbeat.INITIALIZE_SECONDS", 0.5)

    @run
    async def scenario() -> None:
        listener = await tcp.listen(Parrot())
        spoken, answer = await asyncio.open_connection(*listener.address)
        answer.write(PING)
        assert b"jsonrpc" in await spoken.readline()
        silent, unused = await asyncio.open_connection(*listener.address)
        assert await silent.read() == b""
        answer.write(PING)  # a client that has initialized may be idle for longer
        assert b"jsonrpc" in await spoken.readline()
        for writer in (answer, unused):
            writer.close()
            await writer.wait_closed()
        await listener.close()

    scenario()


def test_an_idle_legacy_client_gets_a_ping_and_stays_if_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dovetail.drivers.heartbeat.PING_TIMEOUTS", Timeouts(connect=None, idle=None, total=0.9)
    )

    @run
    async def scenario() -> None:
        listener = await tcp.listen(Parrot(), idle=1.0)
        replies, writer = await asyncio.open_connection(*listener.address)
        writer.write(INITIALIZE)
        assert b"protocolVersion" in await replies.readline()
        writer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        for number in range(4):  # twice as long as a connection may be silent
            question = json.loads(await replies.readline())
            assert question["method"] == "ping"
            answer = {"result": {}} if number % 2 else {"error": {"code": -32601, "message": "what?"}}
            writer.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode() + b"\n")
        assert json.loads(await replies.readline())["method"] == "ping"
        assert b"ping" not in await replies.read(), "nobody answered, and the connection is closed"
        writer.close()
        await listener.close()

    scenario()


@run
async def test_a_client_that_takes_nothing_for_too_long_is_cut_off() -> None:
    gate = Gate()
    listener = await tcp.listen(Parrot(Limits(max_write_buffer_bytes=10_000), slow=gate), idle=0.5)
    client = RawClient(MODERN, check=False)
    await tcp.connect(client, *listener.address)
    client.start("tools/call", call("slow"))  # busy, so it is not closed for being silent
    await gate.reached.wait()
    client.link.pause()
    (connection,) = listener.connections
    while not connection.blocked:
        client.link.send_many([PING.strip()] * 1000)
        await asyncio.sleep(0)
    await until(lambda: gate.cancelled)
    await until(lambda: not listener.connections)
    client.link.abort()
    await client.over
    await listener.close()


@run
async def test_a_client_that_half_closes_still_gets_its_answers() -> None:
    listener = await tcp.listen(Parrot())
    reader, writer = await asyncio.open_connection(*listener.address)
    writer.write(PING + PING.replace(b"1,", b"2,"))
    writer.write_eof()
    answers = [json.loads(line)["id"] for line in (await reader.read()).splitlines()]
    assert sorted(answers) == [1, 2]
    writer.close()
    await writer.wait_closed()
    await listener.close()


@run
async def test_a_client_that_disconnects_at_any_byte_leaves_no_state() -> None:
    service = Parrot()
    listener = await tcp.listen(service)
    initialize = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
    )
    data = initialize.encode() + b"\n" + PING
    for cut in range(0, len(data), 3):
        _, writer = await asyncio.open_connection(*listener.address)
        writer.write(data[:cut])
        writer.transport.abort()
    await until(lambda: not listener.connections)
    assert len(service.closed) == len(service.opened)
    await listener.close()


@run
async def test_a_client_that_sends_and_never_reads_is_not_read_either() -> None:
    limits = Limits(max_write_buffer_bytes=10_000)
    listener = await tcp.listen(Parrot(limits))
    _, writer = await asyncio.open_connection(*listener.address)
    await until(lambda: listener.connections)
    (connection,) = listener.connections
    async with asyncio.timeout(HANG):
        while not connection.blocked:
            writer.write(PING * 1000)
            await asyncio.sleep(0)
    read = connection.chunks
    while not writer.transport.get_write_buffer_size():  # until the kernel's buffers are full, too
        writer.write(PING * 1000)
        await turns()
    assert connection.chunks == read
    assert len(connection.duplex.endpoint.in_flight) <= limits.max_requests_per_connection
    other = RawClient(MODERN)
    await tcp.connect(other, *listener.address)
    assert said(await other.request("tools/call", call("echo"))) == "echo"
    await other.close()
    writer.transport.abort()
    await listener.close()


@run
async def test_closing_the_listener_drains_and_then_ends_every_connection() -> None:
    gate = Gate()
    listener = await tcp.listen(Parrot(slow=gate))
    client = RawClient(MODERN)
    await tcp.connect(client, *listener.address)
    id = client.start("tools/call", call("slow"))
    await gate.reached.wait()
    closing = asyncio.ensure_future(listener.close(drain=5))
    await asyncio.sleep(0)
    gate.open.set()
    assert said((await client.response(id))["result"]) == "through"
    await closing
    await client.close()
    with pytest.raises(TransportError):
        await tcp.connect(Recorder(), "127.0.0.1", 1)


@run
async def test_no_listener_and_no_response_are_distinguished() -> None:
    with pytest.raises(TransportError) as refused:
        await tcp.connect(Recorder(), "127.0.0.1", 1)
    assert refused.value.cause == "refused"
    with pytest.raises(TransportError):
        await tcp.connect(Recorder(), path="/no/such/socket")
    held: list[asyncio.StreamWriter] = []
    full = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
    address = full.sockets[0].getsockname()
    context = ssl.create_default_context()
    with pytest.raises(RequestTimeout) as silent:
        await tcp.connect(Recorder(), *address, ssl=context, timeout=0.1)  # a handshake without a response
    assert silent.value.limit == "connect"
    for writer in held:
        writer.transport.abort()
    full.close()
    await full.wait_closed()


@run
async def test_an_address_others_can_reach_has_to_be_wanted() -> None:
    for host in ("0.0.0.0", "::", None, "example.org"):
        with pytest.raises(TransportError, match="allow_anonymous"):
            await tcp.listen(Parrot(), host)
    for host in ("localhost", "127.0.0.5", "::1"):
        assert is_loopback(host)
    listener = await tcp.listen(Parrot(), "0.0.0.0", allow_anonymous=True)
    await listener.close()


@run
async def test_a_port_that_no_machine_has_is_a_clear_error() -> None:
    with pytest.raises(TransportError, match=r"cannot listen on 127\.0\.0\.1:65536"):
        await tcp.listen(Parrot(), "127.0.0.1", 65536)


@run
async def test_an_address_in_use_is_a_clear_error() -> None:
    listener = await tcp.listen(Parrot())
    with pytest.raises(TransportError, match=r"is in use; choose another with --tcp"):
        await tcp.listen(Parrot(), *listener.address)
    await listener.close()


@run
async def test_what_came_of_a_line_goes_with_its_peer() -> None:
    listener = await tcp.listen(Parrot())
    _, writer = await asyncio.open_connection(*listener.address)
    await until(lambda: len(listener.connections) == 1)
    (one,) = listener.connections
    writer.write(PING + b'{"jsonrpc":"2.0","method":"' + b"x" * LARGE)
    await until(lambda: held(one) > LARGE)
    one.abort()
    await until(lambda: not listener.connections)
    assert held(one) < LARGE  # although a reference to the link may still exist
    writer.close()
    await listener.close()


def test_a_handshake_that_stops_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "TLS_SECONDS", 0.2)

    @run
    async def scenario() -> None:
        listener = await tcp.listen(Parrot(), ssl=Authority(tmp_path).server("127.0.0.1"))
        for beginning in (b"", b"\x16\x03\x01\x02\x00\x01"):
            reader, writer = await asyncio.open_connection(*listener.address)
            writer.write(beginning)
            assert await reader.read() == b""
            writer.close()
        await listener.close()

    scenario()


def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")

    @run
    async def scenario() -> None:
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(certificate, key)
        listener = await tcp.listen(Parrot(), ssl=ours)
        client = RawClient(MODERN)
        await tcp.connect(client, *listener.address, ssl=ssl.create_default_context(cafile=str(certificate)))
        assert said(await client.request("tools/call", call("echo"))) == "echo"
        await client.close()
        with pytest.raises(TransportError) as caught:  # an untrusted certificate
            await tcp.connect(Recorder(), *listener.address, ssl=ssl.create_default_context())
        assert caught.value.cause == "tls"
        await listener.close()

    scenario()


@run
async def test_a_unix_socket_is_removed_and_foreign_sockets_are_not_taken_over(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(path)  # and never closed properly: the file is still there
    listener = await tcp.listen(Parrot(), path=path)
    with pytest.raises(TransportError, match="another server listens"):
        await tcp.listen(Parrot(), path=path)
    client = RawClient(MODERN)
    await tcp.connect(client, path=path)
    assert said(await client.request("tools/call", call("echo"))) == "echo"
    await client.close()
    await listener.close()
    assert unix.identity(path) is None
    moved = await tcp.listen(Parrot(), path=path)
    os.unlink(path)
    later = await tcp.listen(Parrot(), path=path)
    await moved.close()
    other = RawClient(MODERN)
    await tcp.connect(other, path=path)
    await other.close()
    await later.close()
    assert unix.identity(path) is None


@run
async def test_a_handler_learns_where_its_client_is() -> None:
    seen: list[object] = []

    async def look(call, channel):  # type: ignore[no-untyped-def]
        from tests.drivers.parrot import text

        seen.append((call.scope["transport"], call.scope["client"][0]))
        return text("")

    listener = await tcp.listen(Parrot(look=look))
    client = RawClient(MODERN)
    await tcp.connect(client, *listener.address)
    await client.request("tools/call", call("look"))
    assert seen == [("tcp", "127.0.0.1")]
    await client.close()
    await listener.close()


@run
async def test_unread_large_responses_are_refused_and_sent_again_to_a_client_that_reads() -> None:
    async def large(request: Call, channel: Channel) -> CallToolResult:
        return text("x" * LARGE)

    parrot, client, other = Parrot(big=large), Recorder(), RawClient(MODERN)
    parrot.admission.shared.buffered_bytes.maximum = 4 * LARGE
    listener = await tcp.listen(parrot)
    await tcp.connect(client, *listener.address)
    await tcp.connect(other, *listener.address)
    client.link.pause()
    messages = [modern("tools/call", call("big"), id=number) for number in range(8)]
    client.link.send_many([json.dumps(message).encode() for message in messages])
    await until(lambda: parrot.admission.shared.buffered_bytes.in_use > 0)
    assert said(await other.request("tools/call", call("echo"))) == "echo"
    client.link.resume()
    await client.until(lambda: len(client.messages) == 8)
    errors = [answer["error"] for answer in map(json.loads, client.messages) if "error" in answer]
    assert 0 < len(errors) < 8
    assert {error["code"] for error in errors} == {1004}
    assert all(error["data"]["retryAfterMs"] > 0 for error in errors)
    await until(lambda: parrot.admission.shared.buffered_bytes.in_use == 0)
    client.link.send(json.dumps(modern("tools/call", call("big"), id=9)).encode())
    await client.until(lambda: len(client.messages) == 9)
    assert "result" in json.loads(client.messages[-1])
    client.link.close()
    await other.close()
    await listener.close()


@run
async def test_the_first_large_answer_of_each_connection_counts_too() -> None:
    async def large(request: Call, channel: Channel) -> CallToolResult:
        return text("x" * size)

    size = 12 << 20  # more than the kernel takes
    parrot, clients = Parrot(big=large), [Recorder() for _ in range(3)]
    answers = parrot.admission.shared.buffered_bytes
    answers.maximum = 2 * size + size // 2
    listener = await tcp.listen(parrot)
    for client, counted in zip(clients, (size, 2 * size, 2 * size), strict=True):
        await tcp.connect(client, *listener.address)
        client.link.pause()
        client.link.send(json.dumps(modern("tools/call", call("big"), id=1)).encode())
        await until(lambda counted=counted: answers.in_use > counted)
    clients[2].link.resume()
    await clients[2].until(lambda: clients[2].messages)
    assert json.loads(clients[2].messages[0])["error"]["code"] == 1004
    clients[0].link.resume()
    await clients[0].until(lambda: clients[0].messages)
    assert "result" in json.loads(clients[0].messages[0])
    clients[1].link.abort()
    await until(lambda: not answers.in_use)
    for client in clients:
        client.link.close()
    await listener.close()
