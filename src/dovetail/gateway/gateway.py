"""`Gateway`: all servers of a file as one. A server that is down is left out, and comes back by itself."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..errors import DovetailError, RegistrationError
from ..server.server import Server
from ..settings import Timeouts
from . import config
from .bounds import FILE_LOOK, LONGEST_CHAIN
from .callers import read_callers
from .config import ConfigError, Entry, SearchOptions
from .mounting import Mounts
from .proxy import Proxy

if TYPE_CHECKING:
    from ..client.config import ClientOptions

log = logging.getLogger("dovetail.gateway")

_CHAIN: Final = "DOVETAIL_GATEWAYS"
"""The environment's member that tells a child which gateways have started it."""

Source = str | os.PathLike[str] | Mapping[str, Any]


class Gateway(Server):
    """The servers that ``source`` names (a file, or what one holds), each behind a `Proxy` under its prefix.

    While it runs, a file is looked at now and then: servers that came are mounted, those that went are ended, and
    clients in front stay connected. A file that cannot be read any more changes nothing. ``auth`` says who may call
    over HTTP, as with every `Server`; without it the file's own ``auth`` does (`callers.py`), as it is at the start.
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
    ) -> None:
        super().__init__(name, auth=auth or read_callers(source))
        self._source = source
        self._reload = reload and not isinstance(source, Mapping)
        self._entries: dict[str, Entry] = {}
        self.proxies: dict[str, Proxy] = {}
        self._watching: asyncio.Task[None] | None = None
        self._given, self._searching = search, None
        self._chain = _chain(source)
        for entry in config.read(source):
            self._look_after(entry.name, self._connect(entry))
        self._find_tools()

    def _find_tools(self) -> None:
        """Have tools searched for as the file says, or whoever started this."""
        wanted = self._given or config.read_search(self._source)
        if wanted == self._searching:
            return
        self._searching = wanted
        if wanted is not None:
            self.search(always=wanted.always, limit=wanted.limit)
        elif self.shape is not None:
            self.shape.find_tools(None)

    @property
    def failed(self) -> dict[str, DovetailError]:
        """The servers that cannot be reached now, and why."""
        problems = {name: proxy.remote.problem for name, proxy in self.proxies.items()}
        return {name: problem for name, problem in problems.items() if problem is not None}

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
        self.health.add(f"upstream:{name}", partial(_is_up, proxy), every=5, failures=1)

    async def _drop(self, name: str) -> None:
        assert isinstance(self.elsewhere, Mounts)
        proxy = self.proxies.pop(name)
        del self._entries[name]
        self.health.remove(f"upstream:{name}")
        await self.elsewhere.remove(proxy)

    async def start(self) -> None:
        await super().start()
        if self._reload and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="dovetail-gateway")

    async def stop(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        await super().stop()

    async def _watch(self) -> None:
        seen = _stamp(self._source)
        while True:
            await asyncio.sleep(FILE_LOOK)
            now = _stamp(self._source)
            if now != seen and now is not None:
                seen = now
                await self.reload()

    async def reload(self) -> None:
        """Take the file as it is now."""
        try:
            entries = {entry.name: entry for entry in config.read(self._source)}
            self._find_tools()
        except (ConfigError, RegistrationError) as error:
            log.error("the old servers stay: %s", error.message)
            return
        for name in [name for name, entry in self._entries.items() if entries.get(name) != entry]:
            await self._drop(name)
        for name, entry in entries.items():
            if name not in self._entries:
                try:
                    proxy = self._connect(entry)
                except ConfigError as error:
                    log.error("%s", error.message)
                    continue
                await proxy.start()
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
    if (auth := config.auth_of(entry)) is not None:
        options["auth"] = auth
    if entry.start_timeout is not None:
        options["timeouts"] = Timeouts(connect=entry.start_timeout)
    if entry.layers:
        options["layers"] = config.layers_of(entry)
    proxy = Proxy(entry.target, entry.name, timeout=entry.timeout, pass_headers=entry.pass_headers, **options)
    if entry.tools is not None or entry.exclude or entry.rename or entry.fix:
        proxy.transform(only=entry.tools, without=entry.exclude, rename=entry.rename, fix=entry.fix)
    if entry.schemas is not None:
        proxy.transform(schemas=entry.schemas)
    if entry.budget is not None:
        proxy.transform(budget=entry.budget)
    return proxy


def _log_stderr(name: str, data: bytes) -> None:
    for line in data.decode("utf-8", "replace").splitlines():
        log.info("%s: %s", name, line.encode("unicode_escape").decode())


async def _is_up(proxy: Proxy) -> bool:
    first = proxy.remote.first
    return proxy.remote.problem is None and (first is None or first.client.connected)


def _stamp(source: Any) -> tuple[int, int] | None:
    try:
        found = os.stat(source)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
