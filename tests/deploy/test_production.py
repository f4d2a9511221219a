"""The server of "Going to production": every part of it works, alone and with the others."""

import configparser
import http.server
import json
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from dovetail.settings import HttpOptions, Limits
from tests.deploy.projects import FILE, ROOT, Running, modern, started
from tests.support.certificates import Authority
from tests.support.redis import free_port
from tests.support.waiting import HANG, wait_until

PAGE = (ROOT / "docs" / "going-to-production.md").read_text()
FILES = dict(FILE.findall(PAGE))
PUBLIC_URL = "https://shop.example/mcp"
KEY = ECKey.generate_key("P-256", {"kid": "k"})
SERVICE = configparser.RawConfigParser(strict=False)
SERVICE.read_string(FILES["orders.service"])
WORDS = shlex.split(SERVICE["Service"]["ExecStart"])
COMMAND = ["dovetail", *WORDS[2:]]
"""What systemd starts, without OpenTelemetry's wrapper."""

WAITING = '''

@server.tool(scopes=["orders:write"])
async def ship() -> str:
    """Ship when the file is there."""
    import asyncio, pathlib

    pathlib.Path("called").touch()
    while not pathlib.Path("truck").exists():
        await asyncio.sleep(0.01)
    return "shipped"
'''


class Issuer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"keys": [KEY.as_dict(private=False)]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Shop(NamedTuple):
    server: Running
    issuer: str
    folder: Path

    def headers(self, subject: str = "ann", scope: str = "orders:read orders:write") -> dict[str, str]:
        claims = {
            "iss": self.issuer,
            "aud": PUBLIC_URL,
            "sub": subject,
            "scope": scope,
            "exp": int(time.time()) + 600,
        }
        token = jwt.encode({"alg": "ES256", "kid": "k"}, claims, KEY)
        return {"Host": "shop.example", "X-Forwarded-Proto": "https", "Authorization": f"Bearer {token}"}

    def call(self, name: str, headers: dict[str, str], **arguments: Any) -> Any:
        found, body = modern(name, **arguments)
        return self.server.ask("POST", "/mcp", found | headers, body)


@contextmanager
def shop(folder: Path, *, workers: int = 1, program: str = FILES["server.py"]) -> Iterator[Shop]:
    """The server of the page with an issuer, and a store on this machine."""
    (folder / "server.py").write_text(program)
    keys = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    threading.Thread(target=keys.serve_forever, daemon=True).start()
    issuer = f"http://127.0.0.1:{keys.server_port}"
    env = dict(line.split("=", 1) for line in FILES["orders.env"].splitlines())
    env |= {name: "ab" * 32 for name, value in env.items() if not value}
    env |= {
        "ISSUER": issuer,
        "JWKS_URI": f"{issuer}/keys",
        "PUBLIC_URL": PUBLIC_URL,
        "DOVETAIL_STORE": "sqlite:///state.db",
    }
    words = [*COMMAND]
    words[words.index("--workers") + 1] = str(workers)
    words[words.index("--port") + 1] = "0"
    try:
        with started(words, folder, env) as server:
            yield Shop(server, issuer, folder)
    finally:
        keys.shutdown()
        keys.server_close()


def test_only_callers_with_a_token_and_its_scopes_get_through(tmp_path: Path) -> None:
    with shop(tmp_path) as one:
        anonymous = {"Host": "shop.example"}
        found = one.call("orders", anonymous)
        assert found.status == 401
        assert "resource_metadata=" in found.headers["www-authenticate"]
        assert one.call("order", one.headers(scope="orders:read"), item="tea").status == 403
        assert one.call("orders", one.headers() | {"Host": "other.example"}).status == 403
        assert one.call("order", one.headers(), item="tea").message["result"]["structuredContent"] == 1
        assert one.call("orders", one.headers()).message["result"]["structuredContent"] == ["tea"]
        assert one.call("orders", one.headers("bob")).message["result"]["structuredContent"] == []


def test_a_caller_over_the_rate_is_refused_and_others_are_served(tmp_path: Path) -> None:
    with shop(tmp_path) as one:
        ann = one.headers() | {"X-Forwarded-For": "198.51.100.7"}
        wait_until(lambda: one.call("orders", ann).status == 429)
        assert one.call("orders", one.headers("bob") | {"X-Forwarded-For": "198.51.100.8"}).status == 200


def test_health_metrics_and_audit_tell_what_happened(tmp_path: Path) -> None:
    with shop(tmp_path, workers=2) as one:
        for number in range(6):
            assert one.call("order", one.headers(), item=f"tea {number}").status == 200
        ready = one.server.ask("GET", "/readyz", {"Host": "shop.example", "Accept": "application/json"})
        assert (ready.status, ready.message["components"]["database"]["ok"]) == (200, True)
        assert one.server.ask("GET", "/metrics", {"Host": "shop.example"}).status == 401
        scraper = {"Host": "10.1.2.3:8000", "Authorization": "Bearer " + "ab" * 32}
        text = one.server.ask("GET", "/metrics", scraper).body.decode()
        assert re.search(r'^dovetail_calls_total{.*name="order",outcome="ok"} 6', text, re.MULTILINE), text
    env = {**os.environ, "DOVETAIL_AUDIT_KEY": "ab" * 32}
    records = 0
    for file in [path for path in tmp_path.glob("audit*") if path.suffix != ".head"]:
        done = subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", "audit", "verify", str(file), "--json"],
            env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        records += file.read_text().count('"tools/call"')
    assert records == 6


def draining(server: Running) -> bool:
    try:
        return server.ask("GET", "/readyz").status == 503
    except OSError:
        return True  # it accepts no connections any more


def test_a_call_under_way_is_finished_when_the_server_is_stopped(tmp_path: Path) -> None:
    with shop(tmp_path, program=FILES["server.py"] + WAITING) as one:
        replies: list[Any] = []
        headers, body = modern("ship")
        calling = threading.Thread(
            target=lambda: replies.append(one.server.ask("POST", "/mcp", headers | one.headers(), body))
        )
        calling.start()
        wait_until((tmp_path / "called").exists)
        one.server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: draining(one.server))
        (tmp_path / "truck").touch()
        calling.join()
        assert one.server.process.wait(HANG) == 0
        assert replies[0].status == 200
        assert (replies[0].events or [replies[0].message])[-1]["result"]["content"][0]["text"] == "shipped"


STREAMING = '''

@server.tool(scopes=["orders:write"])
async def track(ctx: Context) -> str:
    """Report progress, then wait for the file."""
    import asyncio, pathlib

    await ctx.report_progress(1, 2)
    while not pathlib.Path("truck").exists():
        await asyncio.sleep(0.01)
    return ctx.scope["client"][0]
'''


@contextmanager
def nginx(folder: Path, backend: int) -> Iterator[Callable[[], ssl.SSLSocket]]:
    """nginx with the configuration of the page: connects to it as a client of shop.example."""
    authority, port = Authority(folder), free_port()
    certificate = authority.certificate("shop.example")
    site = FILES["orders.conf"].replace("listen 443", f"listen 127.0.0.1:{port}")
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{backend}")
    site = re.sub(r"/etc/ssl/shop.example.\w+", str(certificate), site)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {paths} {site} }}"
    (folder / "nginx.conf").write_text(main)
    trust = ssl.create_default_context(cafile=authority.path)

    def connect() -> ssl.SSLSocket:
        return trust.wrap_socket(
            socket.create_connection(("127.0.0.1", port), HANG), server_hostname="shop.example"
        )

    def accepts() -> bool:
        try:
            connect().close()
        except OSError:
            return False
        return True

    with subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]) as process:
        try:
            wait_until(lambda: process.poll() is not None or accepts())
            assert process.poll() is None
            yield connect
        finally:
            process.terminate()


@pytest.mark.nginx
def test_nginx_forwards_events_immediately_with_the_client_address(tmp_path: Path) -> None:
    with (
        shop(tmp_path, program=FILES["server.py"] + STREAMING) as one,
        nginx(tmp_path, one.server.port) as connect,
    ):
        headers, body = modern("track")
        body["params"]["_meta"]["progressToken"] = "p"
        data = json.dumps(body).encode()
        every = headers | one.headers() | {"X-Forwarded-For": "203.0.113.9", "Content-Length": str(len(data))}
        head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
        with connect() as client, client.makefile("rb") as lines:
            client.sendall(f"POST /mcp HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode() + data)
            assert lines.readline().startswith(b"HTTP/1.1 200")
            assert any(b'"progress":1' in line for line in lines)  # though the tool still waits
            (tmp_path / "truck").touch()
            assert b'"127.0.0.1"' in lines.read()  # not what the client sent
        with connect() as client, client.makefile("rb") as lines:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
            assert lines.readline().startswith(b"HTTP/1.1 403")


def test_the_files_agree_with_each_other_and_with_the_defaults() -> None:
    assert WORDS[1].endswith("/dovetail")
    port = COMMAND[COMMAND.index("--port") + 1]
    assert f"server 127.0.0.1:{port};" in FILES["orders.conf"]
    assert COMMAND[COMMAND.index("--allowed-host") + 1] in FILES["orders.conf"]
    grace = float(re.findall(r"shutdown_grace_period=(\d+)", FILES["server.py"])[0])
    assert float(SERVICE["Service"]["TimeoutStopSec"]) > grace + 15
    assert f"client_max_body_size {Limits().max_message_bytes >> 20}m;" in FILES["orders.conf"]
    assert "proxy_buffering off;" in FILES["orders.conf"]
    assert f"every {HttpOptions().sse_ping_interval:.0f} seconds" in PAGE
    for name in ("PUBLIC_URL", "ISSUER"):
        assert f"{name}=" in FILES["orders.env"]
