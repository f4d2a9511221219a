"""Configuration files of servers: the common ``mcpServers`` JSON, its variants in other programs, or TOML.

A server is a ``command`` (with ``args``, ``env``, ``cwd``) or a ``url`` (with ``headers``; also ``httpUrl``,
``serverUrl``). Further members: ``prefix``, ``tools`` (only these are listed), ``exclude``, ``rename``,
``describe``, ``hide``, ``preset_arguments``, ``default``, ``rename_arguments``, ``schemas``, ``max_bytes``
(as in `Server.transform`), ``timeout`` (seconds), ``revision``, ``auth`` (text, or ``{"exchange": …}``),
``forward_headers``, ``forward_methods``, ``middleware`` (names from `middleware`, optionally with options),
``start_timeout`` (seconds until it must be ready), ``memory`` (bytes of a command's process, also
``"512M"``). ``${VAR}`` and ``${VAR:-default}`` are replaced from the environment, ``${keyring:NAME}`` and
``${input:NAME}`` by secrets: see `config_secrets`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct, field

from .. import middleware
from ..auth.client.flow_runner import AUTHORIZATION_SECONDS
from ..auth.client.on_behalf_of import TokenExchange
from ..drivers.middleware_chain import Middleware
from ..errors import DovetailError
from ..wire.revisions import BY_NAME
from .memory_limit import with_memory_limit

log = logging.getLogger("dovetail.gateway")

_VARIABLE: Final = re.compile(r"\$\{(?:(keyring|input):)?([A-Za-z_][A-Za-z0-9_.-]*?)(?::-([^}]*))?\}")
_TABLES: Final = ("mcpServers", "servers", "context_servers")
_URLS: Final = ("url", "httpUrl", "serverUrl")
_TRANSPORTS: Final = {
    "stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http", "streamableHttp": "http",
    "sse": "sse", "ws": "ws", "websocket": "ws",
}  # fmt: skip
"""Names of transports in configuration files, and their meaning."""
_ERAS: Final = ("auto", "modern", "legacy")
_AS_WRITTEN: Final = (
    "cwd", "headers", "prefix", "rename", "describe", "hide", "preset_arguments", "default", "rename_arguments",
    "timeout", "revision", "auth", "forward_methods", "schemas", "max_bytes", "start_timeout",
)  # fmt: skip
"""Members in which variables are not replaced."""


class ConfigError(DovetailError):
    """A configuration file, or an entry of it, is not valid. The message says where and why."""

    kind = "configuration"


class ExchangeMembers(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Token exchange for one server, as in `auth.TokenExchange`."""

    client_id: str
    client_secret: str | None = None
    token_endpoint: str | None = None
    issuer: str | None = None
    audience: str | None = None
    resource: str | None = None
    scopes: str | list[str] = ""
    token_endpoint_auth_method: str | None = None
    timeout: Annotated[float, Meta(gt=0)] = AUTHORIZATION_SECONDS
    allow_private: bool = False

    def __repr__(self) -> str:
        return "ExchangeMembers(…)"  # contains a secret


class AuthMembers(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    exchange: ExchangeMembers


class ServerEntry(Struct, kw_only=True, frozen=True):
    """One server of the file."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    prefix: str | None = None
    tools: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict[str, str])
    describe: dict[str, str] = field(default_factory=dict[str, str])
    hide: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    preset_arguments: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    default: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rename_arguments: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    timeout: float | None = None
    revision: str | None = None
    auth: str | AuthMembers | None = None
    forward_headers: tuple[str, ...] = ()
    forward_methods: dict[str, str | None] | list[str] = field(default_factory=list[str])
    schemas: str | None = None
    max_bytes: int | None = None
    middleware: tuple[str | dict[str, dict[str, Any]], ...] = ()
    start_timeout: float | None = None
    memory: int | None = None

    @property
    def target(self) -> Any:
        """Return the target for `Client`."""
        return self.url or with_memory_limit(self.command, self.memory)


class _EntryMembers(Struct, kw_only=True):
    """An entry as written in the file; members of other programs are ignored."""

    command: str | list[str] | None = None
    args: list[str] = []
    env: dict[str, str | int | float | bool] = {}
    cwd: str | None = None
    headers: dict[str, str] = {}
    type: str | None = None
    transport: str | None = None
    prefix: str | None = None
    tools: list[str] | None = None
    exclude: list[str] = []
    rename: dict[str, str] = {}
    describe: dict[str, str] = {}
    hide: dict[str, list[str]] = {}
    preset_arguments: dict[str, dict[str, Any]] = {}
    default: dict[str, dict[str, Any]] = {}
    rename_arguments: dict[str, dict[str, str]] = {}
    timeout: float | None = None
    revision: str | None = None
    auth: str | AuthMembers | None = None
    forward_headers: list[str] = []
    forward_methods: dict[str, str | None] | list[str] = []
    schemas: str | None = None
    max_bytes: int | None = None
    middleware: list[str | dict[str, dict[str, Any]]] = []
    start_timeout: Annotated[float, Meta(gt=0)] | None = None
    memory: Annotated[int, Meta(gt=0)] | str | None = None
    disabled: bool = False


def read(source: str | os.PathLike[str] | Mapping[str, Any]) -> list[ServerEntry]:
    """Return the servers of a file, or of its content.

    Raises:
        ConfigError: the file or one of its servers is not valid.
    """
    entries, problems = usable(source)
    for problem in problems.values():
        raise problem
    return entries


def usable(
    source: str | os.PathLike[str] | Mapping[str, Any],
) -> tuple[list[ServerEntry], dict[str, ConfigError]]:
    """Return the usable servers of a file, and the errors of the others.

    Raises:
        ConfigError: the file is not valid.
    """
    return _entries(*loaded(source))


class SearchOptions(Struct, kw_only=True, forbid_unknown_fields=True):
    """The member ``search`` of a file of servers: list search tools instead of all tools."""

    always: list[str] = []
    """Names of tools that are always listed."""
    limit: int = 8
    """The most tools in one search result."""


def read_search(source: str | os.PathLike[str] | Mapping[str, Any]) -> SearchOptions | None:
    """Return the search options of a file: ``true`` or an object; None if search is off.

    Raises:
        ConfigError: as `read`.
    """
    found, where = loaded(source)
    wish: Any = cast("Mapping[str, Any]", found).get("search") if isinstance(found, Mapping) else None
    if wish is None or isinstance(wish, bool):
        return SearchOptions() if wish else None
    try:
        return msgspec.convert(wish, SearchOptions)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: search: {error}") from None


def loaded(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Any, str]:
    """Return the content of a file, and its name for messages.

    Raises:
        ConfigError: it cannot be read.
    """
    if isinstance(source, Mapping):
        return source, "the configuration"
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text), str(path)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _entries(found: Any, where: str) -> tuple[list[ServerEntry], dict[str, ConfigError]]:
    members: Mapping[str, Any] = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    table: Any = next((members[name] for name in _TABLES if name in members), None)
    if not isinstance(table, Mapping):
        raise ConfigError(f'{where} has no "mcpServers" object')
    servers = cast("Mapping[str, Any]", table)
    entries: list[ServerEntry] = []
    problems: dict[str, ConfigError] = {}
    for name, members in servers.items():
        try:
            if (entry := _entry(name, members, where)) is not None:
                entries.append(_prefixed(entry, alone=len(servers) == 1))
        except ConfigError as problem:
            problems[name] = problem
    return entries, problems


def _prefixed(entry: ServerEntry, alone: bool) -> ServerEntry:
    """Use names as prefixes, unless the file has only one server without a prefix."""
    if entry.prefix is not None or alone:
        return entry
    words = re.sub(r"[^A-Za-z0-9.\-]+", "_", entry.name).strip("_") or "server"
    return msgspec.structs.replace(entry, prefix=words)


def _entry(name: str, members: Any, where: str) -> ServerEntry | None:
    place = f"{where}: server {name!r}"
    if not isinstance(members, Mapping):
        raise ConfigError(f"{place} must be an object")
    replaced = with_variables(cast("Mapping[str, Any]", members), place)
    try:
        given = msgspec.convert(replaced, _EntryMembers)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: {error}") from None
    if given.disabled:
        return None
    for wrong, meant in _misspelt(replaced):
        log.warning("%s: unknown member ignored, did you mean %r instead of %r?", place, meant, wrong)
    urls = [(key, replaced[key]) for key in _URLS if replaced.get(key)]
    if bool(urls) == (given.command is not None):
        raise ConfigError(f'{place} needs either a "command" or a "url"{_typo(replaced)}')
    if given.revision is not None and given.revision not in (*BY_NAME, *_ERAS):
        raise ConfigError(f"{place}: unknown revision {given.revision!r}")
    words = given.command if isinstance(given.command, list) else [given.command or ""]
    return ServerEntry(
        name=name,
        command=() if urls else (*words, *given.args),
        env={key: _written(value) for key, value in given.env.items()},
        url=_url(urls[0], given.type or given.transport, place) if urls else "",
        tools=None if given.tools is None else tuple(given.tools),
        exclude=tuple(given.exclude),
        forward_headers=tuple(given.forward_headers),
        middleware=tuple(given.middleware),
        memory=_bytes(given.memory, place),
        **{name: getattr(given, name) for name in _AS_WRITTEN},
    )


def _bytes(size: int | str | None, place: str) -> int | None:
    """Parse a size such as ``512M``."""
    if size is None or isinstance(size, int):
        return size
    found = re.fullmatch(r"(\d+)\s*([KMG]?)i?B?", size.strip(), re.IGNORECASE)
    if found is None or not int(found[1]):
        raise ConfigError(f"{place}: {size!r} is not a valid size; write it like 512M")
    return int(found[1]) << 10 * " KMG".index(found[2].upper() or " ")


_NOT_READY: Final = frozenset({"Component", "Middleware", "Rate", "Request"})
"""Names in the middleware package that are not middleware."""


def middleware_of(entry: ServerEntry) -> list[Middleware]:
    """Create the middleware of an entry.

    Raises:
        ConfigError: a middleware is unknown, or its options are not valid.
    """
    made: list[Middleware] = []
    for one in entry.middleware:
        for name, options in (one if isinstance(one, dict) else {one: dict[str, Any]()}).items():
            ready = [each for each in middleware.__all__ if each not in _NOT_READY]
            if name not in ready:
                known = ", ".join(ready)
                raise ConfigError(f"server {entry.name!r}: unknown middleware {name!r}; use one of {known}")
            try:
                made.append(getattr(middleware, name)(**options))
            except (TypeError, ValueError) as error:
                raise ConfigError(f"server {entry.name!r}, middleware {name}: {error}") from None
    return made


def auth_of(entry: ServerEntry) -> Any:
    """Return the authorization for the upstream, as an option of `Proxy`.

    Raises:
        ConfigError: it is not valid.
    """
    if not isinstance(entry.auth, AuthMembers):
        return None if entry.auth == "none" else entry.auth
    if not entry.url.startswith(("http", "ws")):
        raise ConfigError(f"server {entry.name!r}: auth.exchange needs a server with an http or ws URL")
    try:
        return TokenExchange(**msgspec.structs.asdict(entry.auth.exchange))
    except ValueError as error:
        raise ConfigError(f"server {entry.name!r}, auth.exchange: {error}") from None


def _url(found: tuple[str, Any], transport: str | None, place: str) -> str:
    _, url = found
    if not isinstance(url, str) or not url.startswith(
        ("http://", "https://", "ws://", "wss://", "tcp://", "tls://")
    ):
        raise ConfigError(f"{place}: {url!r} is not a valid server URL")
    if transport is not None and transport not in _TRANSPORTS:
        raise ConfigError(f"{place}: unknown transport {transport!r}; use one of {', '.join(_TRANSPORTS)}")
    return url


def _misspelt(members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield unknown members that resemble known ones, with these."""
    from difflib import get_close_matches  # only imported for an unknown member

    known = {*_EntryMembers.__struct_fields__, *_URLS}
    for name in members.keys() - known:
        if close := get_close_matches(name, known, 1, 0.8):
            yield name, close[0]


def _typo(members: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    for name in members.keys() - {*_EntryMembers.__struct_fields__, *_URLS}:
        if close := get_close_matches(name, ("command", *_URLS), 1, 0.75):
            return f" (did you mean {close[0]!r} by {name!r}?)"
    return ""


def _written(value: str | float | bool) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def with_variables(value: Any, place: str) -> Any:
    """Replace environment variables in every string of ``value``.

    Raises:
        ConfigError: a variable is not set.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, place), value)
    if isinstance(value, Mapping):
        return {key: with_variables(one, place) for key, one in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [with_variables(one, place) for one in cast("list[Any]", value)]
    return value


def _variable(found: re.Match[str], place: str) -> str:
    source, name, default = found.groups()
    if source is not None:
        return _secret(source, name, default, place)
    value = os.environ.get(name)
    if value:
        return value
    if default is None:
        if value is None:
            raise ConfigError(f"{place}: the environment variable {name} is not set")
        return value
    return default


def _secret(source: str, name: str, default: str | None, place: str) -> str:
    from . import config_secrets as secrets  # most files have none

    value = secrets.from_keyring(name) if source == "keyring" else secrets.from_input(name)
    if value is None:
        value = default
    if value is not None:
        return value
    if source == "keyring":
        raise ConfigError(
            f"{place}: the keyring has no secret {name!r}; store it with: keyring set {secrets.SERVICE} {name}"
        )
    raise ConfigError(
        f"{place}: the input {name!r} needs a terminal; without one, set {secrets.input_variable(name)}"
    )
