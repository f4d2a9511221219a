"""Use a file of servers (``mcp.json``) as a TARGET: combine its servers, and report those that fail."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..client import Client
from ..errors import DovetailError
from ..telemetry.terminal_sanitizer import printable

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..gateway.gateway_config import ServerEntry

_LOGS: Final = (logging.getLogger("dovetail.gateway"), logging.getLogger("dovetail.health"))


def names_servers(text: str) -> bool:
    """Return whether a TARGET is a file of servers, by its name."""
    return text.endswith((".json", ".toml")) and "://" not in text and len(shlex.split(text)) == 1


def gateway_of(file: str, *, yes: bool, **more: Any) -> Gateway:
    """Return a gateway to the servers of a file. New commands need a confirmation at the terminal, or ``yes``.

    Raises:
        Untrusted: a command is not confirmed, and no server is left.
        ConfigError: the file cannot be read, or none of its servers can be used.
    """
    from ..gateway import Gateway
    from ..gateway.gateway_config import usable
    from ..gateway.trust import check_trusted

    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        _ask(usable(file)[0])
    return Gateway(file, check=None if yes else check_trusted, **more)


def client_target(file: str, *, yes: bool) -> Gateway:
    """Return a gateway for the commands that connect as clients.

    Raises:
        ValueError: the commands are not confirmed, and no server is left.
        ConfigError: as `gateway_of`.
    """
    from ..gateway.trust import Untrusted

    try:
        return gateway_of(file, yes=yes, reload=False)
    except Untrusted as error:
        raise ValueError(error.message) from None


def failed(client: Client) -> dict[str, DovetailError]:
    """Return the servers of a file that cannot be used, and why."""
    if client.target.kind != "memory":
        return {}
    from ..gateway import Gateway

    service = client.target.service.server
    return service.failed if isinstance(service, Gateway) else {}


@contextmanager
def telling_failed(command: str, client: Client) -> Generator[None]:
    """Report on stderr, once and at the end, which servers failed, instead of a log line for each list. Entries with
    mistakes were reported when the file was read."""
    levels = {log: log.level for log in _LOGS}
    for log in _LOGS:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in levels.items():
            log.setLevel(level)
        for name, error in failed(client).items():
            if name in client.target.service.server.proxies:
                why = printable(error.message)
                sys.stderr.write(f"dovetail {command}: {printable(name)!r} is not used: {why}\n")


def _ask(entries: list[ServerEntry]) -> None:
    """Ask at the terminal whether to run new commands, and store the decision."""
    from ..gateway.trust import is_trusted, trust

    for entry in entries:
        if entry.command and not is_trusted(entry):
            shown = printable(shlex.join(entry.command))
            sys.stderr.write(
                f"Run the server {printable(entry.name)!r} with the command\n  {shown}\n? [y/N] "
            )
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() in ("y", "yes"):
                trust(entry)
