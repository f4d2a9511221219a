"""The access log: one line for each request, when it is switched on."""

import json
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail import Server
from dovetail.server.dispatcher import CONFIRMATION_PATH, UPLOAD_PATH
from dovetail.transports.http.server.access_log import LINK_PATHS
from tests.support.aio import run
from tests.support.waiting import HANG
from tests.support.web import Web, served


def serving() -> Server:
    server = Server("shop", "1")

    @server.tool
    def work() -> str:
        return "done"

    return server


@pytest.mark.parametrize("on", [True, False])
@run
async def test_each_request_is_one_line(caplog: pytest.LogCaptureFixture, on: bool) -> None:
    caplog.set_level(logging.INFO, "dovetail.access")
    async with served(serving(), access_log=on) as site:
        web = Web(site)
        assert (await web.call("work"))["content"][0]["text"] == "done"
        session, _ = await web.initialize("2025-06-18")
        assert session
        await web.ask("GET", {}, path="/secret?token=abc")
    lines = [record.getMessage() for record in caplog.records if record.name == "dovetail.access"]
    if not on:
        assert lines == []
        return
    assert [" ".join(line.split()[:3]) for line in lines] == [
        "POST /mcp status=200",
        "POST /mcp status=200",
        "POST /mcp status=202",
        "GET /secret status=404",
    ]
    assert all("ms=" in line and line.endswith("client=127.0.0.1") for line in lines)
    assert "abc" not in "".join(lines)


@run
async def test_the_token_of_a_link_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dovetail.access")
    async with served(serving(), access_log=True) as site:
        for path in (CONFIRMATION_PATH, UPLOAD_PATH, f"/below{UPLOAD_PATH}"):
            await Web(site).ask("GET", {}, path=f"{path}token-of-a-link")
    lines = [record.getMessage() for record in caplog.records if record.name == "dovetail.access"]
    assert [line.split()[1] for line in lines] == ["/confirm/…", "/uploads/…", "/below/uploads/…"]
    assert LINK_PATHS == (CONFIRMATION_PATH, UPLOAD_PATH)


JSON_LINES = """
from dovetail import Server
from dovetail.middleware import Logging
server = Server("shop", middleware=[Logging(json=True)])

@server.tool
def work(x: int) -> int:
    return 10 // x
"""


def test_json_lines_and_an_access_log_are_written_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(JSON_LINES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [
        sys.executable,
        "-m",
        "dovetail.cli.main",
        "run",
        "shop.py",
        "--http",
        "--port",
        str(port),
        "--access-log",
    ]
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        assert "serving on" in server.stderr.readline()
        for x in (5, 0):
            call = [
                sys.executable,
                "-m",
                "dovetail.cli.main",
                "call",
                f"http://127.0.0.1:{port}/mcp",
                "work",
                f"x={x}",
            ]
            subprocess.run(call, check=False, timeout=HANG, capture_output=True)
        server.send_signal(signal.SIGINT)
        lines = server.stderr.read().splitlines()
        server.wait(HANG)
    found = [json.loads(one) for one in lines if one.startswith("{")]
    calls = [one for one in found if one["method"] == "tools/call"]
    assert [one["outcome"] for one in calls] == ["ok", "broken"]
    assert all(one["time"].endswith("Z") and one["level"] == "info" for one in found)
    assert any(" INFO POST /mcp status=200 " in one for one in lines)
