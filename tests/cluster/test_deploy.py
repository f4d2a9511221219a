"""The commands of docs/deploy.md start what the page says."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.redis import RedisServer, free_port
from tests.support.waiting import HANG, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("dovetail ")
]
pytestmark = pytest.mark.redis


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=HANG) as answer:
            return answer.status == 200
    except OSError:
        return False


def heard(process: subprocess.Popen[str], words: str) -> bool:
    assert process.stderr is not None
    return any(words in line for line in process.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_starts_and_stops_in_order(command: str, tmp_path: Path) -> None:
    port = free_port()
    with RedisServer() as redis:
        words = shlex.split(
            command.replace("8000", str(port)).replace("localhost:6379", f"127.0.0.1:{redis.port}")
        )
        words[words.index("server.py")] = str(ROOT / "tests" / "cluster" / "shop.py")
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with subprocess.Popen(
            [sys.executable, "-m", "dovetail.cli.main", *words[1:]],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                if words[1] == "worker":
                    assert heard(process, "running the tasks")
                else:
                    wait_until(lambda: ready(port))
                process.send_signal(signal.SIGTERM)
                assert process.wait(HANG) in (0, -signal.SIGTERM)
            finally:
                process.kill()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_page_has_its_three_sizes() -> None:
    assert len(COMMANDS) == 6
    assert {line.split()[1] for line in COMMANDS} == {"run", "worker"}
