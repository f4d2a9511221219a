"""What the doctor finds, on good servers and on bad ones."""

import asyncio
import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.cli.main import main
from dovetail.middleware import ClientWorkarounds
from dovetail.middleware.client_workarounds import WORKAROUNDS
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.proxy import forward_proxy
from tests.support.waiting import HANG
from tests.support.web import served

CLI = [sys.executable, "-m", "dovetail.cli.main"]
Captured = pytest.CaptureFixture[str]


def findings(target: str, capsys: Captured) -> tuple[int, dict[str, dict[str, Any]]]:
    status = main(["doctor", target, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (status == 0)
    return status, {one["check"]: one for one in found["findings"]}


@run
async def test_a_good_server_over_http_is_found_good(capsys: Captured) -> None:
    server = Server("good", "1.2", client_workarounds=False)
    server.tool(name="hello", description="Say it.")(lambda: "hello")
    async with served(server) as site:
        status, found = await asyncio.to_thread(findings, f"http://127.0.0.1:{site.port}/mcp", capsys)
    assert status == 0
    assert "good 1.2, revision 2026-07-28" in found["connection"]["detail"]
    assert "2024-11-05" in found["revisions"]["detail"]
    assert {
        found[check]["state"] for check in ("CORS", "Host", "headers", "sessions", "tools", "timing")
    } == {"ok"}
    assert found["workarounds"]["state"] == "note"
    assert found["conformance 2026-07-28"]["detail"] == "6 of 6 checks passed"
    assert found["conformance 2024-11-05"]["detail"] == "4 of 4 checks passed"
    assert "ClientWorkarounds(" in found["workarounds"]["advice"]


@pytest.mark.parametrize("on", [(), ("accept-without-json", "modern-header-on-legacy")])
@run
async def test_every_row_of_the_workarounds_is_shown_on_or_off_and_how_often_it_was_of_use(
    on: tuple[str, ...], capsys: Captured
) -> None:
    server = Server("bent", middleware=[ClientWorkarounds(*on)] if on else [], client_workarounds=False)
    async with served(server, metrics=True) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        for _ in range(2):
            await asyncio.to_thread(main, ["doctor", url, "--json"])
            found = json.loads(capsys.readouterr().out)["findings"]
        assert server.subscriptions.hub.sessions == 0
    shown = [(one["detail"], one["state"]) for one in found if one["check"] == "workarounds"]
    assert [detail.split(":")[0] for detail, _ in shown] == [workaround.name for workaround in WORKAROUNDS]
    assert {detail.split(":")[0] for detail, state in shown if state == "ok"} == set(on)
    assert sum("accepted, applied 1 times:" in detail for detail, _ in shown) == len(on)


def test_what_is_odd_about_tools_is_said(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "server.py"
    path.write_text(
        "from dovetail import Server\nserver = Server('odd', revisions=['2025-06-18'])\n"
        "server.tool(name='quiet')(lambda: None)\nserver.tool(name='a.b', description='d')(lambda: None)\n"
    )
    status, found = findings(str(path), capsys)
    assert status == 0
    assert "description" in found["tool quiet"]["detail"]
    assert "reject its name" in found["tool a.b"]["detail"]
    assert found["revisions"]["detail"] == "it uses revision 2025-06-18"


WRONG = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
                  "serverInfo": {"name": "wrong", "version": "0"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "t", "description": "d", "inputSchema": {"type": "string"}}]}
    elif method == "resources/list":
        result = {"resources": []}
    elif method == "tools/call":
        result = {"content": []}
    elif method == "resources/read":
        result = {"contents": []}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_what_breaks_the_protocol_is_found_over_any_transport(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "wrong.txt").write_text(WRONG)
    status = main(
        ["doctor", f"{sys.executable} {tmp_path / 'wrong.txt'}", "--revision", "2025-06-18", "--json"]
    )
    found = [
        one for one in json.loads(capsys.readouterr().out)["findings"] if one["check"].startswith("conf")
    ]
    assert status == 1
    assert [(one["state"], one["detail"]) for one in found] == [
        ("broken", "an unknown method returns a result instead of an error"),
        ("broken", "a call of an unknown tool succeeds"),
        ("note", "an unknown resource returns a result instead of an error"),
        ("broken", "the input schema of t is not an object"),
    ]
    assert all(one["advice"] for one in found)


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_output_of_a_server_is_distinguished_from_dovetails_output(
    tmp_path: Path, capsys: Captured, command: str
) -> None:
    forged = "t\\nok     everything: fine"
    text = WRONG.replace(', "resources": {}', "")
    for name in ("t", "wrong"):
        text = text.replace(f'"name": "{name}"', f'"name": "{forged}"')
    (tmp_path / "wrong.txt").write_text(text)
    main([command, f"{sys.executable} {tmp_path / 'wrong.txt'}", "--revision", "2025-06-18"])
    lines = capsys.readouterr().out.splitlines()
    assert any(forged in line for line in lines)
    assert not any(line.startswith("ok     everything") for line in lines)


@pytest.fixture
def careless() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            message = json.loads(body)
            result: Any = {}
            if message.get("method") == "initialize":
                info = {"name": "careless", "version": "0"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
            data = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()
            self.send_response(200 if "id" in message else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.send_error(405)

        def do_DELETE(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


def test_what_cannot_be_reached_is_said_once_with_what_to_do(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert main(["doctor", f"http://127.0.0.1:{port}/mcp"]) == 1
    said = capsys.readouterr().out
    assert said.count("BROKEN") == 1
    assert "check the URL" in said
    assert main(["doctor", "no-such-program --fast"]) == 1
    said = capsys.readouterr().out
    assert said.count("BROKEN") == 1
    assert "URL" not in said
    assert "run the command yourself" in said


def test_an_answer_that_came_late_is_no_fault_of_the_server(tmp_path: Path, capsys: Captured) -> None:
    """It was slow to start: the first question was given up, and is answered all the same."""
    late = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "server/discover":
        held = message["id"]
        continue
    result = {}
    if message["method"] == "initialize":
        info = {"name": "late", "version": ""}
        print(json.dumps({"jsonrpc": "2.0", "id": held, "error": {"code": -32601, "message": "no"}}), flush=True)
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
    (tmp_path / "late.txt").write_text("held = 0\n" + late)
    _, found = findings(f"{sys.executable} {tmp_path / 'late.txt'}", capsys)
    assert found["connection"]["detail"].startswith("late, revision 2025-06-18")
    assert "conformance" not in found


def test_a_wrongly_written_server_gets_an_error_with_the_fix(careless: str, capsys: Captured) -> None:
    status, found = findings(careless, capsys)
    assert status == 1
    for check in ("CORS", "Host", "headers"):
        assert found[check]["state"] == "broken"
        assert found[check]["advice"]
    assert main(["doctor", careless]) == 1
    assert "BROKEN CORS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("days", "trusted", "state", "said"),
    [
        (90, True, "ok", "the certificate is valid for"),
        (5, True, "note", "the certificate is valid for"),
        (-1, True, "broken", "expired"),
        (90, False, "broken", "issuer certificate"),
    ],
)
def test_a_certificate_is_looked_at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    days: int,
    trusted: bool,
    state: str,
    said: str,
) -> None:
    authority = Authority(tmp_path)
    file = str(authority.certificate("127.0.0.1", days=days))
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    (tmp_path / "server.py").write_text("from dovetail import Server\nserver = Server('secure')\n")
    words = ["run", str(tmp_path / "server.py"), "--http", "--port", "0", "--json"]
    words += ["--certfile", file, "--keyfile", file]
    with subprocess.Popen([*CLI, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("{"))
        try:
            status, found = findings(json.loads(line)["serving"], capsys)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)
    assert (status, found["TLS"]["state"]) == (int(state == "broken"), state)
    assert said in found["TLS"]["detail"]
    assert bool(found["TLS"].get("advice")) is (state != "ok")
    assert ("CORS" in found) is (state != "broken")  # what cannot be reached is not asked


@run
async def test_a_proxy_is_named_whether_it_lets_us_through_or_not(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    server = Server("behind")
    async with served(server, allowed_hosts=("server.example",)) as site, forward_proxy() as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{proxy.port}")
        url = f"http://server.example:{site.port}/mcp"
        status, found = await asyncio.to_thread(findings, url, capsys)
        assert (status, found["proxy"]["state"]) == (0, "note")
        proxy.refusal = b"HTTP/1.1 403 Not for you\r\nContent-Length: 0\r\n\r\n"
        status, found = await asyncio.to_thread(findings, url, capsys)
    assert status == 1
    assert found["connection"]["state"] == "broken"
    assert (found["proxy"]["state"], str(proxy.port) in found["proxy"]["detail"]) == ("broken", True)
    assert "NO_PROXY" in found["proxy"]["advice"]
    assert "secret" not in str(found)


def test_a_server_that_is_not_there_is_broken(capsys: Captured) -> None:
    status, found = findings("http://127.0.0.1:9/mcp", capsys)
    assert status == 1
    assert found["connection"]["state"] == "broken"
