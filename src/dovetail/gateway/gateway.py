"""`Gateway`: all servers of a file as one. A server that is down is left out, and comes back by itself."""

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
from .gateway_config import ConfigError, Entry, SearchOptions
from .inbound_auth import read_callers
from .mounting import Mounts
from .proxy import Proxy
from .remote import LONGEST_CHAIN

if TYPE_CHECKING:
    from ..client.client_config import ClientOptions

FILE_LOOK: Final = 1.0
"""Seconds between looks at a gateway's file."""


log = logging.getLogger("dovetail.gateway")

_CHAIN: Final = "DOVETAIL_GATEWAYS"
"""The environment's member that tells a child which gateways have started it."""
_SHAPED: Final = ("rename", "describe", "hide", "preset_arguments", "default", "rename_arguments")
"""Members of an entry that `Server.transform` takes as they are."""

Source = str | os.PathLike[str] | Mapping[str, Any]


class Gateway(Server):
    """The servers that ``source`` names (a file, or what one holds), each behind a `Proxy` under its prefix.

    While it runs, a file is looked at now and then: servers that came are mounted, those that went are ended, and
    clients in front stay connected. A file that cannot be read any more changes nothing. A server that cannot be used
    as it is written, or of which ``check`` raises a `ConfigError`, is left out, too. ``auth`` says who may call over
    HTTP, as with every `Server`; without it the file's own ``auth`` does (`callers.py`), as it is at the start.
    Whose tokens are to be exchanged for those of servers has to have one.
    """

    def __init__(
        self,
        source: Source,
        name: str = "dovetail-gateway",
        *,
        reload: bool = True,
        search: SearchOptions | None = None,
        auth: Any = None,
        check: Callable[[Entry], None] | None = None,
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
        self._entries: dict[str, Entry] = {}
        self.proxies: dict[str, Proxy] = {}
        self._watching: asyncio.Task[None] | None = None
        self._seen = None if isinstance(source, Mapping) else _stamp(source)
        """What the file looked like when it was read."""
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

    def _read(self) -> tuple[dict[str, Entry], dict[str, ConfigError]]:
        """The servers of the file, and what is wrong with those that are not among them."""
        entries, problems = gateway_config.usable(self._source)
        for entry in entries:
            try:
                if self._check is not None:
                    self._check(entry)
            except ConfigError as problem:
                problems[entry.name] = problem
        return {entry.name: entry for entry in entries if entry.name not in problems}, problems

    def _mount_new(self, entries: dict[str, Entry], problems: dict[str, ConfigError]) -> dict[str, Proxy]:
        """Mount those that are not there yet, and take note of what is wrong with the others."""
        made: dict[str, Proxy] = {}
        for name, entry in entries.items():
            if name not in self._entries:
                try:
                    made[name] = self._connect(entry)
                except ConfigError as problem:
                    problems[name] = problem
        return made

    def _leave_out(self, problems: dict[str, ConfigError]) -> None:
        """Say what is wrong with servers as they are written; the rest is served."""
        for name in self._unusable.keys() - self.proxies.keys():
            self.health.remove(f"upstream:{name}")
        self._unusable = problems
        for name, problem in problems.items():
            if name in self.proxies:
                log.error("%r stays as it was: %s", name, problem.message)
            else:
                log.error("%r is left out: %s", name, problem.message)
                self.health.add(f"upstream:{name}", _is_unusable, interval=5, failure_threshold=1)

    def _find_tools(self) -> None:
        """Have tools searched for as the file says, or whoever started this."""
        wanted = self._given or gateway_config.read_search(self._source)
        if wanted == self._searching:
            return
        self._searching = wanted
        if wanted is not None:
            self.search(always=wanted.always, limit=wanted.limit)
        elif self.transforms is not None:
            self.transforms.find_tools(None)

    @property
    def failed(self) -> dict[str, DovetailError]:
        """The servers that cannot be reached now, and why."""
        problems = {name: proxy.remote.problem for name, proxy in self.proxies.items()}
        found = {name: problem for name, problem in problems.items() if problem is not None}
        return {**{name: one for name, one in self._unusable.items() if name not in self.proxies}, **found}

    def _connect(self, entry: Entry) -> Proxy:
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
        assert isinstance(self.composition, Mounts)
        proxy = self.proxies.pop(name)
        del self._entries[name]
        self.health.remove(f"upstream:{name}")
        await self.composition.remove(proxy)

    async def start(self) -> None:
        await super().start()
        if self._reload and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(
                repeat(FILE_LOOK, self._reload_changed), name="dovetail-gateway"
            )

    async def stop(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        await super().stop()

    async def _reload_changed(self) -> None:
        now = _stamp(self._source)
        if now != self._seen and now is not None:
            self._seen = now
            try:
                await self.reload()
            except Exception:
                log.exception("the file could not be taken as it is now")

    async def reload(self) -> None:
        """Take the file as it is now."""
        try:
            entries, problems = self._read()
            self._find_tools()
        except (ConfigError, RegistrationError) as error:
            log.error("the old servers stay: %s", error.message)
            return
        for name, entry in list(self._entries.items()):
            if entries.get(name) != entry and name not in problems:
                await self._drop(name)
        made = self._mount_new(entries, problems)
        self._leave_out(problems)
        await asyncio.gather(*(proxy.start() for proxy in made.values()))
        for name, proxy in made.items():
            self._look_after(name, proxy)  # from here on it is known whether it is there


def _chain(source: Source) -> str:
    """The files of the gateways that started each other, this one's last.

    Raises:
        ConfigError: the file has started itself, or there are too many of them.
    """
    before = [path for path in os.environ.get(_CHAIN, "").split(os.pathsep) if path]
    own = [] if isinstance(source, Mapping) else [os.path.realpath(source)]
    if own and own[0] in before:
        raise ConfigError(f"{source} names a gateway that is its own server: it would start itself for ever")
    if len(before) >= LONGEST_CHAIN:
        raise ConfigError(f"{len(before)} gateways have started each other: that is enough")
    return os.pathsep.join([*before, *own])


def _proxy(entry: Entry, chain: str) -> Proxy:
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
