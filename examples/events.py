"""A watched folder: clients hear of new, changed and removed files. `dovetail run events.py --store sqlite:events.db`

With --store a client that was away gets what it has missed.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from msgspec import Struct

from dovetail import Principal, Server
from dovetail.extensions import Events

ROOT = Path(os.environ.get("WATCH_ROOT", ".")).resolve()
SECONDS = float(os.environ.get("WATCH_SECONDS", "1"))


class Change(Struct):
    """A file has changed. Read it with a tool: the event has its name only."""

    path: str
    kind: Literal["new", "changed", "removed"]


class Wanted(Struct):
    pattern: str = "*"


def fits(change: Change, wanted: Wanted, principal: Principal | None) -> bool:
    return fnmatch(change.path, wanted.pattern)


def seen() -> dict[str, int]:
    """The files of the folder, with the times of their last changes."""
    found: dict[str, int] = {}
    for path in ROOT.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                found[path.name] = path.stat().st_mtime_ns
    return found


async def watch(before: dict[str, int]) -> None:
    while True:
        await asyncio.sleep(SECONDS)
        now = await asyncio.to_thread(seen)
        for name in sorted(now.keys() | before.keys()):
            if name not in before:
                await changes.emit(Change(name, "new"))
            elif name not in now:
                await changes.emit(Change(name, "removed"))
            elif now[name] != before[name]:
                await changes.emit(Change(name, "changed"))
        before = now


@contextlib.asynccontextmanager
async def watching(server: Server) -> AsyncGenerator[None]:
    task = asyncio.create_task(watch(await asyncio.to_thread(seen)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


events = Events()
changes = events.add("file.changed", payload=Change, arguments=Wanted, match=fits)
server = Server("files", version="1.0.0", extensions=[events], lifespan=watching)
