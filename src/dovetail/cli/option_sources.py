"""Read options from the command line, else from ``DOVETAIL_…`` variables, else from ``.env``, else use the default.

Every option has a variable: ``--log-level`` is ``DOVETAIL_LOG_LEVEL``. Switches are on with 1, true, yes or on;
several values are separated by commas.
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
    """Split the options of the command from the program's arguments after ``--``."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the argparse type of an integer option from ``least`` to ``most``."""

    def read(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not an integer {f'of {least} or more' if most is None else f'from {least} to {most}'}"
            )
        return int(text)

    return read


PORT: Final = number(0, 65535)
"""The argparse type of a port."""


def add_environment(parser: argparse.ArgumentParser) -> None:
    """Add the options for the environment of the program."""
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable in the environment of the program",
    )
    parser.add_argument("--env-file", metavar="FILE", help="read this file instead of .env")


def files(options: argparse.Namespace, file: str | None) -> list[Path]:
    """Return the paths of ``.env`` files: ``--env-file``, or the folder of ``file`` and the working directory.

    Raises:
        OSError: the ``--env-file`` does not exist.
    """
    if options.env_file is not None:
        named = Path(options.env_file).resolve()
        named.stat()
        return [named]
    folders = [Path(file).resolve().parent, Path.cwd()] if file else [Path.cwd()]
    return [folder / ".env" for folder in dict.fromkeys(folders)]


def env_options(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables of ``--env``.

    Raises:
        ValueError: an argument is not NAME=VALUE.
    """
    found: dict[str, str] = {}
    for word in options.env:
        name, mark, value = word.partition("=")
        if not mark or not name or "\0" in word:
            raise ValueError(f"--env needs NAME=VALUE, not {word!r}")
        found[name] = value
    return found


def with_files(paths: Sequence[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` with the missing variables from the files; the first file has priority.

    Raises:
        ValueError: a line of a file is not valid.
    """
    found = dict(environ)
    for path in paths:
        for name, value in read_dotenv(path).items():
            found.setdefault(name, value)
    return found


def take_defaults(
    parser: argparse.ArgumentParser, environ: Mapping[str, str], given: argparse.Namespace | None = None
) -> None:
    """Set the defaults of ``parser`` from the environment. A wrong value ends the command with status 2.

    ``given`` are the options of the command line: variables of options that exclude these are ignored.
    """
    # argparse has no public list of its options and exclusive groups
    groups = [group._group_actions for group in parser._mutually_exclusive_groups]  # pyright: ignore[reportPrivateUsage]
    named = [group for group in groups if any(getattr(given, action.dest, None) for action in group)]
    decided = {"help", "env", "env_file", *(action.dest for group in named for action in group)}
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        value = environ.get(PREFIX + action.dest.upper())
        if value is None or not action.option_strings or action.dest in decided:
            continue
        if action.const is True:
            if value.lower() not in (*_ON, *_OFF):
                words = ", ".join(filter(None, (*_ON, *_OFF)))
                parser.error(f"{PREFIX}{action.dest.upper()} must be one of {words}, not {value!r}")
            parser.set_defaults(**{action.dest: value.lower() in _ON})
            continue
        if action.choices is not None and value not in action.choices:
            parser.error(
                f"{PREFIX}{action.dest.upper()} must be one of {', '.join(action.choices)}, not {value!r}"
            )
        several = isinstance(action, argparse._AppendAction)  # pyright: ignore[reportPrivateUsage]
        parser.set_defaults(**{action.dest: value.split(",") if several else value})
