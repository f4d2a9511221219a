"""``--json`` of every command: one document, with the members that the docs promise."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.cli.main import COMMANDS, main
from dovetail.middleware import Audit
from tests.support.aio import run
from tests.support.waiting import HANG
from tests.support.web import served

ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
PROMISED = {name: re.findall(r"`(\w+)`", text) for name, text in ROW.findall(DOCS.read_text())}
SERVER = """
from dovetail import Server
server = Server("small", "1")
server.add_tool(lambda name: f"hello {name}", name="hello", description="Say hello.")
server.add_resource("a://b", lambda: "x", name="b")
server.add_prompt(lambda x: x, name="p", description="P.")
"""
CLI = [sys.executable, "-m", "dovetail.cli.main"]
ENDING = {
    "list": ["list", "server.py"],
    "call": ["call", "server.py", "hello", "name=x"],
    "read": ["read", "server.py", "a://b"],
    "prompt": ["prompt", "server.py", "p", "x=1"],
    "lock": ["lock", "server.py"],
    "diff": ["diff", "server.py", "server.py"],
    "stub": ["stub", "server.py", "-o", "client.py"],
    "migrate": ["migrate", "server.py"],
    "install": ["install", "server.py", "--into", "cursor"],
    "discover": ["discover"],
    "uninstall": ["uninstall", "server", "--from", "cursor"],
    "doctor": ["doctor", "server.py"],
    "explain": ["explain", "1003"],
    "logout": ["logout", "http://127.0.0.1:9/mcp"],
    "new": ["new", "notes"],
    "completion": ["completion", "fish"],
}
"""Commands that end, in an order in which each finds what it needs."""
SERVING = {
    "run": ["run", "server.py", "--http", "--port", "0"],
    "bridge": ["bridge", "server.py", "--http", "--port", "0"],
    "gateway": ["gateway", "mcp.json", "--yes", "--http", "--port", "0"],
    "worker": ["worker", "server.py", "--store", "state.db"],
    "dev": ["dev", "server.py", "--port", "0", "--no-browser"],
    "inspect": ["inspect", "server.py", "--no-browser"],
}
ELSEWHERE = {"audit", "login", "whoami"}
"""They need more than a file: the tests below, and those of auth."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    entry = {"command": CLI[0], "args": [*CLI[1:], "run", str(tmp_path / "server.py")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "DOVETAIL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def members(command: str) -> list[str]:
    """What the docs promise at the top of the document; the words after a colon stand below it."""
    text = dict(ROW.findall(DOCS.read_text()))[command]
    return re.findall(r"`(\w+)`", re.split(r":| \(|; |, with|, as a", text)[0])


def test_the_docs_have_every_command_and_every_command_has_the_option(capsys: Any) -> None:
    assert set(PROMISED) == set(COMMANDS) == {*ENDING, *SERVING, *ELSEWHERE}
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        assert "--json" in capsys.readouterr().out, command


def test_commands_that_end_print_one_document(folder: Path, capsys: Any) -> None:
    for command, words in ENDING.items():
        assert main([*words, "--json"]) == 0, command
        found = json.loads(capsys.readouterr().out)
        if command == "explain":
            assert all(set(PROMISED[command]) <= set(one) for one in found)
            continue
        wanted = members(command)
        assert wanted
        assert set(wanted) <= set(found), command


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["install", "nothing.py", "--into", "zed"], "installation"),
        (["run", "nothing.py:server"], "target"),
        (["gateway", "nothing.json"], "configuration"),
        (["whoami", "http://127.0.0.1:9/mcp"], "command_failed"),
        (["explain", "7"], "command_failed"),
    ],
)
def test_a_mistake_of_the_user_is_not_reported_as_an_internal_error(
    folder: Path, capsys: Any, words: list[str], kind: str
) -> None:
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == kind


@pytest.mark.parametrize("command", SERVING)
def test_commands_that_serve_say_where_in_one_line(folder: Path, command: str) -> None:
    words = [*CLI, *SERVING[command], "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        stream = process.stdout if command == "inspect" else process.stderr
        assert stream is not None
        found: Any = None
        for line in stream:
            if line.startswith("{"):
                found = json.loads(line)
                break
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=HANG)
        finally:
            process.kill()
    assert found is not None
    assert set(found) >= set(members("run" if command in ("bridge", "gateway") else command))


@run
async def test_an_audit_file_and_a_server_without_login(folder: Path, capsys: Any) -> None:
    server = Server("kept", middleware=[Audit("audit.log")])
    server.add_tool(lambda: "hello", name="hello", description="Say hello.")
    async with Client(server) as client:
        await client.call_tool("hello")
    assert main(["audit", "verify", "audit.log", "--json"]) == 0
    assert set(members("audit")) <= set(json.loads(capsys.readouterr().out))
    async with served(server) as site:
        words = ["login", f"http://127.0.0.1:{site.port}/mcp", "--json"]
        assert await asyncio.to_thread(main, words) == 0
    assert json.loads(capsys.readouterr().out) == {"needed": False}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["call", "server.py", "nothing"], 1),
        (["lock", "nothing.py"], 2),
        (["diff", "nothing.lock", "server.py"], 1),
        (["run", "nothing.py", "--http"], 1),
        (["run", "nothing.py", "--http", "--reload"], 1),
        (["worker", "server.py"], 1),
        (["audit", "verify", "nothing.log"], 1),
        (["explain", "77777"], 1),
        (["install", "nothing.py", "--into", "cursor"], 1),
        (["uninstall", "nothing", "--from", "cursor"], 1),
        (["whoami", "http://127.0.0.1:9/mcp"], 1),
        (["login", "http://127.0.0.1:9/mcp"], 1),
        (["gateway", "nothing.json", "--http"], 1),
        (["new", "notes/../x"], 2),
        (["call", "server.py"], 2),
        (["list", "server.py", "--revision", "1999-01-01"], 2),
        (["doctor", "https://"], 2),
        (["completion", "tcsh"], 2),
    ],
)
def test_what_fails_has_a_status_and_an_error(folder: Path, words: list[str], status: int) -> None:
    done = subprocess.run(
        [*CLI, *words, "--json"], capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    if status == 2:
        assert done.stdout == ""
        assert words[0] in done.stderr
    else:
        error = json.loads(done.stdout)["error"]
        assert error["kind"]
        assert error["message"]
