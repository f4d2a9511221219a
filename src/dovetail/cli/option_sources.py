"""Where the options of a command come from: its command line, else ``DOVETAIL_…``, else a ``.env``, else the default.

Every option has a name in the environment: ``--log-level`` is ``DOVETAIL_LOG_LEVEL``. Switches are on with 1, true,
yes or on; options that may come several times are separated by commas.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .dotenv import read_dotenv

PREFIX: Final = "DOVETAIL_"
_ON: Final = ("1", "true", "yes", "on")
_OFF: Final = ("", "0", "false", "no", "off")


def cut(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is ours, and what comes after ``--``: the arguments of the program that is run."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that is a whole number, ``least`` or more, and ``most`` at most."""

    def read(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(
                f"{text!r} is no number from {least} {'on' if most is None else f'to {most}'}"
            )
        return int(text)

    return read


PORT: Final = number(0, 65535)
"""The type of an option that is a port."""


def add_environment(parser: argparse.ArgumentParser) -> None:
    """The options that say what a program finds in its environment."""
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="set in its environment"
    )
    parser.add_argument("--env-file", metavar="FILE", help="read in place of .env, which must not be there")


def files(options: argparse.Namespace, file: str | None) -> list[Path]:
    """Where a ``.env`` may lie: what ``--env-file`` names, or beside ``file`` and in the working directory.

    Raises:
        OSError: there is no such ``--env-file``.
    """
    if options.env_file is not None:
        named = Path(options.env_file).resolve()
        named.stat()
        return [named]
    folders = [Path(file).resolve().parent, Path.cwd()] if file else [Path.cwd()]
    return [folder / ".env" for folder in dict.fromkeys(folders)]


def said(options: argparse.Namespace) -> dict[str, str]:
    """What ``--env`` sets.

    Raises:
        ValueError: a word of it is no NAME=VALUE.
    """
    found: dict[str, str] = {}
    for word in options.env:
        name, mark, value = word.partition("=")
        if not mark or not name or "\0" in word:
            raise ValueError(f"--env takes NAME=VALUE, not {word!r}")
        found[name] = value
    return found


def filled(places: Sequence[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """``environ``, and what files say that is not there yet: the first of them wins.

    Raises:
        ValueError: a line of a file cannot be used.
    """
    found = dict(environ)
    for place in places:
        for name, value in read_dotenv(place).items():
            found.setdefault(name, value)
    return found


def take_defaults(
    parser: argparse.ArgumentParser, environ: Mapping[str, str], given: argparse.Namespace | None = None
) -> None:
    """Let the environment say what the command line does not. A wrong value ends the command with status 2.

    ``given`` is what the command line says: of options that exclude each other it has then named the one.
    """
    # argparse has no other list of its options, nor of those that exclude each other
    groups = [group._group_actions for group in parser._mutually_exclusive_groups]  # pyright: ignore[reportPrivateUsage]
    named = [group for group in groups if any(getattr(given, action.dest, None) for action in group)]
    decided = {"help", "env", "env_file", *(action.dest for group in named for action in group)}
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        value = environ.get(PREFIX + action.dest.upper())
        if value is None or not action.option_strings or action.dest in decided:
            continue
        if action.const is True:
            if value.lower() not in (*_ON, *_OFF):
                parser.error(
                    f"{PREFIX}{action.dest.upper()} is one of {', '.join(filter(None, (*_ON, *_OFF)))}"
                )
            parser.set_defaults(**{action.dest: value.lower() in _ON})
            continue
        if action.choices is not None and value not in action.choices:
            parser.error(
                f"{PREFIX}{action.dest.upper()} is one of {', '.join(action.choices)}, not {value!r}"
            )
        several = isinstance(action, argparse._AppendAction)  # pyright: ignore[reportPrivateUsage]
        parser.set_defaults(**{action.dest: value.split(",") if several else value})
