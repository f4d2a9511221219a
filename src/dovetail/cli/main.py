"""``dovetail COMMAND …``: import and run the command. Only the modules of this command are imported."""

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
        "serve the Server in a file over stdio, HTTP, TCP, WebSocket or HTTP+SSE",
    ),
    "worker": ("dovetail.cli.worker_command", "run the tasks of a server that other processes serve"),
    "bridge": (
        "dovetail.cli.proxy_commands",
        "serve a server over another transport or revision",
    ),
    "gateway": ("dovetail.cli.proxy_commands", "serve all servers of an mcp.json file as one"),
    "list": ("dovetail.cli.call", "show the tools, resources and prompts of a server"),
    "call": ("dovetail.cli.call", "call a tool"),
    "read": ("dovetail.cli.call", "read a resource"),
    "prompt": ("dovetail.cli.call", "get a prompt"),
    "new": ("dovetail.cli.new", "create a project: a server with tests, a Dockerfile and a release workflow"),
    "dev": (
        "dovetail.inspector.dev_command",
        "serve a file during development: reload it after edits, and open the inspector",
    ),
    "inspect": ("dovetail.inspector.inspect_command", "inspect servers in a browser"),
    "stub": ("dovetail.cli.stub", "write a typed client of a server as a Python module"),
    "migrate": ("dovetail.cli.migrate", "rewrite a server of FastMCP or the official SDK for Dovetail"),
    "completion": ("dovetail.cli.completion", "print shell completion for bash, zsh or fish"),
    "lock": (
        "dovetail.cli.manifest_commands",
        "write the manifest of a server to a lock file, for diff and for clients",
    ),
    "diff": ("dovetail.cli.manifest_commands", "compare two manifests and show which changes break clients"),
    "install": ("dovetail.cli.install", "add a server to a client: Claude, Cursor, VS Code, Codex, …"),
    "uninstall": ("dovetail.cli.install", "remove a server from a client"),
    "discover": ("dovetail.cli.install", "list the servers of the clients on this machine"),
    "login": ("dovetail.auth.commands.login", "log in to a server"),
    "logout": ("dovetail.auth.commands.login", "revoke and delete the tokens for a server"),
    "whoami": ("dovetail.auth.commands.login", "show the user of the stored token for a server"),
    "doctor": ("dovetail.cli.doctor", "find problems of a server or of its authorization"),
    "explain": ("dovetail.cli.explain", "explain an error code or an error kind"),
    "audit": ("dovetail.cli.audit_command", "check that an audit file is unchanged"),
}
"""Command → module and summary. The module's ``main(command, arguments)`` returns the exit status."""


GROUPS = {
    "serve": ("run", "worker", "bridge", "gateway"),
    "call": ("call", "list", "read", "prompt"),
    "develop": ("dev", "new", "inspect", "stub", "migrate", "completion"),
    "publish": ("install", "uninstall", "discover", "lock", "diff"),
    "authenticate": ("login", "logout", "whoami"),
    "operate": ("doctor", "explain", "audit"),
}
"""What users want to do → the commands for it. The first command has the example that ``dovetail --help`` shows."""


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
        # The reader closed the pipe. Redirect stdout, or Python reports the error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except DovetailError as error:
        from .output import report_error  # imported late: most commands do not need it

        return report_error(error, command, given)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  code of a server, or a bug: both need the traceback
        from ..telemetry.short_traceback import short_traceback
        from ..telemetry.terminal_sanitizer import printable

        sys.stderr.write(f"dovetail {command} failed\n{printable(short_traceback(error))}\n")
        return 1


def _unknown(command: str) -> int:
    """Report an unknown command, with the command that was probably meant, or with all commands."""
    from difflib import get_close_matches

    close = get_close_matches(command, COMMANDS, 1)
    if close:
        sys.stderr.write(f"dovetail: {command!r} is not a command; did you mean {close[0]!r}?\n")
        return 2
    if command.endswith(".py"):
        sys.stderr.write(f"dovetail: {command!r} is not a command; did you mean 'run {command}'?\n")
        return 2
    sys.stderr.write(f"dovetail: {command!r} is not a command\n\n")
    return _usage(sys.stderr, 2)


def _usage(stream: TextIO, status: int) -> int:
    from ..command_parser import EXAMPLES  # imported late: commands do not need it here

    stream.write("usage: dovetail COMMAND …\n")
    for group, commands in GROUPS.items():
        rows = "".join(f"  {name:11} {COMMANDS[name][1]}\n" for name in commands)
        stream.write(f"\n{group}\n{rows}  example:    {EXAMPLES[commands[0]]}\n")
    stream.write("\ndovetail COMMAND --help shows the options of a command.\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
