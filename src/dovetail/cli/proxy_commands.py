"""``dovetail bridge TARGET`` and ``dovetail gateway FILE``: serve other servers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..auth.commands.auth_option import add_option, chosen, read_headers
from ..command_parser import CommandParser
from ..telemetry.terminal_sanitizer import printable
from ..wire.revisions import BY_NAME
from .call import read_target
from .option_sources import take_defaults
from .output import stderr_of_child
from .run_command import add_transports, check_transport, divert, serve, typed
from .servers_file import gateway_of
from .target import add_common, prepare

if TYPE_CHECKING:
    from ..server import Server

_ERAS = ("auto", "modern", "legacy")


def main(command: str, arguments: list[str], environ: Mapping[str, str] | None = None) -> int:
    """Run one of the two commands; returns the exit status. ``environ``: the options that `run` found there."""
    parsing = _bridge_parser() if command == "bridge" else _gateway_parser()
    given = typed(parsing, arguments)
    if environ:
        take_defaults(parsing, environ, given)
    options = parsing.parse_args(arguments)
    check_transport(parsing, given, options)
    divert(options)
    prepare(options)
    try:
        made: Server | int = _bridge(options) if command == "bridge" else _gateway(options)
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"dovetail {command}: {printable(str(error))}\n")
        return 2
    return made if isinstance(made, int) else serve(made, options)


def _bridge_parser() -> argparse.ArgumentParser:
    result = CommandParser(
        "bridge",
        "Serve TARGET (a URL, a Python file, or a quoted command) over another transport or revision.",
    )
    result.add_argument("target", metavar="TARGET")
    add_common(result)
    add_transports(result)
    result.add_argument("--timeout", type=float, metavar="S", help="seconds that one call of TARGET can take")
    result.add_argument("--revision", default="auto", help="auto, modern, legacy or one revision, for TARGET")
    result.add_argument(
        "--serve-revision", action="append", metavar="R", help="serve only this revision; repeatable"
    )
    connections = result.add_mutually_exclusive_group()
    connections.add_argument(
        "--shared",
        action="store_true",
        help="one connection to TARGET for all clients (default for 2026-07-28)",
    )
    connections.add_argument(
        "--per-session",
        action="store_true",
        help="one connection to TARGET for each client session (default for older ones)",
    )
    result.add_argument(
        "--forward-header", action="append", metavar="NAME", help="an HTTP header to forward; repeatable"
    )
    result.add_argument(
        "--forward-method",
        action="append",
        default=[],
        metavar="NAME[=CAPABILITY]",
        help="an extension method to forward, and the capability that TARGET declares for it; repeatable",
    )
    result.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable for the command of TARGET; without a value, it is copied from this environment",
    )
    result.add_argument(
        "--header", action="append", default=[], metavar="'Name: value'", help="an HTTP header for TARGET"
    )
    add_option(result)
    _add_callers(result)
    return result


def _add_callers(result: argparse.ArgumentParser) -> None:
    group = result.add_argument_group("authentication of callers over HTTP")
    group.add_argument("--issuer", metavar="URL", help="the issuer of the tokens that callers must send")
    group.add_argument(
        "--audience", metavar="URL", help="the audience of these tokens: the URL of this server"
    )
    group.add_argument(
        "--jwks-uri", metavar="URL", help="the keys of the issuer, if its metadata does not name them"
    )


def _bridge(options: argparse.Namespace) -> Server:
    from ..gateway import Proxy
    from ..gateway.inbound_auth import jwt_callers

    known = {*BY_NAME, *_ERAS}
    for name in (options.revision, *(options.serve_revision or ())):
        if name not in known:
            raise ValueError(f"{name!r} is not a protocol revision: use one of {', '.join(BY_NAME)}")
    more: dict[str, Any] = {"env": _environment(options.env)} if options.env else {}
    if options.serve_revision:
        more["revisions"] = options.serve_revision
    callers = jwt_callers(options.issuer, options.audience, options.jwks_uri)
    made = Proxy(
        read_target(options.target),
        connections="session" if options.per_session else "principal" if options.shared else "auto",
        timeout=options.timeout,
        forward_headers=options.forward_header or (),
        forward_methods={
            name: capability or None
            for name, _, capability in (one.partition("=") for one in options.forward_method)
        },
        revision=options.revision,
        headers=read_headers(options.header),
        auth=chosen(options.auth, options.target),
        on_stderr=stderr_of_child(),
        required=True,
        **more,
    )
    made.dispatcher.auth = callers
    return made


def _environment(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    unset = [name for name, given, _ in pairs if not given and name not in os.environ]
    if unset:
        raise ValueError(f"--env {unset[0]}: the variable is not set")
    return {name: value if given else os.environ[name] for name, given, value in pairs}


def _gateway_parser() -> argparse.ArgumentParser:
    result = CommandParser(
        "gateway",
        "Serve all servers in FILE (mcpServers JSON, or TOML) as one. Changes of the file are applied.",
    )
    result.add_argument("file", metavar="FILE")
    add_common(result)
    add_transports(result)
    result.add_argument(
        "--yes", action="store_true", help="run the commands in the file without confirmation"
    )
    result.add_argument(
        "--search", action="store_true", help="list search_tools and call_tool instead of all tools"
    )
    result.add_argument(
        "--always", action="append", metavar="TOOL", help="list this tool in spite of --search; repeatable"
    )
    _add_callers(result)
    return result


def _gateway(options: argparse.Namespace) -> Server | int:
    from ..gateway.gateway_config import SearchOptions
    from ..gateway.inbound_auth import jwt_callers
    from ..gateway.trust import Untrusted

    search = SearchOptions(always=options.always or []) if options.search or options.always else None
    callers = jwt_callers(options.issuer, options.audience, options.jwks_uri)
    try:
        return gateway_of(options.file, yes=options.yes, search=search, auth=callers)
    except Untrusted as error:
        sys.stderr.write(f"dovetail gateway: {printable(error.message)}\n")
        return 2
