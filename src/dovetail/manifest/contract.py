"""A contract: a client compares the tools of the server with a lock file.

``Client(target, contract="mcp.lock")`` checks the tools before every call. It refuses a tool whose schemas,
annotations or description have changed, and a renamed or new tool, before anything is sent. This protects a model from
a server that changes a tool after it was approved.
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
from .diff import Kind, ManifestChange, changes_of, renamed
from .lock import Manifest, read, written

ToolLister = Callable[[], Awaitable[tuple[list[Tool], Codec]]]
"""Returns the present tools of the server, and its codec."""


class ContractError(DovetailError):
    """A tool differs from the lock file; nothing was sent. To accept ``changes``, write the lock file again."""

    kind = "contract_broken"

    def __init__(self, tool: str, text: str, changes: Collection[ManifestChange] = ()) -> None:
        super().__init__(f"the tool {tool!r} {text}")
        self.tool = tool
        self.changes = list(changes)


class Contract:
    """The manifest in a lock file, and the ``allow``ed kinds of changes (none by default).

    ``check_interval`` is the number of seconds between two checks of the tools; 0 checks before every call.

    Raises:
        LockError: the file is not a lock file.
        OSError: the file cannot be read.
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

    async def check(self, name: str, look: ToolLister, *, versioned: bool = False) -> None:
        """Refuse ``name`` if it differs from the lock file in members that the revision has.

        ``versioned``: the call names a version. Servers list only the newest version, so others are not locked.

        Raises:
            ContractError: the tool differs.
        """
        if versioned:
            raise ContractError(name, "was called with a version that is not in the contract")
        now = time.monotonic()
        if self._seen is None or now >= self._until:
            self._seen = await look()
            self._until = now + self.check_interval
        (tools, codec), locked = self._seen, self.manifest.tools
        tool = next((tool for tool in reversed(tools) if tool.name == name), None)
        if tool is None or name not in locked:
            raise await asyncio.to_thread(
                self._absent, name, tools, codec
            )  # needs a comparison with all tools
        expected, shown = _shown(msgspec.convert(locked[name], Tool), codec), _shown(tool, codec)
        if expected != shown:
            found = list(changes_of("tool", name, expected, shown))
            if not found or any(change.kind not in self.allow for change in found):
                texts = "; ".join(f"{change.path} {change.text}".strip() for change in found[:3])
                raise ContractError(
                    name, f"has changed since it was locked: {texts or 'its description'}", found
                )

    def _absent(self, name: str, tools: list[Tool], codec: Codec) -> ContractError:
        seen = {tool.name: _shown(tool, codec) for tool in tools}
        others = renamed(self._as_shown(codec), seen)
        if name not in self.manifest.tools:
            before = [old for old, new in others.items() if new == name]
            return ContractError(name, f"is {before[0]!r} renamed" if before else "is not in the contract")
        after = others.get(name)
        return ContractError(name, f"was renamed to {after!r}" if after else "is no longer on the server")

    def forget(self) -> None:
        """Check again after a notification of the server, or a new connection."""
        self._seen = None

    def _as_shown(self, codec: Codec) -> dict[str, dict[str, Any]]:
        entries = self.manifest.tools.items()
        return {name: _shown(msgspec.convert(entry, Tool), codec) for name, entry in entries}


def contract_of(value: Any) -> Contract:
    """Return the `Contract` of ``contract=``, which can be a path."""
    return value if isinstance(value, Contract) else Contract(value)


def _shown(tool: Tool, codec: Codec) -> dict[str, Any]:
    """Return a tool in the form of the revision; members that older revisions lack are not compared."""
    listed: Any = msgspec.json.decode(codec.prepare(ListToolsResult([tool])))
    found = msgspec.convert(listed["tools"][0], Tool)
    return written(found)
