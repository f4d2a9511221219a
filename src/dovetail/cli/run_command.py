"""``dovetail run FILE[:name]``: serve the server in a file or module, at a URL, or in a file of servers."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from ..errors import DovetailError
from ..imported_packages import ORIGINALS, imported_packages
from ..stores.store_urls import check
from . import option_sources, target

if TYPE_CHECKING:
    from ..server import Server


def parser() -> argparse.ArgumentParser:
    result = target.server_parser(
        "run",
        "Serve the Server in FILE, a URL or an mcp.json file. The default transport is stdio.",
    )
    add_transports(result)
    result.add_argument(
        "-m", dest="module", metavar="MODULE", help="serve a module, or a console script of a package"
    )
    result.add_argument(
        "--compat",
        action="store_true",
        help="the program uses FastMCP or the official SDK (usually detected)",
    )
    next(one for one in result._actions if one.dest == "target").nargs = "?"  # pyright: ignore[reportPrivateUsage]
    option_sources.add_environment(result)
    result.add_argument(
        "--reload",
        action="store_true",
        help="reload the file after edits; clients stay connected, as with dovetail dev",
    )
    return result


def add_transports(result: argparse.ArgumentParser) -> None:
    """Add the options of every command that serves."""
    transport = result.add_mutually_exclusive_group()
    add = transport.add_argument
    add("--stdio", action="store_true", help="serve over stdin and stdout (the default)")
    add("--http", action="store_true", help="serve Streamable HTTP at /mcp, all revisions on one URL")
    add("--sse", action="store_true", help="serve HTTP+SSE, the transport of 2024-11-05")
    add("--ws", action="store_true", help="serve WebSockets at /mcp")
    add("--tcp", type=_tcp, metavar="HOST:PORT", help="serve newline-framed messages over TCP")
    add("--unix", metavar="PATH", help="serve newline-framed messages over a Unix socket")
    result.add_argument("--host", help="the address to bind (default: 127.0.0.1)")
    result.add_argument(
        "--port", type=option_sources.PORT, help="the port to bind (default: $PORT, else 8000)"
    )
    result.add_argument(
        "--allow-anonymous",
        action="store_true",
        help="permit other machines to connect without authentication",
    )
    result.add_argument("--json", action="store_true", help="print the address on stderr as JSON")
    group = result.add_argument_group("with --http, --sse or --ws")
    group.add_argument(
        "--workers",
        type=option_sources.number(1),
        default=1,
        metavar="N",
        help="the number of processes that share the port",
    )
    group.add_argument("--uds", metavar="PATH", help="serve HTTP on a Unix socket instead of a port")
    group.add_argument("--certfile", metavar="FILE", help="serve HTTPS with this certificate")
    group.add_argument("--keyfile", metavar="FILE", help="the private key of the certificate")
    group.add_argument("--client-ca", metavar="FILE", help="require client certificates of these authorities")
    group.add_argument(
        "--public",
        action="store_true",
        help="bind 0.0.0.0; the server must authenticate its callers, or --allow-anonymous is needed",
    )
    group.add_argument(
        "--trusted-proxy",
        action="append",
        metavar="CIDR",
        help="a reverse proxy whose X-Forwarded headers are believed; repeatable",
    )
    group.add_argument(
        "--allowed-host",
        action="append",
        metavar="NAME",
        help="a further Host header to accept, * for any; repeatable",
    )
    group.add_argument(
        "--allowed-origin",
        action="append",
        metavar="URL",
        help="the origin of web pages that may call; repeatable",
    )
    group.add_argument(
        "--stateless", action="store_true", help="create no sessions for clients of older revisions"
    )
    group.add_argument("--metrics", action="store_true", help="serve metrics at /metrics")
    group.add_argument("--access-log", action="store_true", help="log one line for each HTTP request")
    group.add_argument("--json-only", action="store_true", help="never respond with an event stream")


def main(command: str, arguments: list[str]) -> int:
    words, rest = option_sources.cut(arguments)
    known = parser().parse_known_args(words)[0]
    if (known.target is None) == (known.module is None) and not {"-h", "--help"} & {*words}:
        parser().error("give exactly one of FILE, URL, mcp.json, or -m MODULE")
    other = None if known.target is None else _other(known.target)
    if other is not None:
        from . import proxy_commands

        known.env = []  # for bridge and gateway, --env is for the command they start
        os.environ |= _environment(parser(), known)
        # Only options of `run`: a .env file must not confirm the commands of a file of servers (--yes).
        ours = {option_sources.PREFIX + name.upper() for name in vars(known)} & os.environ.keys()
        return proxy_commands.main(other, arguments, {name: os.environ[name] for name in ours})
    options = read(parser(), words)
    divert(options)
    if (
        options.compat
        or options.module is not None
        or ORIGINALS & imported_packages(target.split(options.target)[0])
    ):
        from . import run_compat

        status = run_compat.run(options, rest, _http_options(options))
        if status is not None:
            return status
        options.target = options.target or options.module
    file: str = options.target or ""
    if options.reload:
        return serve(_reloading(options, rest), options)
    sys.argv = [target.split(file)[0], *rest]
    return serve(target.server_of(options), options)


def read(parsing: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Read the command line, the environment and the ``.env``.

    The ``.env`` is also put into the environment, unless --reload reads it again.
    """
    given = typed(parsing, words)
    found = _environment(parsing, given)
    option_sources.take_defaults(parsing, found, given)
    options = parsing.parse_args(words)
    check_transport(parsing, given, options)
    options.env_files = given.env_files
    if not getattr(options, "reload", False):
        os.environ |= found
    return options


def typed(parsing: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Read the command line alone; an HTTP option that is not on it is None."""
    return parsing.parse_args(words, argparse.Namespace(**dict.fromkeys(_HTTP_OPTIONS)))


def check_transport(
    parsing: argparse.ArgumentParser, given: argparse.Namespace, options: argparse.Namespace
) -> None:
    """End the command if an HTTP option was given without HTTP. Variables may be meant for other commands."""
    if options.public:
        if options.host not in (None, PUBLIC):
            parsing.error(f"--public binds {PUBLIC}: give either --public or --host {options.host}")
        options.host = PUBLIC
    idle = [f"--{name.replace('_', '-')}" for name in _HTTP_OPTIONS if getattr(given, name) is not None]
    if idle and not (options.http or options.sse or options.ws):
        parsing.error(f"{', '.join(idle)}: add --http, --sse or --ws")


def _environment(parsing: argparse.ArgumentParser, given: argparse.Namespace) -> dict[str, str]:
    file = target.split(given.target or "")[0]
    try:
        os.environ |= option_sources.env_options(given)
        given.env_files = option_sources.files(given, file if os.path.isfile(file) else None)
        return option_sources.with_files(given.env_files, os.environ)
    except (ValueError, OSError) as error:
        parsing.error(str(error))


def _reloading(options: argparse.Namespace, rest: list[str]) -> Server:
    """A proxy that serves the file and reloads it."""
    from ..inspector.dev_command import Reloading

    if options.workers > 1:
        parser().error("--reload supports only one worker")
    target.prepare(options)
    reloading: dict[str, Any] = {
        "env_files": options.env_files,
        "arguments": rest,
        "log_level": options.log_level,
    }
    return Reloading(options.target, lambda name, note: None, **reloading).front


def _other(name: str) -> str | None:
    """Return the command that serves a URL or a file of servers; None for a Python file or module."""
    if name.startswith(("http://", "https://")):
        return "bridge"
    return "gateway" if name.endswith(".json") else None


def _over_stdio(options: argparse.Namespace) -> bool:
    return not (options.http or options.sse or options.ws or options.tcp or options.unix)


def divert(options: argparse.Namespace) -> None:
    """Redirect stdout to stderr for stdio: a print while the author's code is imported must not reach the client."""
    if _over_stdio(options):
        from ..transports import stdio

        stdio.divert()


def serve(server: Server, options: argparse.Namespace) -> int:
    """Serve as the options specify. Returns the exit status."""
    if options.workers <= 1 or not (options.http or options.sse or options.ws):
        check(server.lifecycle.store)  # `http_serving.run` checks the store of several workers
    if _over_stdio(options):
        from ..transports import stdio

        return stdio.run(server.dispatcher)
    if options.tcp or options.unix:
        return _run_stream(server, options)
    from ..server.serving import transport_options
    from ..transports.http import http_serving

    # One application serves Streamable HTTP, HTTP+SSE and WebSocket.
    chosen = transport_options(server.dispatcher, "http", _http_options(options))
    for name in _REPEATABLE:
        chosen[name] = (*getattr(server.dispatcher.settings.http, name), *chosen.get(name, ()))
    return http_serving.run(server.dispatcher, workers=options.workers, **chosen)


PUBLIC: Final = "0.0.0.0"
"""The address of ``--public``: every interface of the machine."""
_PASSED_ON: Final = (
    "host", "port", "uds", "certfile", "keyfile", "client_ca", "allow_anonymous", "stateless", "json_only", "metrics",
    "access_log",
    "json",
)  # fmt: skip
"""Options that `http_serving.run` takes with the same names."""
_HTTP_OPTIONS: Final = (
    *(name for name in _PASSED_ON if name not in ("allow_anonymous", "json")),
    "workers", "allowed_host", "allowed_origin", "public", "trusted_proxy",
)  # fmt: skip
"""Options of HTTP only."""
_REPEATABLE: Final = ("allowed_hosts", "allowed_origins", "trusted_proxies")
"""Options of which the command line adds to those of ``Server(http=…)``."""


def _run_stream(server: Server, options: argparse.Namespace) -> int:
    from ..transports import tcp
    from ..transports.bind_address import print_line, serving_on

    def ready(listener: tcp.StreamListener) -> None:
        where = f"unix:{options.unix}"
        if not options.unix:
            host, port = listener.address[:2]
            where = f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
        print_line(serving_on(where, json=options.json))

    if options.unix:
        return tcp.run(server.dispatcher, None, None, path=options.unix, ready=ready)
    host, port = address(options.tcp)
    return tcp.run(server.dispatcher, host, port, allow_anonymous=options.allow_anonymous, ready=ready)


def address(value: str) -> tuple[str, int]:
    """Parse ``HOST:PORT``; an IPv6 address is in brackets."""
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise DovetailError(f"{value!r} is not an address: use HOST:PORT, such as 127.0.0.1:9000")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _tcp(value: str) -> str:
    try:
        address(value)
    except DovetailError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return value


def _http_options(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "announce": "ws" if options.ws else "sse" if options.sse else "http",
        "allowed_hosts": tuple(options.allowed_host or ()),
        "allowed_origins": tuple(options.allowed_origin or ()),
        "trusted_proxies": tuple(options.trusted_proxy or ()),
        # A switch that was not given leaves what the server says.
        **{
            name: value
            for name, value in vars(options).items()
            if name in _PASSED_ON and value is not None and value is not False
        },
    }
