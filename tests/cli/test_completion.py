"""Completion, tried in the shells that are here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.cli.main import COMMANDS, main
from tests.support.waiting import HANG

EXPECTED = [
    "inspect",
    "--allowed-host --allowed-origin",
    "claude-code claude-desktop",
    "2026-07-28",
    "zsh",
]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_every_command_and_the_shell_can_read_it(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=HANG)


def said(shell: str, script: str, folder: Path) -> list[str]:
    """What ``shell`` prints with our command on its path."""
    command = folder / "dovetail"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dovetail.cli.main "$@"\n')
    command.chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    words = [shell, "--no-config", "-c", script] if shell == "fish" else [shell, "-c", script]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=True)
    return [" ".join(sorted(line.split())) for line in done.stdout.splitlines()]


SERVER = """
from typing import Literal
from dovetail import Server
server = Server("words")

@server.tool
def find(query: str, kind: Literal["file", "folder"] = "file") -> str:
    return query

@server.tool
def forget(id: int) -> None: ...

@server.prompt
def ask(topic: str) -> str:
    return topic

@server.resource("note://one")
def note() -> str:
    return "1"
"""
ASKED = {
    "call server.py f": "find forget",
    "call server.py find ": "kind=file kind=folder query=",
    "call server.py --timeout 3 find query=x ": "kind=file kind=folder",
    "prompt server.py ask t": "topic=",
    "read server.py n": "note://one",
}
"""A command line, and the words that complete it."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("typed", "offered"), ASKED.items())
def test_names_of_tools_and_arguments_come_from_the_server(
    typed: str, offered: str, server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "--words", *typed.split(" ")]) == 0
    assert sorted(capsys.readouterr().out.split()) == offered.split()
    assert main(["completion", "--line", f"dovetail {typed}"]) == 0
    rest = typed.rpartition(":")[2] if ":" in typed else ""
    assert sorted(capsys.readouterr().out.split()) == [one[len(rest) :] for one in offered.split()]


@pytest.mark.parametrize(
    "typed",
    [
        ["run", "server.py", ""],
        ["call", "nothing.py", ""],
        ["call", "--no-option", "server.py", ""],
        ["call", "--revision", "nonsense", "server.py", ""],
        ["call", "server.py", "--timeout", ""],
        ["call", "server.py", "--timeout", "soon", ""],
        ["call", ""],
        ["call", "server.py", "unknown", ""],
    ],
)
def test_a_shell_offers_files_where_a_server_knows_nothing(
    typed: list[str], server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "--words", *typed]) == 0
    assert capsys.readouterr().out == ""


def test_bash_gets_what_follows_the_last_word_break(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--line", "dovetail read server.py note:"]) == 0
    assert capsys.readouterr().out == "//one\n"
    assert main(["completion", "--line", "dovetail call server.py find kind=fo"]) == 0
    assert capsys.readouterr().out == "folder\n"
    assert main(["completion", "--line", "dovetail call 'server.py fi"]) == 0
    assert capsys.readouterr().out == ""


HOSTILE = """
from typing import Literal
from dovetail import Server
server = Server("hostile")

@server.tool
def pick(of: Literal["a b", "$(touch owned)", "é;`touch owned`", "two\\nlines"]) -> str:
    return of
"""


def test_words_of_a_server_are_no_commands_of_the_shell(
    server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (server / "server.py").write_text(HOSTILE)
    assert main(["completion", "--line", "dovetail call server.py pick of="]) == 0
    offered = capsys.readouterr().out.splitlines()
    assert offered == [r"a\ b", r"\$\(touch\ owned\)", r"é\;\`touch\ owned\`"]
    if shutil.which("bash"):
        done = subprocess.run(
            ["bash", "-c", "printf '%s,' " + " ".join(offered)], capture_output=True, text=True, check=True
        )
        assert done.stdout == "a b,$(touch owned),é;`touch owned`,"
    assert not (server / "owned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_offers_the_tools_of_the_server(server: Path) -> None:
    script = """eval "$(dovetail completion bash)"
    COMP_LINE="dovetail call server.py fi"; COMP_POINT=${#COMP_LINE}
    COMP_WORDS=(dovetail call server.py fi); COMP_CWORD=3; _dovetail; echo "${COMPREPLY[@]}"
    COMP_LINE="dovetail read server.py note:"; COMP_POINT=${#COMP_LINE}
    COMP_WORDS=(dovetail read server.py note :); COMP_CWORD=4; _dovetail; echo "${COMPREPLY[@]}"
    """
    assert said("bash", script, server) == ["find", "//one"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_offers_the_tools_of_the_server(server: Path) -> None:
    script = """dovetail completion fish | source
    echo (complete -C "dovetail call server.py fi" | string split -f1 \\t)
    echo (complete -C "dovetail prompt server.py ask t" | string split -f1 \\t)
    """
    assert said("fish", script, server) == ["find", "topic="]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh_offers_the_tools_of_the_server(server: Path) -> None:
    script = """autoload -Uz compinit; compinit -u -D; eval "$(dovetail completion zsh)"
    compadd() { print -r -- "${(P)@[-1]}"; }
    words=(dovetail call server.py f); CURRENT=4; _dovetail
    words=(dovetail call server.py find q); CURRENT=5; _dovetail
    """
    assert said("zsh", script, server) == ["find forget", "query="]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_completes_commands_options_and_clients(tmp_path: Path) -> None:
    lines = (
        "insp",
        "run server.py --allowed",
        "install server.py --into cl",
        "list x --revision 2026",
        "completion z",
    )
    asked = "\n".join(f'echo (complete -C "dovetail {line}" | string split -f1 \\t)' for line in lines)
    assert said("fish", f"dovetail completion fish | source\n{asked}", tmp_path) == EXPECTED


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh_accepts_the_completion_script(tmp_path: Path) -> None:
    script = (
        'autoload -Uz compinit; compinit -u -D; eval "$(dovetail completion zsh)"; print $_comps[dovetail]'
    )
    assert said("zsh", script, tmp_path) == ["_dovetail"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_commands_options_and_clients(tmp_path: Path) -> None:
    script = """eval "$(dovetail completion bash)"
    COMP_WORDS=(dovetail insp); COMP_CWORD=1; _dovetail; echo "${COMPREPLY[@]}"
    COMP_WORDS=(dovetail run server.py --allowed); COMP_CWORD=3; _dovetail; echo "${COMPREPLY[@]}"
    COMP_WORDS=(dovetail install server.py --into cl); COMP_CWORD=4; _dovetail; echo "${COMPREPLY[@]}"
    COMP_WORDS=(dovetail list x --revision 2026); COMP_CWORD=4; _dovetail; echo "${COMPREPLY[@]}"
    COMP_WORDS=(dovetail completion z); COMP_CWORD=2; _dovetail; echo "${COMPREPLY[@]}"
    """
    assert said("bash", script, tmp_path) == EXPECTED
