"""``dovetail bench``: figures for any server, from any target."""

import json
from pathlib import Path

import pytest

from dovetail.cli.main import main

SERVER = """
from dovetail import Server, ToolError

server = Server("bench")
calls = 0

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def tire() -> str:
    global calls
    calls += 1
    if calls > 30:
        raise ToolError("no more")
    return "fine"
"""


@pytest.fixture
def served(tmp_path: Path) -> str:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    return str(file)


def test_it_measures_a_tool_one_by_one_and_many_at_once(
    served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["bench", served, "add", "a=1", "b=2", "--seconds", "0.1", "--in-flight", "1,8", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["request"] == "tools/call add"
    assert found["revision"] == "2026-07-28"
    assert [run["inFlight"] for run in found["runs"]] == [1, 8]
    for run in found["runs"]:
        assert run["errors"] == 0
        assert run["requests"] > 0
        assert 0 < run["p50"] <= run["p95"] <= run["p99"] <= run["slowest"]
        assert run["rate"] == pytest.approx(run["requests"] / run["seconds"])


def test_without_a_tool_it_pings(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", served, "--seconds", "0.05", "--in-flight", "2", "--revision", "legacy"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ping, revision 2025-11-25\n")
    assert "first answer after" in out


def test_a_request_that_fails_under_way_is_counted_and_tells_in_the_exit_status(
    served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", served, "tire", "--seconds", "0.1", "--in-flight", "1", "--json"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["errors"] > 0


def test_a_request_that_fails_at_once_is_told_as_it_is(
    served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", served, "add", "a=1"]) == 1
    assert "b" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [["add", "a"], ["--in-flight", "0"], ["--in-flight", "x"], ["--seconds", "0"]]
)
def test_a_wrong_command_line_is_refused(
    served: str, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", served, *wrong]) == 2
    assert capsys.readouterr().err.startswith("dovetail bench: ")
