"""``dovetail completion bash|zsh|fish``: print a completion script. ``eval "$(dovetail completion bash)"`` enables it.

The script contains the commands, clients and revisions. It reads the options of a command from its ``--help``, and asks
``dovetail completion --words`` for the names of tools, resources, prompts and arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..command_parser import CommandParser
from ..telemetry.terminal_sanitizer import printable

_SCRIPTS: Final = Path(__file__).with_name("shells")


def main(command: str, arguments: Sequence[str]) -> int:
    """Print one of the scripts, or with ``--words`` or ``--line`` what they offer; returns the exit status."""
    if arguments[:1] in (["--words"], ["--line"]):
        from . import completion_words

        found = (
            completion_words.of_words(arguments[1:])
            if arguments[0] == "--words"
            else completion_words.of_line(arguments[1])
        )
        sys.stdout.write("".join(f"{printable(one)}\n" for one in found))
        return 0
    from ..wire.revisions import BY_NAME
    from .known_clients import CLIENTS
    from .main import COMMANDS

    parser = CommandParser("completion", "Print completion for a shell.")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    shell = options.shell
    plain = {name: summary.replace("'", "").replace(":", "") for name, (_, summary) in COMMANDS.items()}
    fish = "complete -c dovetail -n __fish_use_subcommand -f -a"
    lines = {
        "bash": [],
        "zsh": [f"        '{name}:{summary}'" for name, summary in plain.items()],
        "fish": [f"{fish} {name} -d '{summary}'" for name, summary in plain.items()],
    }[shell]
    words = {"WORDS": plain, "CLIENTS": CLIENTS, "REVISIONS": ("auto", "modern", "legacy", *BY_NAME)}
    script = (_SCRIPTS / f"dovetail.{shell}").read_text("utf-8")
    text = script.replace("@LINES@", "\n".join(lines))
    for name, values in words.items():
        text = text.replace(f"@{name}@", " ".join(values))
    sys.stdout.write(json.dumps({"shell": shell, "script": text}) + "\n" if options.json else text)
    return 0
