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
def test_zsh_takes_the_script_for_our_command(tmp_path: Path) -> None:
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
