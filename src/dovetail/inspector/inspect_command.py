"""``dovetail inspect TARGET…``: inspect servers on a local web page."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from typing import TYPE_CHECKING

import msgspec

from ..auth.commands.auth_option import add_option, read_headers
from ..cli import option_sources
from ..cli.call import add_environment, environment_of
from ..command_parser import CommandParser
from ..settings import Limits
from ..telemetry.terminal_sanitizer import log_to_stderr

if TYPE_CHECKING:
    from ..transports.main_loop import Stop
    from .inspected_server import ConnectRequest


def parser() -> argparse.ArgumentParser:
    result = CommandParser("inspect", "Inspect servers in a browser, on a local page.")
    result.add_argument(
        "targets", metavar="TARGET", nargs="*",
        help='a URL, a Python file, a command in quotes ("npx some-server"), or an mcp.json',
    )  # fmt: skip
    result.add_argument(
        "--revision", default="auto", help="auto, modern, legacy, or a protocol revision such as 2025-06-18"
    )
    result.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="an HTTP header to send with every request",
    )
    add_option(result)
    add_environment(result)
    add_page(result)
    return result


def add_page(parser: argparse.ArgumentParser, port: str = "--port") -> None:
    """Add the options of every command that opens the inspector."""
    parser.add_argument(
        port,
        type=option_sources.PORT,
        default=0,
        metavar="N",
        help="the port of the page (default: any free one)",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the link without opening a browser")
    parser.add_argument("--json", action="store_true", help="print the link as JSON")


def main(command: str, arguments: list[str]) -> int:
    options = parser().parse_intermixed_args(arguments)
    log_to_stderr()
    from . import connect_request

    try:
        headers = read_headers(options.header)
        found: list[ConnectRequest] = []
        for target in options.targets:
            found += connect_request.read(
                target,
                revision=options.revision,
                headers=headers,
                auth=options.auth,
                env=environment_of(target, options),
            )
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"dovetail inspect: {error}\n")
        return 2
    return _run(found, options)


def _run(requests: list[ConnectRequest], options: argparse.Namespace) -> int:
    from ..transports import main_loop
    from ..transports.bind_address import BindAddress
    from . import Inspector, InspectorApp

    async def serve(stop: Stop) -> None:
        inspector = Inspector()
        async with InspectorApp(inspector).served(BindAddress(port=options.port)) as link:
            inspector.connect(requests)
            found = msgspec.json.encode({"inspector": link}).decode()
            sys.stdout.write(f"{found if options.json else f'The inspector is at {link}'}\n")
            sys.stdout.flush()
            show(link, options)
            await stop.wait()

    return main_loop.run(serve, threads=Limits().max_threads)


def show(link: str, options: argparse.Namespace) -> None:
    """Open a browser, unless the options disable it."""
    if not options.no_browser:
        webbrowser.open(link)
