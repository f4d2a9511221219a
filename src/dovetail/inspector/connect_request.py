"""Parse the connect form of the page into the target of a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..auth.commands.auth_option import chosen
from ..cli.call import read_target
from ..client.connecting.targets import parse_target
from ..gateway import gateway_config
from .inspected_server import ConnectRequest


def read(
    text: str,
    *,
    revision: str = "auto",
    headers: Mapping[str, str] | None = None,
    auth: str | None = None,
    env: Mapping[str, str] | None = None,
) -> list[ConnectRequest]:
    """Parse ``text``: a URL, a file, a command line, or a file of servers (.json, .toml).

    Raises:
        ValueError: it is something else.
        ConfigError: the file of servers cannot be used.
    """
    text = text.strip()
    if not text:
        raise ValueError("enter a URL, a file, a command or an mcp.json")
    if text.endswith((".json", ".toml")) and "://" not in text:
        return [_entry(entry) for entry in gateway_config.read(text)]
    target = parse_target(read_target(text))
    return [
        ConnectRequest(
            target=target,
            label=text,
            revision=revision,
            headers=headers or {},
            auth=chosen(auth, text),
            env=env or None,
        )
    ]


def _entry(entry: gateway_config.ServerEntry) -> ConnectRequest:
    more: dict[str, Any] = {"env": entry.env} if entry.env else {}
    # Token exchange needs the token of a caller, and the inspector has none.
    auth = entry.auth if isinstance(entry.auth, str) else None
    return ConnectRequest(
        target=parse_target(entry.target), label=entry.name, revision=entry.revision or "auto", headers=entry.headers,
        auth=chosen(auth, entry.url), cwd=entry.cwd, **more,
    )  # fmt: skip
