"""`Gateway`: one server for all servers of a configuration file. Unreachable servers are left out and
retried.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..drivers.heartbeat import repeat
from ..errors import DovetailError, RegistrationError
from ..server.server import Server
from ..settings import Timeouts
from . import gateway_config
from .gateway_config import ConfigError, SearchOptions, ServerEntry
from .inbound_auth import read_callers
from .mounting import Mounts
from .proxy import Proxy
from .remote import LONGEST_CHAIN

if TYPE_CHECKING:
    from ..client.client_config import ClientOptions

CONFIG_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of a gateway's configuration file."""


log = logging.getLogger("dovetail.gateway")

_CHAIN: Final = "DOVETAIL_GATEWAYS"
"""The environment variable with the gateways that started this child process."""
_SHAPED: Final = ("rename", "describe", "hide", "preset_arguments", "default", "rename_arguments")
"""Members of an entry that are arguments of `Server.transform`."""

Source = str | os.PathLike[str] | Mapping[str, Any]


class Gateway(Server):
    """The servers of ``source`` (a file or its content), each as a `Proxy` with its prefix.

    While it runs, changes of the file are applied: new servers are mounted, removed ones are closed, and
    downstream clients stay connected. An unreadable file changes nothing. A server with an invalid entry, or
    for which ``check`` raises a `ConfigError`, is left out. ``auth`` verifies callers over HTTP; the
    default is the member ``auth`` of the file (`inbound_auth`), read once at the start. Token exchange for
    upstreams requires it.
    """

    def __init__(
        self,
        source: Source,
        name: str = "dovetail-gateway",
        *,
        reload: bool = True,
        search: SearchOptions | None = None,
        auth: Any = None,
        check: Callable[[ServerEntry], None] | None = None,
    ) -> None:
        """Set the servers.

        Args:
            source: A file of servers (JSON or TOML), or its content as a mapping.
            name: The name of the gateway.
            reload: Whether to apply changes of the file while the gateway runs.
            search: List only search tools instead of all tools; see `SearchOptions`.
            auth: The verifier for callers over HTTP; by default the member ``auth`` of the file.
            check: Called with each entry; a `ConfigError` leaves the entry out.
        """
        super().__init__(name, auth=auth or read_callers(source))
        self._check = check
        self._source = source
        self._reload = reload and not isinstance(source, Mapping)
        self._entries: dict[str, ServerEntry] = {}
        self.proxies: dict[str, Proxy] = {}
        self._watching: asyncio.Task[None] | None = None
        self.lifecycle.add(start=self._watch_file, stop=self._stop_watching)
        self._seen = None if isinstance(source, Mapping) else _stamp(source)
        """The file's modification time and size when it was read."""
        self._given, self._searching = search, None
        self._chain = _chain(source)
        self._unusable: dict[str, ConfigError] = {}
        entries, problems = self._read()
        for name, proxy in self._mount_new(entries, problems).items():
            self._look_after(name, proxy)
        if problems and not self.proxies:
            raise next(iter(problems.values()))
        self._leave_out(problems)
        self._find_tools()

    def _read(self) -> tuple[dict[str, ServerEntry], dict[str, ConfigError]]:
        """Return the usable servers of the file, and the errors of the others."""
        entries, problems = gateway_config.usable(self._source)
        for entry in entries:
            try:
                if self._check is not None:
                    self._check(entry)
            except ConfigError as problem:
                problems[entry.name] = problem
        return {entry.name: entry for entry in entries if entry.name not in problems}, problems

    def _mount_new(
        self, entries: dict[str, ServerEntry], problems: dict[str, ConfigError]
    ) -> dict[str, Proxy]:
        """Mount new servers and record the errors of the others."""
        made: dict[str, Proxy] = {}
        for name, entry in entries.items():
            if name not in self._entries:
                try:
                    made[name] = self._connect(entry)
                except ConfigError as problem:
                    problems[name] = problem
        return made

    def _leave_out(self, problems: dict[str, ConfigError]) -> None:
        """Log invalid entries; the other servers are served."""
        for name in self._unusable.keys() - self.proxies.keys():
            self.health.remove(f"upstream:{name}")
        self._unusable = problems
        for name, problem in problems.items():
            if name in self.proxies:
                log.error("entry not applied, the running server stays name=%r: %s", name, problem.message)
            else:
                log.error("entry left out name=%r: %s", name, problem.message)
                self.health.add(f"upstream:{name}", _is_unusable, interval=5, failure_threshold=1)

    def _find_tools(self) -> None:
        """Enable tool search as configured."""
        wanted = self._given or gateway_config.read_search(self._source)
        if wanted == self._searching:
            return
        self._searching = wanted
        if wanted is not None:
            self.search(always=wanted.always, limit=wanted.limit)
        elif self.registry.transforms is not None:
            self.registry.transforms.find_tools(None)

    @property
    def failed(self) -> dict[str, DovetailError]:
        """The unreachable servers, with the reason."""
        problems = {name: proxy.remote.problem for name, proxy in self.proxies.items()}
        found = {name: problem for name, problem in problems.items() if problem is not None}
        return {**{name: one for name, one in self._unusable.items() if name not in self.proxies}, **found}

    def _connect(self, entry: ServerEntry) -> Proxy:
        try:
            proxy = _proxy(entry, self._chain)
            self.mount(proxy, entry.prefix)
        except (RegistrationError, ValueError) as error:
            raise ConfigError(f"server {entry.name!r}: {error}") from None
        self._entries[entry.name] = entry
        self.proxies[entry.name] = proxy
        return proxy

    def _look_after(self, name: str, proxy: Proxy) -> None:
        self.health.add(f"upstream:{name}", partial(_is_up, proxy), interval=5, failure_threshold=1)

    async def _drop(self, name: str) -> None:
        assert isinstance(self.registry.composition, Mounts)
        proxy = self.proxies.pop(name)
        del self._entries[name]
        self.health.remove(f"upstream:{name}")
        await self.registry.composition.remove(proxy)

    def _watch_file(self) -> None:
        if self._reload and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(
                repeat(CONFIG_CHECK_INTERVAL, self._reload_changed), name="dovetail-gateway"
            )

    async def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])

    async def _reload_changed(self) -> None:
        now = _stamp(self._source)
        if now != self._seen and now is not None:
            self._seen = now
            try:
                await self.reload()
            except Exception:
                log.exception("reload of the configuration file failed")

    async def reload(self) -> None:
        """Read the file and apply its changes."""
        try:
            entries, problems = self._read()
            self._find_tools()
        except (ConfigError, RegistrationError) as error:
            log.error("reload failed, keeping the current servers: %s", error.message)
            return
        for name, entry in list(self._entries.items()):
            if entries.get(name) != entry and name not in problems:
                await self._drop(name)
        made = self._mount_new(entries, problems)
        self._leave_out(problems)
        await asyncio.gather(*(proxy.lifecycle.start() for proxy in made.values()))
        for name, proxy in made.items():
            self._look_after(name, proxy)  # health checks start now


def _chain(source: Source) -> str:
    """Return the chain of configuration files of nested gateways, this one last.

    Raises:
        ConfigError: the gateway would start itself, or the chain is too long.
    """
    before = [path for path in os.environ.get(_CHAIN, "").split(os.pathsep) if path]
    own = [] if isinstance(source, Mapping) else [os.path.realpath(source)]
    if own and own[0] in before:
        raise ConfigError(f"{source} contains a gateway that starts this file again; remove that entry")
    if len(before) >= LONGEST_CHAIN:
        raise ConfigError(f"{len(before)} nested gateways exceed the limit; start the servers directly")
    return os.pathsep.join([*before, *own])


def _proxy(entry: ServerEntry, chain: str) -> Proxy:
    options: ClientOptions = {"on_stderr": partial(_log_stderr, entry.name)} if entry.command else {}
    if entry.command:
        options["env"] = {**entry.env, _CHAIN: chain}
    if entry.cwd is not None:
        options["cwd"] = entry.cwd
    if entry.headers:
        options["headers"] = entry.headers
    if entry.revision is not None:
        options["revision"] = entry.revision
    if (auth := gateway_config.auth_of(entry)) is not None:
        options["auth"] = auth
    if entry.start_timeout is not None:
        options["timeouts"] = Timeouts(connect=entry.start_timeout)
    if entry.middleware:
        options["middleware"] = gateway_config.middleware_of(entry)
    proxy = Proxy(
        entry.target,
        entry.name,
        timeout=entry.timeout,
        forward_headers=entry.forward_headers,
        forward_methods=entry.forward_methods,
        **options,
    )
    view: dict[str, Any] = {name: given for name in _SHAPED if (given := getattr(entry, name))}
    if entry.tools is not None or entry.exclude or view:
        proxy.transform(include=entry.tools, exclude=entry.exclude, **view)
    if entry.schemas is not None:
        proxy.transform(schemas=entry.schemas)
    if entry.max_bytes is not None:
        proxy.transform(max_bytes=entry.max_bytes)
    return proxy


def _log_stderr(name: str, data: bytes) -> None:
    for line in data.decode("utf-8", "replace").splitlines():
        log.info("%s: %s", name, line.encode("unicode_escape").decode())


async def _is_unusable() -> bool:
    return False


async def _is_up(proxy: Proxy) -> bool:
    first = proxy.remote.first
    return proxy.remote.problem is None and (first is None or first.client.connected)


def _stamp(source: Any) -> tuple[int, int] | None:
    try:
        found = os.stat(source)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
