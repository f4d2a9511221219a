"""What hosting platforms need: forwarded headers, ``$PORT``, public addresses, foreign session ids."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, DovetailError, Server
from dovetail.transports.bind_address import BindAddress
from dovetail.transports.http.server.forwarded import TrustedProxies
from tests.http.children import child
from tests.support.aio import run
from tests.support.web import Web, legacy_headers, modern, modern_headers, request, served


def build(**options: Any) -> Server:
    server = Server("deployed", **options)

    @server.tool
    def seen(ctx: Context) -> str:
        return f"{ctx.scope['client'][0]} {ctx.scope['scheme']}"

    return server


@pytest.mark.parametrize(
    ("trusted", "headers", "client"),
    [
        ((), {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "https"}, "127.0.0.1 http"),
        (("10.0.0.0/8",), {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "https"}, "127.0.0.1 http"),
        (("127.0.0.0/8",), {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "https"}, "8.8.8.8 https"),
        (("127.0.0.1", "10.0.0.0/8"), {"X-Forwarded-For": "6.6.6.6, 8.8.8.8, 10.1.2.3"}, "8.8.8.8 http"),
        (("127.0.0.1",), {"X-Forwarded-For": "6.6.6.6, 10.1.2.3"}, "10.1.2.3 http"),
        (("127.0.0.1",), {"X-Forwarded-For": "[2001:db8::1]:4711"}, "2001:db8::1 http"),
        (("127.0.0.1",), {"X-Forwarded-For": "8.8.8.8:99"}, "8.8.8.8 http"),
        (("127.0.0.1",), {"X-Forwarded-For": "unknown", "X-Forwarded-Proto": "gopher"}, "127.0.0.1 http"),
        (("127.0.0.1",), {}, "127.0.0.1 http"),
    ],
)
@run
async def test_forwarded_headers_count_from_trusted_proxies_only(
    trusted: tuple[str, ...], headers: dict[str, str], client: str
) -> None:
    async with served(build(), trusted_proxies=trusted) as site:
        message = modern("tools/call", {"name": "seen"})
        body = json.dumps(message).encode()
        result = await Web(site).ask("POST", modern_headers(message) | headers, body)
        assert result.message["result"]["content"][0]["text"] == client


@pytest.mark.parametrize("network", ["proxy", "10.0.0.0/40", ""])
def test_a_network_that_is_none_is_refused(network: str) -> None:
    with pytest.raises(DovetailError, match="CIDR"):
        TrustedProxies([network])


@run
async def test_a_stateless_server_ignores_session_ids_of_the_platform() -> None:
    async with served(build(), stateless=True) as site:
        for revision in ("2025-03-26", "2025-06-18", "2025-11-25"):
            async with await site.connect() as link:
                for message in (request("tools/list", id=1), request("tools/call", {"name": "seen"}, id=2)):
                    headers = legacy_headers(revision, "made-up-by-the-platform")
                    found = await link.ask("POST", "/mcp", headers, json.dumps(message).encode())
                    assert found.status == 200, found.body
                found = await link.ask("POST", "/mcp", headers, b"{")
                assert found.status == 400


@pytest.mark.parametrize(("value", "port"), [("9123", 9123), ("", 8000), (None, 8000)])
def test_the_port_of_the_environment_is_the_default(
    value: str | None, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PORT", raising=False)
    if value is not None:
        monkeypatch.setenv("PORT", value)
    assert BindAddress().port == port
    assert BindAddress(port=1).port == 1


@pytest.mark.parametrize("value", ["http", "65536", "-1"])
def test_a_wrong_port_in_the_environment_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", value)
    with pytest.raises(DovetailError, match="variable PORT"):
        BindAddress()


SERVER = """
from dovetail import Principal, Server
from dovetail.auth import StaticTokens

server = Server("public", auth={auth})
"""


def started(folder: Path, auth: str, *words: str) -> tuple[int | None, str]:
    """Start a server on a free port; return its status, or None once it serves, and its first line."""
    file = folder / "server.py"
    file.write_text(SERVER.format(auth=auth))
    command = [sys.executable, "-m", "dovetail.cli.main", "run", str(file), "--http", *words]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PORT": "0"})
    try:
        assert child.stderr is not None
        line = child.stderr.readline()
        if "serving on http" in line:
            return None, line
        return child.wait(60), line
    finally:
        child.terminate()
        child.communicate(timeout=60)


TOKENS = "StaticTokens({'t': Principal('ann')})"


def test_a_public_server_with_authentication_binds_every_interface(tmp_path: Path) -> None:
    status, line = started(tmp_path, TOKENS, "--public", "--trusted-proxy", "10.0.0.0/8")
    assert status is None
    assert "http://0.0.0.0:" in line


def test_a_public_server_without_authentication_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    status, line = started(tmp_path, "None", "--public")
    assert (status, "--allow-anonymous" in line) == (1, True), line
    assert started(tmp_path, "None", "--public", "--allow-anonymous")[0] is None


def test_public_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    words = ("--public", "--host", "127.0.0.1")
    command = [sys.executable, "-m", "dovetail.cli.main", "run", "server.py", "--http", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "either --public or --host 127.0.0.1" in done.stderr


OWN_OPTIONS = """
from dovetail import HttpOptions, Server
server = Server("own", http=HttpOptions(path="/mcp/own", allowed_hosts=("one.example",), metrics=True))
"""


def test_the_command_line_adds_to_the_http_options_of_the_server(tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        path = tmp_path / "own.py"
        path.write_text(OWN_OPTIONS)
        async with child(str(path), "--port", "0", "--allowed-host", "two.example") as served:
            message = modern("server/discover")
            body = json.dumps(message).encode()
            async with await served.connect() as link:
                for host, status in (("one.example", 200), ("two.example", 200), ("three.example", 403)):
                    headers = modern_headers(message) | {"Host": host}
                    assert (await link.ask("POST", "/mcp/own", headers, body)).status == status
                assert (await link.ask("GET", "/metrics", {}, b"")).status == 200
                assert (await link.ask("POST", "/mcp", modern_headers(message), body)).status == 404

    scenario()
