"""A server that works logs nothing above INFO, and a graceful stop prints one line, on every transport."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG

CLI = [sys.executable, "-m", "dovetail.cli.main"]
SERVER = '''
from dovetail import Server
server = Server("quiet")

@server.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b
'''
STOPPING = "dovetail: stopping when all calls have ended; send the signal again to stop at once"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def called(target: str) -> None:
    done = subprocess.run(
        [*CLI, "call", target, "add", "a=1", "b=2"], capture_output=True, text=True, timeout=HANG, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--http", "--port", "0"],
        ["--http", "--port", "0", "--workers", "2"],
        ["--ws", "--port", "0"],
        ["--sse", "--port", "0"],
        ["--tcp", "127.0.0.1:0"],
    ],
    ids=["http", "workers", "websocket", "sse", "tcp"],
)
def test_a_server_prints_its_address_and_one_line_when_it_stops(options: list[str], file: Path) -> None:
    with subprocess.Popen([*CLI, "run", str(file), *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        address = re.fullmatch(r"dovetail: serving on (\S+)\n", first)
        assert address is not None, first
        called(address[1])
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=HANG)[1]
    assert (rest, process.returncode) == (f"{STOPPING}\n", 0)


def test_a_worker_prints_what_it_does_and_one_line_when_it_stops(file: Path, tmp_path: Path) -> None:
    words = [*CLI, "worker", str(file), "--store", str(tmp_path / "state.db")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first == "dovetail: running the tasks of quiet, up to 32 at the same time\n"
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=HANG)[1]
    assert (rest, process.returncode) == (f"{STOPPING}\n", 0)


@pytest.mark.parametrize("end", ["input", "signal"])
def test_a_server_over_stdio_is_quiet(end: str, file: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    pipe = subprocess.PIPE
    words = [*CLI, "run", str(file)]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(hello) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        if end == "signal":
            process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=HANG)[1]
    assert (rest, process.returncode) == (f"{STOPPING}\n" if end == "signal" else "", 0)
