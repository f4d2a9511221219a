"""Where a server may be reached: ports, Unix sockets, TLS."""

import json
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from dovetail.transports.http.host import serving
from tests.http.children import child
from tests.support.aio import run
from tests.support.everything import build
from tests.support.faces import FILE
from tests.support.process import CLI
from tests.support.web import (
    Web,
    modern,
    modern_headers,
    text,
)


def test_a_unix_socket_and_one_left_behind(slow: str, tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        path = str(tmp_path / "mcp.sock")
        stale = serving.listen(uds=path)
        stale.close()
        async with child(slow, "--uds", path) as served:
            assert text(await Web(served).call("pid")) == str(served.process.pid)  # type: ignore[arg-type]
            with pytest.raises(DovetailError, match="cannot serve on"):
                serving.listen(uds=path)
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0
        assert not Path(path).exists()  # noqa: ASYNC240

    scenario()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls(slow: str, tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )

    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--certfile", certificate, "--keyfile", key) as served:
            assert "https://" in served.said
            context = ssl.create_default_context(cafile=certificate)
            connection = await served.connect(ssl=context)
            message = modern("tools/call", {"name": "pid"})
            found = await connection.ask(
                "POST", "/mcp", modern_headers(message), json.dumps(message).encode()
            )
            assert text(found.message["result"]) == str(served.process.pid)
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0

    scenario()


def test_beyond_loopback_needs_a_word() -> None:
    for workers in (1, 2):
        with pytest.raises(DovetailError, match="allow_remote"):
            build().run("http", host="0.0.0.0", port=0, workers=workers)
    serving.check({"allow_remote": True}, host="0.0.0.0")
    serving.check({"principal": lambda scope: "ada"}, host="0.0.0.0")
    serving.check({}, host="::1")
    with pytest.raises(DovetailError, match="no option 'prot'"):
        build().run("http", prot=1)
    ended = subprocess.run(
        [*CLI, "run", FILE, "--http", "--host", "0.0.0.0", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert "--allow-remote" in ended.stderr


def test_an_address_in_use_is_explained() -> None:
    listener = serving.listen("127.0.0.1", 0)
    try:
        with pytest.raises(DovetailError, match="cannot serve on"):
            build().run("http", port=listener.getsockname()[1])
    finally:
        listener.close()


def test_without_uvicorn_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from dovetail import Server\n"
        "try:\n    Server('x').run('http', port=0)\n"
        "except Exception as error:\n    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert "pip install 'dovetail[http]'" in ended.stdout
