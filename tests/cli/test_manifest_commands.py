"""``dovetail lock`` and ``dovetail diff``, as a pipeline would run them."""

import json
from pathlib import Path

import pytest

from dovetail.cli.main import main

SERVER = '''
from dovetail import Server
server = Server("s")

@server.tool
def forecast(city: str{more}) -> str:
    """Say it."""
    return city
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text(SERVER.format(more=""))
    (tmp_path / "wide.py").write_text(SERVER.format(more=", days: int = 3"))
    (tmp_path / "broken.py").write_text(SERVER.format(more=", days: int"))
    return tmp_path


def test_lock_and_diff_say_what_a_change_means(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "old.py"]) == 0
    assert "written" in capsys.readouterr().out
    assert json.loads((place / "mcp.lock").read_text())["tools"]["forecast"]["inputSchema"]["required"] == [
        "city"
    ]
    assert main(["lock", "old.py", "--check"]) == 0
    assert main(["lock", "wide.py", "--check", "-o", "mcp.lock"]) == 1
    assert main(["diff", "mcp.lock", "old.py"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no changes"
    assert main(["diff", "mcp.lock", "wide.py"]) == 0
    assert "widening: tool forecast input" in capsys.readouterr().out
    assert main(["diff", "mcp.lock", "wide.py", "--fail-on", "widening"]) == 1
    capsys.readouterr()
    assert main(["diff", "mcp.lock", "broken.py", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["breaking"] == 1
    change = {"kind": "breaking", "component": "tool", "name": "forecast"}
    assert found["changes"][0] == {**change, "text": "is required now", "path": "input.days"}
    assert main(["diff", "mcp.lock", "broken.py", "--fail-on", "none"]) == 0


def test_a_lock_goes_to_stdout_and_a_wrong_file_is_said(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lock", "old.py", "-o", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["lock"] == 1
    (place / "bad.lock").write_text("{}")
    assert main(["diff", "bad.lock", "old.py"]) == 1
    assert "bad.lock" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["diff", "mcp.lock", "old.py", "--fail-on", "everything"])
    assert caught.value.code == 2


def test_a_lock_that_is_not_there_is_no_program(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "gone.lock", "old.py"]) == 1
    assert "gone.lock does not exist" in capsys.readouterr().err
