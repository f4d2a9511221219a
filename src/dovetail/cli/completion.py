"""``dovetail completion bash|zsh|fish``: a script for the shell. ``eval "$(dovetail completion bash)"`` turns it on.

Commands, clients and revisions stand in the script; the options of a command are taken from its ``--help`` when they
are asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SCRIPTS: Final = Path(__file__).with_name("shells")


def main(command: str, arguments: Sequence[str]) -> int:
    """Print one of the scripts; returns the exit status."""
    from ..wire.revisions import BY_NAME
    from .known_clients import CLIENTS
    from .main import COMMANDS

    parser = argparse.ArgumentParser(prog="dovetail completion", description="Print completion for a shell.")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(list(arguments))
    shell = options.shell
    plain = {name: summary.replace("'", "").replace(":", "") for name, (_, summary) in COMMANDS.items()}
    fish = "complete -c dovetail -n __fish_use_subcommand -f -a"
    lines = {
        "bash": [],
        "zsh": [f"        '{name}:{said}'" for name, said in plain.items()],
        "fish": [f"{fish} {name} -d '{said}'" for name, said in plain.items()],
    }[shell]
    words = {"WORDS": plain, "CLIENTS": CLIENTS, "REVISIONS": ("auto", "modern", "legacy", *BY_NAME)}
    script = (_SCRIPTS / f"dovetail.{shell}").read_text("utf-8")
    text = script.replace("@LINES@", "\n".join(lines))
    for name, values in words.items():
        text = text.replace(f"@{name}@", " ".join(values))
    sys.stdout.write(json.dumps({"shell": shell, "script": text}) + "\n" if options.json else text)
    return 0
