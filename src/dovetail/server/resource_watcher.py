"""Watched sources: notifies subscribers with ``resources/updated`` when a source has changed.

One loop checks all sources that are due, at most ten times per second, and reports all changes of one pass together:
however often a source changes, its subscribers are notified once per pass. Each process watches for its own
subscribers, so changes are not sent to other processes. Files are checked in a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ..core.subscription_hub import PublishedChange, SubscriptionHub
from ..drivers.heartbeat import repeat
from .subscriptions import WATCH_SECONDS

WATCHED_FILES: Final = 10_000
"""The maximum of watched files in one folder."""

log = logging.getLogger("dovetail.server")

_UNKNOWN: Final = object()

Source = str | os.PathLike[str] | Callable[[], Any]


class Watch:
    """A watched source: a file, a folder, or a function whose value is compared with the previous one."""

    def __init__(self, uri: str, source: Source, interval: float) -> None:
        self.uri = uri
        self.interval = max(interval, WATCH_SECONDS)
        self.look: Callable[[], Any] = source if callable(source) else lambda: _seen(Path(source))
        self.due = 0.0
        self.looking: asyncio.Task[None] | None = None
        self._last: Any = _UNKNOWN

    def differences(self, seen: Any) -> set[str]:
        """The changes since the previous check; the first check only records the state."""
        before, self._last = self._last, seen
        if before is _UNKNOWN or before == seen:
            return set()
        if not (isinstance(before, _Folder) and isinstance(seen, _Folder)):
            return {self.uri}
        # Subscribers of the folder are also notified of changes to its files.
        names = {name for name in before.keys() | seen.keys() if before.get(name) != seen.get(name)}
        return {f"{self.uri.rstrip('/')}/{quote(name)}" for name in names}


class _Folder(dict[str, tuple[int, ...] | None]):
    """The state of the files in a folder."""


class ResourceWatcher:
    """All watched sources of one server."""

    def __init__(self, hub: SubscriptionHub, run: Callable[..., Awaitable[Any]]) -> None:
        self._hub, self._run_function = hub, run
        self._watches: dict[Watch, None] = {}
        self._changed: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, uri: str, source: Source, interval: float) -> Callable[[], None]:
        watch = Watch(uri, source, interval)
        self._watches[watch] = None
        return lambda: self._remove(watch)

    def _remove(self, watch: Watch) -> None:
        self._watches.pop(watch, None)
        if watch.looking is not None:
            watch.looking.cancel()

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="dovetail-watches")

    async def stop(self) -> None:
        task, self._task = self._task, None
        left = [one for one in (task, *(watch.looking for watch in self._watches)) if one is not None]
        for one in left:
            one.cancel()
        if left:
            await asyncio.wait(left)

    async def _run(self) -> None:
        self._look_due()
        await repeat(WATCH_SECONDS, self._report)

    def _look_due(self) -> None:
        loop = asyncio.get_running_loop()
        for watch in tuple(self._watches):
            if watch.due <= loop.time() and (watch.looking is None or watch.looking.done()):
                watch.due = loop.time() + watch.interval
                watch.looking = loop.create_task(self._look(watch))

    async def _report(self) -> None:
        changed, self._changed = self._changed, set()
        for uri in sorted(changed):
            self._hub.notify_local(PublishedChange(uri=uri))
        self._look_due()

    async def _look(self, watch: Watch) -> None:
        try:
            self._changed |= watch.differences(await self._run_function(watch.look))
        except Exception:
            log.exception("the source of %s could not be checked", watch.uri)
            watch.due += watch.interval * 10  # check less often, so that the log is not flooded


def _seen(path: Path) -> Any:
    """The state of a file or folder to compare; None if it does not exist."""
    if not path.is_dir():
        return _stamp(path)
    with os.scandir(path) as entries:
        return _Folder((entry.name, _stamp(entry)) for entry in islice(entries, WATCHED_FILES))


def _stamp(file: Path | os.DirEntry[str]) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
