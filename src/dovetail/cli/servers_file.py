"""A file of servers (``mcp.json``) as a TARGET: all of them as one, asked about once, and what became of each."""

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
    from ..gateway.gateway_config import Entry

_LOGS: Final = (logging.getLogger("dovetail.gateway"), logging.getLogger("dovetail.health"))


def names_servers(text: str) -> bool:
    """Whether a TARGET is such a file, by its name."""
    return text.endswith((".json", ".toml")) and "://" not in text and len(shlex.split(text)) == 1


def gateway_of(file: str, *, yes: bool, **more: Any) -> Gateway:
    """The servers of a file; commands that nobody has agreed to are asked about at a terminal, unless ``yes``.

    Raises:
        Untrusted: nobody has, and no server is left.
        ConfigError: it is no such file, or none of its servers can be used.
    """
    from ..gateway import Gateway
    from ..gateway.gateway_config import usable
    from ..gateway.trust import check_trusted

    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        _ask(usable(file)[0])
    return Gateway(file, check=None if yes else check_trusted, **more)


def client_target(file: str, *, yes: bool) -> Gateway:
    """The same for commands that call.

    Raises:
        ValueError: nobody has agreed to the commands, and no server is left.
        ConfigError: as `gateway_of`.
    """
    from ..gateway.trust import Untrusted

    try:
        return gateway_of(file, yes=yes, reload=False)
    except Untrusted as error:
        raise ValueError(error.message) from None


def failed(client: Client) -> dict[str, DovetailError]:
    """The servers of a file that are not there, and why."""
    if client.target.kind != "memory":
        return {}
    from ..gateway import Gateway

    service = client.target.service
    return service.failed if isinstance(service, Gateway) else {}


@contextmanager
def telling_failed(command: str, client: Client) -> Generator[None]:
    """Say on stderr, in the end and once, which servers are not there, in place of what is logged for every list. Of
    those that are written wrongly was spoken when they were read."""
    levels = {log: log.level for log in _LOGS}
    for log in _LOGS:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in levels.items():
            log.setLevel(level)
        for name, error in failed(client).items():
            if name in client.target.service.proxies:
                why = printable(error.message)
                sys.stderr.write(f"dovetail {command}: {printable(name)!r} is left out: {why}\n")


def _ask(entries: list[Entry]) -> None:
    """Ask at the terminal about commands that nobody has spoken of; what is said is remembered."""
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
