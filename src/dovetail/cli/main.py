"""``dovetail COMMAND …``: find the command and hand over. Nothing is imported that the command does not need."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ..version import __version__

COMMANDS = {
    "run": (
        "dovetail.cli.run_command",
        "serve the Server in a file: over stdio, or --http, --tcp, --ws, --sse",
    ),
    "worker": ("dovetail.cli.worker_command", "run the tasks of a server whose calls arrive elsewhere"),
    "bridge": (
        "dovetail.cli.proxy_commands",
        "serve any server as any other: another transport, another revision",
    ),
    "gateway": ("dovetail.cli.proxy_commands", "serve all servers of an mcp.json as one"),
    "list": ("dovetail.cli.call", "show the tools, resources and prompts of a server"),
    "call": ("dovetail.cli.call", "call a tool"),
    "read": ("dovetail.cli.call", "read a resource"),
    "prompt": ("dovetail.cli.call", "get a prompt"),
    "inspect": ("dovetail.inspector.inspect_command", "look at servers in a browser"),
    "dev": (
        "dovetail.inspector.dev_command",
        "serve a file that is being written, with the inspector beside it",
    ),
    "lock": ("dovetail.cli.manifest_commands", "write down what a server offers, for diff and for clients"),
    "diff": ("dovetail.cli.manifest_commands", "say what a change of a server means to its clients"),
    "migrate": ("dovetail.cli.migrate", "rewrite a server of FastMCP or the official SDK to ours"),
    "install": ("dovetail.cli.install", "put a server into a client: Claude, Cursor, VS Code, Codex, …"),
    "uninstall": ("dovetail.cli.install", "take a server out of a client"),
    "discover": ("dovetail.cli.install", "list the servers of the clients on this machine"),
    "explain": ("dovetail.cli.explain", "say what an error code means"),
    "audit": ("dovetail.cli.audit_command", "check that an audit file is what was written"),
    "login": ("dovetail.auth.commands.login", "log in to a server"),
    "logout": ("dovetail.auth.commands.login", "forget and revoke the tokens for a server"),
    "whoami": ("dovetail.auth.commands.login", "show as whom you talk to a server"),
    "doctor": ("dovetail.cli.doctor", "find out what is wrong with a server, or with logging in to it"),
    "new": ("dovetail.cli.new", "begin a project: a server with tests and all it takes to release it"),
    "completion": ("dovetail.cli.completion", "print the completion for bash, zsh or fish"),
}
"""Command → module and summary. The module's ``main(command, arguments)`` returns the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 for a failure, 2 for a wrong command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        return _usage(sys.stdout if given else sys.stderr, 0 if given else 2)
    if given[0] in ("-V", "--version"):
        sys.stdout.write(f"dovetail {__version__}\n")
        return 0
    command = given[0]
    if command not in COMMANDS:
        return _unknown(command)
    return _run(command, given[1:])


def _run(command: str, given: list[str]) -> int:
    from ..errors import DovetailError

    try:
        status = importlib.import_module(COMMANDS[command][0]).main(command, given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except DovetailError as error:
        from .output import told  # only now: most commands end without it

        return told(error, command, given)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  code of a server, or a bug: both need the traceback
        from ..telemetry.short_traceback import short_traceback
        from ..telemetry.terminal_sanitizer import printable

        sys.stderr.write(f"dovetail {command} failed\n{printable(short_traceback(error))}\n")
        return 1


def _unknown(command: str) -> int:
    """Name the command that was probably meant, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(command, COMMANDS, 1)
    if close:
        sys.stderr.write(f"dovetail: there is no command {command!r}; did you mean {close[0]!r}?\n")
        return 2
    if command.endswith(".py"):
        sys.stderr.write(f"dovetail: there is no command {command!r}; did you mean 'run {command}'?\n")
        return 2
    sys.stderr.write(f"dovetail: there is no command {command!r}\n\n")
    return _usage(sys.stderr, 2)


def _usage(stream: TextIO, status: int) -> int:
    lines = [f"  {name:10} {summary}" for name, (_, summary) in COMMANDS.items()]
    stream.write("usage: dovetail COMMAND …\n\n" + "\n".join(lines) + "\n\n")
    stream.write("dovetail COMMAND --help explains one of them.\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
