"""Completion, tried in the shells that are here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.cli.main import COMMANDS, main
from tests.support.waiting import HANG


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_every_command_and_the_shell_can_read_it(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=HANG)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    command = tmp_path / "dovetail"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dovetail.cli.main "$@"\n')
    command.chmod(0o755)
    script = """eval "$(dovetail completion bash)"
    COMP_WORDS=(dovetail insp); COMP_CWORD=1; _dovetail; echo "${COMPREPLY[@]}"
    COMP_WORDS=(dovetail run server.py --allowed); COMP_CWORD=3; _dovetail; echo "${COMPREPLY[@]}"
    """
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["inspect", "--allowed-host --allowed-origin"]
