"""``dovetail list|call|read|prompt mcp.json``: all servers of a file as one, from the command line."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import main

FILE = """
from dovetail import Server
server = Server("NAME")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.resource("note://today")
def today() -> str:
    return "NAME's note"

@server.prompt
def greet(who: str) -> str:
    return f"NAME greets {who}"
"""
DOWN = {"url": "http://127.0.0.1:9/mcp"}


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two servers that work, with commands that are not confirmed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    for name in ("left", "right"):
        (tmp_path / f"{name}.py").write_text(FILE.replace("NAME", name))
        found[name] = {"command": sys.executable, "args": ["-m", "dovetail.cli.main", "run", f"{name}.py"]}
    return found


def write(servers: dict[str, Any]) -> None:
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))


Captured = pytest.CaptureFixture[str]


def test_everything_is_listed_called_read_and_got_under_its_prefix(
    servers: dict[str, Any], capsys: Captured
) -> None:
    write(servers)
    assert main(["list", "mcp.json", "--yes", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [tool["name"] for tool in listed["tools"]] == ["left_add", "right_add"]
    assert "failed" not in listed
    assert main(["call", "mcp.json", "right_add", "a=1", "b=2", "--yes"]) == 0
    assert capsys.readouterr().out.strip() == "3"
    assert main(["read", "mcp.json", "note://left/today", "--yes"]) == 0
    assert "left's note" in capsys.readouterr().out
    assert main(["prompt", "mcp.json", "right_greet", "who=Ann", "--yes"]) == 0
    assert "right greets Ann" in capsys.readouterr().out


def test_a_server_that_failed_is_said_once_and_the_rest_is_listed(
    servers: dict[str, Any], capsys: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    write({"left": servers["left"], "down": DOWN, "wrong": {"comand": "x"}})
    assert main(["list", "mcp.json", "--yes", "--json"]) == 1
    said = capsys.readouterr()
    listed = json.loads(said.out)
    assert [tool["name"] for tool in listed["tools"]] == ["left_add"]
    assert sorted(listed["failed"]) == ["down", "wrong"]
    assert listed["failed"]["wrong"]["kind"] == "configuration"
    assert said.err.count("'down' is not used") == 1
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == [
        "WARNING",
        "ERROR",
    ]
    assert main(["call", "mcp.json", "left_add", "a=1", "b=2", "--yes"]) == 0  # not used by it
    said = capsys.readouterr()
    assert (said.out.strip(), said.err.count("'down' is not used")) == ("3", 1)
    assert main(["call", "mcp.json", "down_add", "--yes"]) == 1
    assert "'down' is not used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["list", "mcp.json"], 2, "the command of 'left' is not confirmed"),
        (["list", "nothing.json"], 1, "cannot be read"),
        (["list", "other.json"], 1, 'no "mcpServers" object'),
        (["list", "mcp.json", "--yes", "--header", "X: y"], 2, "cannot be used with a file of servers"),
        (["list", "mcp.json", "--yes", "--auth", "oauth"], 2, "cannot be used with a file of servers"),
    ],
)
def test_what_cannot_be_done_is_said(
    servers: dict[str, Any], capsys: Captured, words: list[str], status: int, said: str
) -> None:
    write(servers)
    Path("other.json").write_text("{}")
    assert main(words) == status
    captured = capsys.readouterr()
    assert (captured.out, said in captured.err) == ("", True), captured.err


def test_an_approved_command_runs_without_confirmation(servers: dict[str, Any], capsys: Captured) -> None:
    from dovetail.gateway.gateway_config import read
    from dovetail.gateway.trust import trust

    write(servers)
    trust(read("mcp.json")[0])
    assert main(["list", "mcp.json", "--json"]) == 1  # the other one is not confirmed
    said = capsys.readouterr()
    listed = json.loads(said.out)
    assert [tool["name"] for tool in listed["tools"]] == ["left_add"]
    assert "the command of 'right' is not confirmed" in listed["failed"]["right"]["message"]


def test_half_of_what_a_file_offers_is_no_contract(servers: dict[str, Any], capsys: Captured) -> None:
    write({"left": servers["left"], "down": DOWN})
    assert main(["lock", "mcp.json", "--yes"]) == 1
    assert "'down' cannot be reached" in capsys.readouterr().err
    assert not list(Path().glob("*.lock"))
