"""``dovetail completion bash|zsh|fish``: a script for the shell. ``eval "$(dovetail completion bash)"`` turns it on.

Commands stand in the script; the options of one are taken from its ``--help`` when they are asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

BASH: Final = """_dovetail() {
    local word="${COMP_WORDS[COMP_CWORD]}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@WORDS@" -- "$word"))
    elif [[ "$word" == -* ]]; then
        local known
        known=$(dovetail "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
        COMPREPLY=($(compgen -W "$known" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _dovetail dovetail
"""
ZSH: Final = """#compdef dovetail
_dovetail() {
    local -a commands options
    commands=(
@LINES@
    )
    if (( CURRENT == 2 )); then
        _describe command commands
    elif [[ "$words[CURRENT]" == -* ]]; then
        options=(${(f)"$(dovetail "$words[2]" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)"})
        compadd -a options
    else
        _files
    fi
}
compdef _dovetail dovetail
"""
FISH: Final = """function __dovetail_options
    set -l words (commandline -opc)
    dovetail $words[2] --help 2>/dev/null | string match -rag -- '(--[a-z][a-z-]*)' | sort -u
end
@LINES@
complete -c dovetail -n 'not __fish_use_subcommand' -a '(__dovetail_options)'
"""


def main(command: str, arguments: Sequence[str]) -> int:
    """Print one of the scripts; returns the exit status."""
    from ..cli.main import COMMANDS

    parser = argparse.ArgumentParser(prog="dovetail completion", description="Print completion for a shell.")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(list(arguments))
    shell = options.shell
    plain = {name: summary.replace("'", "").replace(":", "") for name, (_, summary) in COMMANDS.items()}
    if shell == "bash":
        text = BASH.replace("@WORDS@", " ".join(plain))
    elif shell == "zsh":
        text = ZSH.replace("@LINES@", "\n".join(f"        '{name}:{said}'" for name, said in plain.items()))
    else:
        use = "complete -c dovetail -n __fish_use_subcommand -f"
        text = FISH.replace(
            "@LINES@", "\n".join(f"{use} -a {name} -d '{said}'" for name, said in plain.items())
        )
    sys.stdout.write(json.dumps({"shell": shell, "script": text}) + "\n" if options.json else text)
    return 0
