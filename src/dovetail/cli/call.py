"""``dovetail list|call|read|prompt TARGET``: use any server from the command line.

TARGET is a URL, a Python file, a quoted command, or a file of servers, which are combined. The exit status is 0 for
success, 1 if the tool or the server failed (for ``list``: any server), 2 for a wrong command line. Elicitation
requests of the server are shown at the terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ..auth.commands.auth_option import TOKEN, add_option, chosen, read_headers
from ..client import Client
from ..client.connecting.targets import Target, parse_target, run_command, with_scheme
from ..command_parser import CommandParser
from ..errors import DovetailError, ProtocolError, TransportError
from ..model.meta import SKILLS_EXTENSION
from ..settings import Timeouts
from ..telemetry.terminal_sanitizer import log_to_stderr, printable
from ..transports.child import without_stderr
from . import output, token_costs
from .dotenv import read_dotenv
from .output import Printer, stderr_of_child
from .progress_bar import Bar
from .servers_file import client_target, failed, names_servers, telling_failed
from .target import split
from .terminal_prompts import ask

_SKILLS: Final = f"extensions.{SKILLS_EXTENSION}"
NAMES_LISTED: Final = 10
"""The most names that a message lists."""

T = TypeVar("T")
_HELP = {
    "list": "show the tools, resources and prompts of a server",
    "call": "call a tool and print its result",
    "read": "read a resource and print it",
    "prompt": "get a prompt and print its messages",
}


def main(command: str, arguments: Sequence[str]) -> int:
    """Run one of the four commands; returns the exit status."""
    options = _parser(command).parse_intermixed_args(list(arguments))
    log_to_stderr()
    try:
        timeouts = Timeouts() if options.timeout is None else Timeouts(idle=None, total=options.timeout)
        client = client_of(options, timeouts=timeouts, on_elicit=ask if sys.stdin.isatty() else None)
        values = read_pairs(getattr(options, "values", []), typed=command == "call")
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"dovetail {command}: {printable(str(error))}\n")
        return 2
    return asyncio.run(_run(command, client, options, values))


async def _run(command: str, client: Client, options: argparse.Namespace, values: dict[str, Any]) -> int:
    printer = Printer(json=options.json)
    try:
        # Close the client first: failed servers are reported at the end.
        with telling_failed(command, client):
            async with client:
                return await _COMMANDS[command](client, options, values, printer)
    except DovetailError as error:
        if options.json:
            printer.json({"error": output.error_members(error)})
        else:
            sys.stderr.write(
                f"dovetail {command}: {printable(without_stderr(error))}{_advice(error, client, options)}\n"
            )
        return 1


def _advice(error: DovetailError, client: Client, options: argparse.Namespace) -> str:
    """Return what to do about ``error``, unless its message says so."""
    if (hint := output.hint_of(error)) is not None:
        return f" ({printable(hint)})"
    program = client.target.command[1:] == (options.target,)  # a file without a Dovetail `Server`
    if program and client.revision is None and isinstance(error, TransportError) and error.cause == "eof":
        return f": {options.target} has no Server, and as a program it does not speak MCP"
    if isinstance(error, TransportError) and error.cause == "refused":
        return " (is it installed?)" if client.target.kind == "child" else " (is the server running?)"
    if error.kind == "missing_required_client_capability" and "elicitation" in error.message:
        return " (the server requests input: run this at a terminal)"
    return ""


async def _named(name: str, what: str, listed: Callable[[], Awaitable[list[Any]]], work: Awaitable[T]) -> T:
    """Run ``work``; if it fails and ``name`` is not listed, add the known names to the error.

    A server may accept names that it does not list, so the list is requested only after the failure.
    """
    try:
        return await work
    except ProtocolError as error:
        known: list[str] = []
        with suppress(DovetailError):
            known = [getattr(entry, "uri", None) or entry.name for entry in await listed()]
        if known and name not in known:
            error.message += f"; {similar(name, known, what)}"
        raise


def similar(name: str, known: list[str], what: str) -> str:
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    more = ", …" if len(known) > NAMES_LISTED else ""
    return f"its {what} are {', '.join(known[:NAMES_LISTED])}{more}"


async def _list(client: Client, options: argparse.Namespace, values: dict[str, Any], printer: Printer) -> int:
    offered = client.server_capabilities
    found: dict[str, Any] = {}
    if options.skills:
        found["skills"] = await client.list_skills() if offered.has(_SKILLS) else []
    else:
        if offered.has("tools"):
            found["tools"] = await client.list_tools()
        if offered.has("resources"):
            found["resources"] = await client.list_resources()
            found["resourceTemplates"] = await client.list_resource_templates()
        if offered.has("prompts"):
            found["prompts"] = await client.list_prompts()
    server = {"revision": client.revision, "serverInfo": msgspec.to_builtins(client.server_info)}
    missing = {name: output.error_members(one) for name, one in failed(client).items()}
    if options.tokens:
        printer.show(token_costs.as_json(found), token_costs.lines(found))
    else:
        shown = {**server, **found, "failed": missing} if missing else {**server, **found}
        printer.show(shown, output.listing(server, found))
    return 1 if missing else 0


async def _call(client: Client, options: argparse.Namespace, values: dict[str, Any], printer: Printer) -> int:
    tools = {tool.name: tool for tool in await client.list_tools()}
    tool = tools.get(options.name)
    values = as_schema_wants(values, {} if tool is None else tool.input_schema)
    with Bar.of(options) as bar:
        call = client.call_tool(options.name, values, check=False, on_progress=bar)
        result = await _named(options.name, "tools", client.list_tools, call)
    printer.show(result.raw, output.tool_result(result))
    return 1 if result.is_error else 0


async def _read(client: Client, options: argparse.Namespace, values: dict[str, Any], printer: Printer) -> int:
    with Bar.of(options) as bar:
        read = client.read_resource(options.name, on_progress=bar)
        result = await _named(options.name, "resources", client.list_resources, read)
    printer.show(result, output.resource(result))
    return 0


async def _prompt(
    client: Client, options: argparse.Namespace, values: dict[str, Any], printer: Printer
) -> int:
    with Bar.of(options) as bar:
        prompt = client.get_prompt(options.name, values or None, on_progress=bar)
        result = await _named(options.name, "prompts", client.list_prompts, prompt)
    printer.show(result, output.prompt(result))
    return 0


_COMMANDS = {"list": _list, "call": _call, "read": _read, "prompt": _prompt}


# --- the command line ------------------------------------------------------------------------------------------------


def _parser(command: str) -> argparse.ArgumentParser:
    parser = client_parser(command, _HELP[command])
    named = {"call": "TOOL", "read": "URI", "prompt": "NAME"}.get(command)
    if named is not None:
        parser.add_argument("name", metavar=named)
    if command in ("call", "prompt"):
        parser.add_argument("values", metavar="key=value", nargs="*", help="key=value, or key:=JSON")
    if command == "list":
        parser.add_argument(
            "--tokens", action="store_true", help="estimate the tokens that the lists cost a model"
        )
        parser.add_argument("--skills", action="store_true", help="list the skills only")
    parser.add_argument(
        "--timeout", type=float, default=None, metavar="SECONDS", help="seconds for the whole call"
    )
    return parser


def client_parser(command: str, description: str, target: str = "target") -> argparse.ArgumentParser:
    """Return a parser with the options of every command that connects to a server."""
    parser = CommandParser(command, description)
    add_client_options(parser, target)
    return parser


def add_client_options(parser: argparse.ArgumentParser, target: str = "target") -> None:
    """Add the options of every command that connects to a server."""
    parser.add_argument(
        target, help='a URL, a Python file, a command in quotes ("npx some-server"), or an mcp.json file'
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--revision", default="auto", help="auto, modern, legacy, or a protocol revision such as 2025-06-18"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="an HTTP header to send with every request",
    )
    parser.add_argument(
        "--yes", action="store_true", help="run the commands in a file of servers without confirmation"
    )
    add_option(parser)
    add_environment(parser)


def add_environment(parser: argparse.ArgumentParser) -> None:
    """Add the options for the environment of a server process."""
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="a variable for the server process; without a value, it is copied from this environment",
    )  # fmt: skip
    parser.add_argument(
        "--env-file", metavar="FILE", help="a file with NAME=VALUE lines for the server process"
    )


def environment_of(target: str, options: argparse.Namespace) -> dict[str, str]:
    """Return the additional environment of a server process, the token included.

    Raises:
        ValueError: a variable is not NAME=VALUE, the file does not exist, or ``target`` starts no process.
    """
    remote = names_servers(target) or "://" in target.split(" ", 1)[0]
    if remote and (options.env or options.env_file):
        raise ValueError(
            "--env and --env-file work only for a file or a command, because only those start a server process"
        )
    found: dict[str, str] = {}
    if options.env_file:
        if not os.path.isfile(options.env_file):
            raise ValueError(f"--env-file: {options.env_file} does not exist")
        found |= read_dotenv(Path(options.env_file))
    for word in options.env:
        name, mark, value = word.partition("=")
        if not name or "\0" in word or (not mark and name not in os.environ):
            raise ValueError(f"--env needs NAME=VALUE, or the name of a variable that is set, not {word!r}")
        found[name] = value if mark else os.environ[name]
    token = options.auth or os.environ.get(TOKEN)
    if token and not remote and options.auth not in ("none", "oauth"):
        found.setdefault(TOKEN, token.removeprefix("Bearer "))
    return found


def client_of(options: argparse.Namespace, **more: Any) -> Client:
    """Return the client for the options of `client_parser`. Raises ValueError if one of them is wrong."""
    if names_servers(options.target) and (options.header or options.auth):
        raise ValueError("--header and --auth cannot be used with a file of servers: set them in the file")
    return Client(
        read_target(options.target, yes=options.yes),
        revision=options.revision,
        headers=read_headers(options.header),
        env=environment_of(options.target, options) or None,
        on_stderr=stderr_of_child(),
        **{"auth": chosen(options.auth, options.target), **more},
    )


def read_target(text: str, *, yes: bool = False) -> Any:
    """Return the target of a client: a URL, a file, or a command line. ``yes`` permits commands in a file of servers.

    Raises:
        ValueError: ``target`` is something else, or its commands are not permitted.
        ConfigError: the file of servers cannot be used.
    """
    if names_servers(text):
        return client_target(text, yes=yes)
    words = shlex.split(text)
    if (url := with_scheme(text)) is not None and not os.path.exists(text):
        raise ValueError(f"{text} has no scheme: write {url}")
    if (
        len(words) == 1 and split(text)[0].endswith(".py") and split(text)[1]
    ):  # one of several servers in a file
        return Target(kind="child", command=run_command(text), every_revision=True)
    is_url = "://" in text.split(" ", 1)[0] or text.startswith("unix:")
    return parse_target(text) if is_url or (len(words) == 1 and text.endswith(".py")) else words


def read_pairs(words: Sequence[str], *, typed: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise ValueError(f"{word!r} is not key=value")
        if name.endswith(":"):
            try:
                found[name[:-1]] = msgspec.json.decode(value)
            except msgspec.MsgspecError as error:
                raise ValueError(f"{word!r}: the value after := must be JSON ({error})") from None
        else:
            found[name] = _Text(value) if typed else value
    return found


class _Text(str):
    """A value as typed; the schema of the tool decides its type."""


def as_schema_wants(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    properties: Any = schema.get("properties") or {}
    return {
        name: _typed(value, properties.get(name) or {}) if isinstance(value, _Text) else value
        for name, value in values.items()
    }


def _typed(text: str, schema: dict[str, Any]) -> Any:
    """Return ``text`` as JSON if the schema does not accept a string, else unchanged."""
    kinds: Any = schema.get("type")
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        return str(text)
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.MsgspecError:
        return str(text)
