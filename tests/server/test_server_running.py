"""`run`, `serve` and `asgi`: the same server on a wire."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail import DovetailError, Server

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
        timeout=30,
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
