"""The environment, the .env file and the arguments after ``--`` of ``dovetail run``."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.cli import option_sources
from dovetail.cli.run_command import parser, read
from tests.support.aio import run
from tests.support.web import served

SERVER = """
import os, sys
from dovetail import Server
server = Server("env")
look = lambda: {"a": os.environ.get("A"), "b": os.environ.get("B"), "args": sys.argv[1:]}
server.add_tool(look, name="look", description="d")
"""
PATH = os.environ.get("PYTHONPATH", "")
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def look(place: Path, *words: str, **environ: str) -> Any:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "look"}},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "dovetail.cli.main", "run", *words],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True, text=True, cwd=place, env={**os.environ, **environ}, timeout=60, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return next(one for one in answers if one.get("id") == 2)["result"]["structuredContent"]


def test_the_environment_the_files_and_the_arguments_reach_the_program(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "server.py").write_text(SERVER)
    (tmp_path / "there" / ".env").write_text("A=beside\n")
    (tmp_path / "here" / ".env").write_text("A=working\nB='from here'\n")
    found = look(tmp_path / "here", "../there/server.py", "--", "--fast", "x y")
    assert found == {"a": "beside", "b": "from here", "args": ["--fast", "x y"]}
    assert look(tmp_path / "here", "../there/server.py", A="outside")["a"] == "outside"
    assert look(tmp_path / "here", "../there/server.py", "--env", "A=said", A="outside")["a"] == "said"
    (tmp_path / "other.env").write_text("B=other")
    assert look(tmp_path / "here", "../there/server.py", "--env-file", "../other.env")["b"] == "other"


@pytest.mark.parametrize(
    ("environ", "name", "value"),
    [
        ({"DOVETAIL_PORT": "9000"}, "port", 9000),
        ({"DOVETAIL_HTTP": "1"}, "http", True),
        ({"DOVETAIL_STATELESS": "no"}, "stateless", False),
        ({"DOVETAIL_ALLOWED_HOST": "a.example,b.example"}, "allowed_host", ["a.example", "b.example"]),
        ({"DOVETAIL_LOG_LEVEL": "debug"}, "log_level", "debug"),
    ],
)
def test_every_option_has_a_name_in_the_environment(environ: dict[str, str], name: str, value: Any) -> None:
    made = parser()
    option_sources.take_defaults(made, environ)
    assert vars(made.parse_args(["server.py"]))[name] == value


def test_the_command_line_wins_and_wrong_values_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    made = parser()
    option_sources.take_defaults(made, {"DOVETAIL_PORT": "9000"})
    assert made.parse_args(["server.py", "--port", "7"]).port == 7
    for environ in ({"DOVETAIL_LOG_LEVEL": "loud"}, {"DOVETAIL_HTTP": "maybe"}):
        with pytest.raises(SystemExit) as caught:
            option_sources.take_defaults(parser(), environ)
        assert caught.value.code == 2
    made = parser()
    option_sources.take_defaults(made, {"DOVETAIL_PORT": "x"})
    with pytest.raises(SystemExit):
        made.parse_args(["server.py"])


@pytest.mark.parametrize(
    ("word", "environ", "dest"),
    [
        ("--stdio", {"DOVETAIL_HTTP": "1"}, "stdio"),
        ("--http", {"DOVETAIL_TCP": "127.0.0.1:9000"}, "http"),
        ("--ws", {"DOVETAIL_HTTP": "1", "DOVETAIL_UNIX": "/run/x"}, "ws"),
    ],
)
def test_a_transport_of_the_command_line_wins_over_another_of_the_environment(
    word: str, environ: dict[str, str], dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    options = vars(read(parser(), ["server.py", word]))
    assert [name for name in ("stdio", "http", "sse", "ws", "tcp", "unix") if options[name]] == [dest]


def test_a_foreign_server_gets_the_options_of_the_environment_too(tmp_path: Path) -> None:
    def said(*words: str, **environ: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", "run", *words],
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **environ}, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode in (1, 2)
        return done.stderr

    entry = {"command": sys.executable, "args": ["-c", ""]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}))
    for words in (["http://127.0.0.1:1/mcp"], ["mcp.json"]):
        assert "'x' is not an integer" in said(*words, "--http", DOVETAIL_PORT="x")
        (tmp_path / ".env").write_text("DOVETAIL_PORT=y\n")
        assert "'y' is not an integer" in said(*words, "--http")
        (tmp_path / ".env").unlink()
    assert "confirm it with --yes" in said("mcp.json", DOVETAIL_YES="1")


@run
async def test_a_url_is_run_too(tmp_path: Path) -> None:
    server = Server("behind")
    server.add_tool(
        lambda: {"a": "from afar"}, name="look", description="d", output_schema={"type": "object"}
    )
    async with served(server) as site:
        found = await asyncio.to_thread(look, tmp_path, f"http://127.0.0.1:{site.port}/mcp")
    assert found == {"a": "from afar"}


def test_a_module_is_run_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "serve.py").write_text(SERVER)
    found = look(tmp_path, "pack.serve:server", "--", "--reload", "--json", PYTHONPATH=f"{PATH}:{tmp_path}")
    assert found["args"] == ["--reload", "--json"]


def test_a_file_of_servers_is_run_too(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    command = {
        "command": sys.executable,
        "args": ["-m", "dovetail.cli.main", "run", "server.py"],
        "env": {"A": "1"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": command}}))
    assert look(tmp_path, "mcp.json", "--yes")["a"] == "1"


def test_an_unknown_command_exits_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    for words in (["--env", "A"], ["--env-file", "nothing.env"]):
        done = subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", "run", "server.py", *words],
            capture_output=True, cwd=tmp_path, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 2
