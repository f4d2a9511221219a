"""The help of each command ends with an example, and misspelt words get a suggestion."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from dovetail.cli.main import COMMANDS, main
from dovetail.command_parser import EXAMPLES


@pytest.mark.parametrize("command", [*COMMANDS, "doctor auth"])
def test_the_help_of_a_command_ends_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith(f"\n\nexample:\n  {EXAMPLES[command]}\n")


def test_every_example_names_its_command() -> None:
    assert set(EXAMPLES) == {*COMMANDS, "doctor auth"}
    for command, example in EXAMPLES.items():
        words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
        assert words[: 1 + len(command.split())] == ["dovetail", *command.split()]


MISSPELT = {
    "run server.py --prt 8000": "--port",
    "run server.py --workres=2": "--workers",
    "list server.py --timout 3": "--timeout",
    "install server.py --into cursr": "cursor",
    "run server.py --log-level warn": "warning",
    "completion bsh": "bash",
}


@pytest.mark.parametrize(("line", "meant"), MISSPELT.items())
def test_a_misspelt_option_or_choice_gets_a_suggestion(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"Did you mean {meant}?\n")


def test_what_resembles_nothing_gets_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["list", "server.py", "--qqqqqq"])
    assert "Did you mean" not in capsys.readouterr().err


def test_the_name_of_a_server_gets_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.py"
    file.write_text("from dovetail import Server\nnotes = Server('a')\ntasks = Server('b')\n")
    assert main(["run", f"{file}:note"]) == 1
    assert f"Did you mean {file}:notes?" in capsys.readouterr().err
