"""Where a server may be reached: ports, Unix sockets, TLS."""

import asyncio
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dovetail import Server
from dovetail.errors import DovetailError
from dovetail.transports.bind_address import BindAddress
from dovetail.transports.http.server.builtin_server import http_date
from tests.http.children import child
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.everything import build
from tests.support.faces import FILE
from tests.support.process import CLI
from tests.support.waiting import HANG
from tests.support.web import (
    Web,
    modern,
    modern_headers,
    served,
    text,
)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_unix_socket_and_a_stale_one(slow: str, tmp_path: Path, workers: str) -> None:
    @run
    async def scenario() -> None:
        path = str(tmp_path / "mcp.sock")
        BindAddress(uds=path).listen().close()
        async with child(slow, "--uds", path, "--workers", workers) as served:
            assert text(await Web(served).call("pid")).isdecimal()  # type: ignore[arg-type]
            with pytest.raises(DovetailError, match="another server listens on"):
                BindAddress(uds=path).listen()
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0
        assert not Path(path).exists()  # noqa: ASYNC240

    scenario()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls(slow: str, tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {certificate}"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
    )

    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--certfile", certificate, "--keyfile", key) as served:
            assert "https://" in served.said
            for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = ssl.create_default_context(cafile=certificate)
                context.maximum_version = newest
                connection = await served.connect(ssl=context)
                message = modern("tools/call", {"name": "pid"})
                found = await connection.ask(
                    "POST", "/mcp", modern_headers(message), json.dumps(message).encode()
                )
                assert text(found.message["result"]) == str(served.process.pid)
                await connection.close()
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0

    scenario()


WHO = """
from dovetail import Context, Server
server = Server("who")

@server.tool
async def who(ctx: Context) -> str:
    return str(ctx.principal and ctx.principal.subject)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_client_certificate_names_the_caller_and_is_required(tmp_path: Path, workers: str) -> None:
    authority = Authority(tmp_path)
    stranger_folder = tmp_path / "stranger"
    stranger_folder.mkdir()
    stranger = Authority(stranger_folder)
    (tmp_path / "who.py").write_text(WHO)
    certificate, own = str(authority.certificate("127.0.0.1")), str(authority.certificate("ann"))
    words = ("--certfile", certificate, "--client-ca", str(authority.path), "--workers", workers)

    @run
    async def scenario() -> None:
        async with child(str(tmp_path / "who.py"), "--port", "0", *words) as served:
            message = modern("tools/call", {"name": "who"})
            request = modern_headers(message), json.dumps(message).encode()
            context = authority.client()
            context.load_cert_chain(own)
            connection = await served.connect(ssl=context)
            found = await connection.ask("POST", "/mcp", *request)
            assert text(found.message["result"]) == "ann"
            forged = authority.client()
            forged.load_cert_chain(str(stranger.certificate("ann")))
            for refused in (authority.client(), forged):
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    await (await served.connect(ssl=refused)).ask("POST", "/mcp", *request)

    scenario()


def test_client_certificates_need_a_certificate_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(DovetailError, match="client certificates need TLS"):
        build().run("http", port=0, client_ca="ca.pem")
    certificate = str(Authority(tmp_path).certificate("127.0.0.1"))
    with pytest.raises(
        DovetailError, match=r"authority of client certificates .*missing.pem cannot be used: No such"
    ):
        build().run("http", port=0, certfile=certificate, client_ca=str(tmp_path / "missing.pem"))


def test_a_key_without_a_certificate_is_refused() -> None:
    with pytest.raises(DovetailError, match="a TLS key needs a certificate"):
        build().run("http", port=0, keyfile="key.pem")


def test_a_key_of_another_certificate_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, two = (str(authority.certificate(name)) for name in ("127.0.0.1", "ann"))
    with pytest.raises(DovetailError, match=f"the key {two} does not belong to the certificate {one}"):
        build().run("http", port=0, certfile=one, keyfile=two)
    Path(two).write_text("rubbish")
    with pytest.raises(DovetailError, match=f"certificate {two} cannot be used: both must be in PEM format"):
        build().run("http", port=0, certfile=two)


def test_an_encrypted_key_is_refused_and_asks_for_no_password(tmp_path: Path) -> None:
    certificate, key = str(Authority(tmp_path).certificate("127.0.0.1")), tmp_path / "encrypted.pem"
    secret = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*form, secret))
    with pytest.raises(DovetailError, match=f"the key {key} is encrypted"):
        build().run("http", port=0, certfile=certificate, keyfile=str(key))


def test_a_file_that_is_not_a_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(DovetailError, match=r"notes.txt: it exists and is not a socket; choose another path"):
        build().run("http", uds=str(path))
    assert path.read_text() == "hello"


def test_the_socket_file_of_a_later_server_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "mcp.sock")

    @run
    async def scenario() -> None:
        ready = asyncio.Event()

        @asynccontextmanager
        async def life(_: Server) -> AsyncGenerator[None]:
            ready.set()
            yield

        server = Server("first", lifespan=life)
        task = asyncio.create_task(server.serve("http", uds=path, quiet=True))
        await ready.wait()
        os.rename(path, path + ".old")  # its inode stays in use
        later = BindAddress(uds=path).listen()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stat.S_ISSOCK(os.stat(path).st_mode)
        later.close()

    scenario()


def test_binding_beyond_loopback_needs_an_option() -> None:
    for workers in (1, 2):
        with pytest.raises(DovetailError, match="allow_anonymous"):
            build().run("http", host="0.0.0.0", port=0, workers=workers)
    with pytest.raises(DovetailError, match="unknown option 'prot'"):
        build().run("http", prot=1)
    ended = subprocess.run(
        [*CLI, "run", FILE, "--http", "--host", "0.0.0.0", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert ended.returncode == 1
    assert "--allow-anonymous" in ended.stderr


@run
async def test_on_every_address_at_once_loopback_is_guarded_as_ever() -> None:
    async with served(build(), host="0.0.0.0") as site:
        site.address = ("127.0.0.1", site.port)
        message = modern("tools/list")
        for _ in range(2):
            good = await Web(site).ask("POST", modern_headers(message), json.dumps(message).encode())
            bad = await Web(site).ask("POST", modern_headers(message) | {"Host": "evil.example"}, b"{}")
            assert (good.status, bad.status) == (200, 403)


@pytest.mark.parametrize("seconds", [0, 784111777, 951782399, 4102444800])
def test_dates_are_those_of_http(seconds: int) -> None:
    assert http_date(time.gmtime(seconds)) == formatdate(seconds, usegmt=True)


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_no_machine_has_is_explained_and_not_another_one_served(port: int) -> None:
    with pytest.raises(
        DovetailError, match=f"cannot listen on .*:{port}: a port must be a number from 0 to 65535"
    ):
        BindAddress(port=port).listen()


def test_an_address_in_use_is_explained() -> None:
    listener = BindAddress(port=0).listen()
    try:
        with pytest.raises(
            DovetailError, match=r"port \d+ on 127.0.0.1 is in use; choose another with --port"
        ):
            build().run("http", port=listener.getsockname()[1])
    finally:
        listener.close()


def test_the_address_of_another_dovetail_server_is_in_use() -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            with pytest.raises(DovetailError, match="is in use"):
                await build().serve("http", port=site.port)

    scenario()


def test_without_the_parser_its_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['httptools'] = None\n"
        "from dovetail import Server\n"
        "try:\n    Server('x').run('http', port=0)\n"
        "except Exception as error:\n    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, check=True
    )
    assert "pip install 'dovetail-mcp[http]'" in ended.stdout


def test_what_is_accepted_sends_small_answers_at_once() -> None:
    """asyncio sees to it only where a socket says that it is TCP's; else an answer in two writes takes 40 ms."""

    async def accepted() -> int:
        arrived: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

        class Peer(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                arrived.set_result(transport)

        listener = BindAddress(host="127.0.0.1", port=0).listen()
        async with await asyncio.get_running_loop().create_server(Peer, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            connection = (await arrived).get_extra_info("socket")
            writer.close()
            return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(accepted())
