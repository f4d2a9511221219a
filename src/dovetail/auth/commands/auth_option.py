"""The option ``--auth`` and the variable ``DOVETAIL_TOKEN``: authorization of commands that connect."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

TOKEN = "DOVETAIL_TOKEN"


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--auth",
        metavar="oauth|none|TOKEN",
        help=f"log in, do not, or send this token; by default {TOKEN}, or what `dovetail login` has kept",
    )


def chosen(word: str | None, target: Any) -> Any:
    """Return the value of ``Client(auth=…)`` for ``--auth WORD``; None for targets that are not URLs."""
    if word == "none" or not isinstance(target, str) or not target.startswith(_WEB):
        return None
    if word == "oauth":
        return word
    token = word or os.environ.get(TOKEN)
    if token:
        return token if " " in token else f"Bearer {token}"
    return "oauth" if is_logged_in(target) else None


_WEB = ("http://", "https://", "ws://", "wss://")


def is_logged_in(url: str) -> bool:
    """Return whether tokens are stored for a server."""
    # Imported late: every command passes here.
    from ..client.storage import TokenStore
    from ..core.flow import server_key
    from ..core.resource import canonical

    address = f"http{url[2:]}" if url.startswith("ws") else url
    try:
        return TokenStore().has(server_key(canonical(address)))
    except ValueError:
        return False


def read_headers(lines: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``--header``.

    Raises:
        ValueError: a line is not a header.
    """
    found: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator or not name.strip():
            raise ValueError(f"--header {line!r} must have the form NAME: VALUE")
        found[name.strip()] = value.strip()
    return found
