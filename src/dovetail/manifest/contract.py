"""A contract: the lock file that a client holds a server to.

``Client(target, contract="mcp.lock")`` looks at the tools before every call and refuses one that is not what was
locked: changed in what it takes, gives, says of itself or is described as, renamed, or new. Nothing has been sent
then. That is
what protects a model that was told what a tool does from a server that has thought of something else since.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from ..errors import DovetailError
from ..model import ListToolsResult, Tool
from ..wire.codec import Codec
from .diff import Change, Kind, changes_of, renamed
from .lock import Manifest, read, written

Look = Callable[[], Awaitable[tuple[list[Tool], Codec]]]
"""What the server has now, and how its revision writes it."""


class ContractError(DovetailError):
    """A tool is not what the contract says; nothing was sent. Look at ``changes``, and lock anew if they are fine."""

    kind = "contract_broken"

    def __init__(self, tool: str, text: str, changes: Collection[Change] = ()) -> None:
        super().__init__(f"the tool {tool!r} {text}")
        self.tool = tool
        self.changes = list(changes)


class Contract:
    """What a client accepts: the manifest in a lock file, and ``allow``ed kinds of changes (none by default).

    ``check_interval`` is the number of seconds between two checks of the tools; 0 checks before every call.

    Raises:
        LockError: the file is no lock file.
        OSError: it cannot be read.
    """

    def __init__(
        self,
        lock: str | os.PathLike[str] | Manifest,
        *,
        allow: Collection[Kind] = (),
        check_interval: float = 0.0,
    ) -> None:
        self.manifest = lock if isinstance(lock, Manifest) else read(lock)
        self.allow = frozenset(allow)
        self.check_interval = check_interval
        self._seen: tuple[list[Tool], Codec] | None = None
        self._until = 0.0

    async def check(self, name: str, look: Look, *, versioned: bool = False) -> None:
        """Refuse ``name`` unless it is what was locked, as far as the revision that is spoken shows it.

        ``versioned``: a version of it is asked for; a server lists the newest alone, so that others were never locked.

        Raises:
            ContractError: it is not.
        """
        if versioned:
            raise ContractError(name, "is asked for in a version of which the contract says nothing")
        now = time.monotonic()
        if self._seen is None or now >= self._until:
            self._seen = await look()
            self._until = now + self.check_interval
        (tools, codec), locked = self._seen, self.manifest.tools
        tool = next((tool for tool in reversed(tools) if tool.name == name), None)
        if tool is None or name not in locked:
            raise await asyncio.to_thread(
                self._absent, name, tools, codec
            )  # every tool is looked at for that
        expected, shown = _shown(msgspec.convert(locked[name], Tool), codec), _shown(tool, codec)
        if expected != shown:
            found = list(changes_of("tool", name, expected, shown))
            if not found or any(change.kind not in self.allow for change in found):
                texts = "; ".join(f"{change.path} {change.text}".strip() for change in found[:3])
                raise ContractError(
                    name, f"has changed since it was locked: {texts or 'what it says'}", found
                )

    def _absent(self, name: str, tools: list[Tool], codec: Codec) -> ContractError:
        seen = {tool.name: _shown(tool, codec) for tool in tools}
        others = renamed(self._as_shown(codec), seen)
        if name not in self.manifest.tools:
            before = [old for old, new in others.items() if new == name]
            return ContractError(name, f"is {before[0]!r} renamed" if before else "is not in the contract")
        after = others.get(name)
        return ContractError(name, f"was renamed to {after!r}" if after else "is gone from the server")

    def forget(self) -> None:
        """The server says that its tools are other ones, or is another one itself."""
        self._seen = None

    def _as_shown(self, codec: Codec) -> dict[str, dict[str, Any]]:
        entries = self.manifest.tools.items()
        return {name: _shown(msgspec.convert(entry, Tool), codec) for name, entry in entries}


def contract_of(value: Any) -> Contract:
    """What ``contract=`` means: a `Contract`, or the file of one."""
    return value if isinstance(value, Contract) else Contract(value)


def _shown(tool: Tool, codec: Codec) -> dict[str, Any]:
    """A tool as the revision writes it: an older one knows fewer members, and their absence is no change."""
    listed: Any = msgspec.json.decode(codec.prepare(ListToolsResult([tool])))
    found = msgspec.convert(listed["tools"][0], Tool)
    return written(found)
