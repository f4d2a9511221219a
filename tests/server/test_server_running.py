"""`run`, `serve` and `asgi`: the same server on a wire."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail import DovetailError, Server
from tests.support.waiting import HANG

SCRIPT = """
from dovetail import Server

server = Server("script", "1")

@server.tool
def double(n: int) -> int:
    print("not for the client")
    return n * 2

server.run()
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_a_script_serves_stdio_and_ends_with_its_input(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    params = {"name": "double", "arguments": {"n": 21}, "_meta": META}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    done = subprocess.run(
        [sys.executable, str(path)],
        input=json.dumps(call) + "\n",
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["structuredContent"] == 42
    assert "not for the client" in done.stderr


def test_an_unknown_transport_is_refused_with_those_there_are() -> None:
    with pytest.raises(DovetailError, match="stdio, tcp, http"):
        Server("x", "1").run("carrier-pigeon")  # pyright: ignore[reportArgumentType]


def test_an_asgi_application_belongs_to_its_server() -> None:
    server = Server("x", "1")
    assert callable(server.asgi())
    assert server.asgi() is not server.asgi()


def test_a_limit_may_be_given_under_the_name_another_system_has_for_it(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    limits = "stdio_message_size_limit=300, tcp_message_size_limit=5"
    path.write_text(SCRIPT.replace("server.run()", f"server.run({limits})"))
    params = {"name": "double", "arguments": {"n": 21}, "_meta": META}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    long = {"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"x": "y" * 300}}
    done = subprocess.run(
        [sys.executable, str(path)],
        input=f"{json.dumps(call)}\n{json.dumps(long)}\n",
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert [error["data"]["kind"] for error in refused] == ["message_too_large"]
    assert refused[0]["data"]["maxSize"] == 300
    assert [answer["result"]["structuredContent"] for answer in answers if "result" in answer] == [42]
