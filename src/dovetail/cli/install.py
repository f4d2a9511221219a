"""``dovetail install``, ``uninstall`` and ``discover``: add servers to MCP clients and remove them.

One entry of the client's file is changed, and the file is replaced atomically; the old file is saved as
``….dovetail-backup``. A second run changes nothing. The exit status is 0 for success, 1 for a failure, 2 for a wrong
command line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..command_parser import CommandParser
from ..errors import DovetailError
from ..middleware.sensitive_data import MASK, is_secret_name, redacted
from ..shapes import is_list, is_object
from . import config_files
from .atomic_files import write_atomically
from .known_clients import CLIENTS, Installed, KnownClient
from .option_sources import cut
from .output import Bold, Printer, Row
from .target import split

CHECK_SECONDS: Final = 30.0
"""Seconds in which a server must start before `dovetail install` writes its entry."""
CONFIG_BYTES: Final = 16 << 20
"""The largest configuration file of a client that is read, in bytes."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names become parts of tool names, file names and, in some clients, shell commands."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|PASSPHRASE", re.IGNORECASE)
_USER: Final = re.compile(r"//[^/@]*@")
BACKUP: Final = ".dovetail-backup"


class InstallError(DovetailError):
    """A client cannot be configured. Nothing was changed."""

    kind = "installation"


def main(command: str, arguments: Sequence[str]) -> int:
    """Run one of the three commands; returns the exit status."""
    return {"install": _install, "uninstall": _uninstall, "discover": _discover}[command](list(arguments))


def _install(arguments: list[str]) -> int:
    words, rest = cut(arguments)
    options = _install_parser().parse_args(words)
    done: list[dict[str, Any]] = []
    name = _named(options.name or _usual_name(options.target))
    servers = {key: _server(options, rest, CLIENTS[key]) for key in options.into}
    if not (options.print or options.no_check):
        asyncio.run(_try(options.target, next(iter(servers.values()))))
    for key, server in servers.items():
        client = CLIENTS[key]
        entry = client.write(server)
        found = {"client": key, "name": name, "file": str(client.config_path())}
        if options.print:
            done.append({**found, "state": "not written", "text": config_files.snippet(client, name, entry)})
        else:
            done.append({**found, "state": _edit(client, name, entry)})
    lines = [
        f"# {one['file']}\n{one['text']}"
        if options.print
        else f"{one['name']} in {one['file']}: {one['state']}"
        for one in done
    ]
    Printer(json=options.json).show({"installed": done}, lines)
    return 0


def _install_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        "install",
        "Add a server to the configuration of a client. Arguments of the server follow --.",
    )
    parser.add_argument("target", help="a Python file (FILE[:name]), or the URL of a server")
    parser.add_argument(
        "--into", action="append", required=True, choices=CLIENTS, metavar="CLIENT", help=", ".join(CLIENTS)
    )
    parser.add_argument(
        "--name", help="the name of the server in the client (default: that of the file or host)"
    )
    parser.add_argument("--print", action="store_true", help="print the entry and write nothing")
    parser.add_argument("--no-check", action="store_true", help="do not start the server to check it first")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="a variable for the server; with NAME alone, the client takes the value from its environment",
    )  # fmt: skip
    parser.add_argument("--plain-secrets", action="store_true", help="write secret values into the file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _uninstall(arguments: list[str]) -> int:
    parser = CommandParser("uninstall", "Remove a server from the configuration of a client.")
    parser.add_argument("name")
    parser.add_argument(
        "--from", dest="client", required=True, choices=CLIENTS, metavar="CLIENT", help=", ".join(CLIENTS)
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    client = CLIENTS[options.client]
    try:
        servers = config_files.listed(client, _read(client.config_path()))
    except ValueError as error:
        raise InstallError(f"{client.config_path()} cannot be read: {error}") from None
    if options.name not in servers:
        raise InstallError(f"{client.config_path()} has no server {options.name!r}")
    state = _edit(client, options.name, None)
    found = {
        "client": options.client,
        "name": options.name,
        "file": str(client.config_path()),
        "state": state,
    }
    Printer(json=options.json).show(found, [f"{options.name} in {client.config_path()}: removed"])
    return 0


def _discover(arguments: list[str]) -> int:
    parser = CommandParser(
        "discover",
        "List the servers in the configurations of the clients on this machine.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    for key, client in CLIENTS.items():
        path = client.config_path()
        if not path.is_file():
            continue
        one: dict[str, Any] = {"client": key, "file": str(path)}
        try:
            servers = config_files.listed(client, _read(path))
            one["servers"] = [_shown(name, entry) for name, entry in servers.items()]
        except (ValueError, DovetailError) as error:
            one["error"] = str(error)
        found.append(one)
    Printer(json=options.json).show({"clients": found}, _lines(found))
    return 0


def _lines(found: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for one in found:
        lines.append(Bold(f"{CLIENTS[one['client']].title} ({one['file']})"))
        if "error" in one:
            lines.append(f"  cannot be read: {one['error']}")
        lines += [Row(server["name"], server.get("what", "")) for server in one.get("servers", ())]
    return lines or ["no known client has a configuration file here"]


def _shown(name: str, entry: Any) -> dict[str, str]:
    """Describe a server without its environment and its later arguments, which can contain secrets."""
    members: dict[str, Any] = entry if is_object(entry) else {}
    urls = (members.get(key) for key in ("url", "httpUrl", "serverUrl", "uri"))
    url = next((one for one in urls if isinstance(one, str)), None)
    command = members.get("command", members.get("cmd"))
    words: list[Any] = command if is_list(command) else [command, *(members.get("args") or [])]
    shown = [str(word) for word in words[:6] if word]
    text = _USER.sub("//", url.partition("?")[0]) if url else " ".join(_masked(shown))
    return {"name": name, "what": redacted(text)} if text else {"name": name}


def _masked(words: list[str]) -> Iterator[str]:
    """Return a command without the values of options that look like secrets."""
    hidden = False
    for word in words:
        option, equals, _ = word.partition("=")
        secret = option.startswith("-") and is_secret_name(option)
        yield (
            MASK if hidden and not word.startswith("-") else f"{option}={MASK}" if secret and equals else word
        )
        hidden = secret and not equals


# --- one file ---------------------------------------------------------------------------------------------------


def _edit(client: KnownClient, name: str, entry: dict[str, Any] | None) -> str:
    """Add ``entry``, or remove the existing one; return the new state of the file."""
    path = client.config_path()
    text = _read(path)
    try:
        take, put = config_files.take, config_files.put
        after = take(client, text, name) if entry is None else put(client, text, name, entry)
    except ValueError as error:
        raise InstallError(
            f"{path} was not changed: {error}. Use --print and edit the file by hand"
        ) from None
    if after == text:
        return "unchanged"
    if text:
        write_atomically(f"{os.path.realpath(path)}{BACKUP}", text.encode(), mode=0o600, replace=True)
    write_atomically(path, after.encode(), mode=0o600)
    return "written"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InstallError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > CONFIG_BYTES:
        raise InstallError(f"{path} is too large for a configuration file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InstallError(f"{path} is not encoded as UTF-8") from None


# --- entries of servers ------------------------------------------------------------------------------------------


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InstallError(
            f"{name!r} is not a valid name: use 1 to 64 of A-Z a-z 0-9 _ -, starting with a letter or digit"
        )
    return name


def _usual_name(target: str) -> str:
    if "://" in target:
        return target.split("://", 1)[1].split("/")[0].split(":")[0].replace(".", "-")
    return os.path.splitext(os.path.basename(split(target)[0]))[0]


def _server(options: argparse.Namespace, rest: list[str], client: KnownClient) -> Installed:
    env, refer = _environment(options, client)
    ours = [sys.executable, "-m", "dovetail.cli.main"]
    if options.target.startswith(("http://", "https://")):
        if client.urls and not (env or refer or rest):
            return Installed(url=options.target)
        command = [*ours, "bridge", options.target, "--stdio"]
    else:
        file, name = split(options.target)
        if not os.path.isfile(file):
            raise InstallError(f"{file} does not exist")
        whole = os.path.abspath(file) + (f":{name}" if name else "")
        command = [*ours, "run", whole, *(["--", *rest] if rest else [])]
    if any(not word.isprintable() for word in (*command, *env.values())):
        raise InstallError("a path, an argument or a value contains characters that cannot be written safely")
    return Installed(command=command, env=env, refer=refer)


async def _try(target: str, server: Installed) -> None:
    """Start the server, or reach its URL, as the client will.

    Raises:
        InstallError: the server does not start or cannot be reached.
    """
    from ..auth.commands.auth_option import chosen
    from ..client import Client
    from ..client.http_client import StatusError
    from ..settings import Timeouts

    remote = target.startswith(("http://", "https://"))
    referred = {name: os.environ[name] for name in server.refer if name in os.environ}
    options: dict[str, Any] = {"auth": chosen(None, target)}
    if not remote:
        # The error contains the last output of the server.
        options = {"env": {**server.env, **referred}, "on_stderr": _unheard}
    try:
        async with Client(
            target if remote else server.command,
            reconnect=False,
            timeouts=Timeouts(connect=CHECK_SECONDS, total=CHECK_SECONDS),
            **options,
        ):
            pass
    except DovetailError as error:
        if isinstance(error, StatusError) and error.status in (401, 403):
            return  # the server exists; the client logs in
        raise InstallError(
            f"{target} does not start, so nothing was written: {error.message}. Fix it, or use --no-check"
        ) from None


def _unheard(_: bytes) -> None: ...


def _environment(options: argparse.Namespace, client: KnownClient) -> tuple[dict[str, str], tuple[str, ...]]:
    env: dict[str, str] = {}
    refer: list[str] = []
    for word in options.env:
        name, given, value = word.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise InstallError(f"{name!r} is not a valid name of a variable")
        if given and _SECRET.search(name) and not options.plain_secrets:
            raise InstallError(
                f"{name} looks like a secret: use --env {name} to read it from the client's environment, put it "
                f"into a .env file in the server's folder, or use --plain-secrets"
            )
        if not given and client.reference is None:
            raise InstallError(
                f"{client.title} cannot copy {name} from its environment: put it into a .env file next to the server"
            )
        if given:
            env[name] = value
        else:
            refer.append(name)
    return env, tuple(refer)
