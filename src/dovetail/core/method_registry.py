"""Registry of methods: those of the revisions, of the dialect and of the application, filtered by
capabilities.

The tables are rebuilt whenever the capabilities change. Looking up a method or an alias is one dict access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from ..model import ServerCapabilities
from ..model.capabilities import Capabilities
from ..wire.codec import Codec
from ..wire.dialects import Dialect
from ..wire.dialects.aliases import TASK_MANAGEMENT
from ..wire.methods import METHODS, NOT_REMOVED, OWN_EXTENSION, Method, methods_for
from ..wire.revisions import REVISIONS, Revision

Side = Literal["server", "client"]
Table = dict[str, Method]

EITHER: Final = frozenset({"shutdown"})
"""Requests that some implementations also send as notifications."""
_OFFICIAL: Final = frozenset(row.extension for row in METHODS.values() if row.extension is not None)
"""Extensions with methods in the table."""


class MethodRegistry:
    """The methods of one side. ``requests`` and ``notifications`` are what the *peer* may send."""

    def __init__(self, side: Side, revisions: Sequence[Revision], dialect: Dialect) -> None:
        peer: Side = "client" if side == "server" else "server"
        self._all = tuple(REVISIONS)
        self._served = revisions
        self._dialect = dialect
        self.capabilities = Capabilities()
        self.custom: Table = {}
        """Custom methods. After a change call `Admission.set_capabilities`."""
        self.known: dict[str, Table] = {r.name: _methods_of(peer, r, dialect) for r in self._all}
        """By revision: all methods that the peer could send, whether offered or not."""
        self.sendable: dict[str, Table] = {r.name: _methods_of(side, r, dialect) for r in self._all}
        """By revision: all methods that this side may send."""
        self.requests: dict[str, Table] = {}
        """By revision: the offered requests, under all their names."""
        self.notifications: dict[str, Table] = {}
        self.on_change: list[Callable[[], None]] = []
        """Callbacks for changed capabilities: servers in which this one is mounted."""

    def rebuild(self, capabilities: Capabilities) -> None:
        """Recompute the tables for these capabilities."""
        self.capabilities = capabilities
        for revision in self._all:
            known = self.known[revision.name] | {n: row for n, row in self.custom.items() if row.on(revision)}
            rows = {n: row for n, row in known.items() if self._offered(row, revision, capabilities)}
            for alias, name in self._dialect.inbound_methods.items():
                if name in rows and alias not in known:
                    rows[alias] = rows[name]
            served = revision in self._served
            self.requests[revision.name] = {
                name: row for name, row in rows.items() if served and row.kind == "request"
            }
            self.notifications[revision.name] = {
                name: row for name, row in rows.items() if row.kind == "notification" or row.name in EITHER
            }
        for follow in self.on_change:
            follow()

    def extend(self, name: str) -> None:
        """Serve a method that newer revisions have dropped on those revisions too."""
        row = replace(METHODS[name], until=NOT_REMOVED)
        for rows in self.known.values():
            rows.setdefault(name, row)
        self.rebuild(self.capabilities)

    def advertised(self, codec: Codec) -> ServerCapabilities:
        """Return the server capabilities as advertised to clients of this revision and dialect."""
        told = ServerCapabilities(codec.downgrade(ServerCapabilities(self._without_absent(codec.revision))))
        if not codec.revision.modern:
            for name, members in codec.dialect.server_capabilities.items():
                if name in told:
                    told[name] = {**told[name], **members}
            if codec.dialect.older and "tasks/create" in self.requests[codec.revision.name]:
                told["experimental"] = {"features": [TASK_MANAGEMENT], **(told.experimental or {})}
        return told

    def _without_absent(self, revision: Revision) -> Capabilities:
        """Return the capabilities without extensions that have no method on this revision."""
        extensions = self.capabilities.extensions
        if not extensions:
            return self.capabilities
        rows = [row for row in self.custom.values() if row.extension is not None]
        present = {row.extension for row in rows if row.on(revision)}
        if revision.modern:
            absent = {row.extension for row in rows} - present
        else:  # extensions of the table exist from 2026-07-28 on
            absent = ({row.extension for row in rows} | _OFFICIAL) - present
        if absent.isdisjoint(extensions):
            return self.capabilities
        left = {name: settings for name, settings in extensions.items() if name not in absent}
        return Capabilities({**self.capabilities, "extensions": left})

    def _offered(self, row: Method, revision: Revision, capabilities: Capabilities) -> bool:
        if row.kind == "notification":
            return True
        need = row.capability if row.extension == OWN_EXTENSION else row.needs(revision)
        return need is None or capabilities.has(need)


def _methods_of(speaker: Side, revision: Revision, dialect: Dialect) -> Table:
    """Return the methods that one side may send in this revision and dialect."""
    rows = methods_for(revision, speaker)
    if not revision.modern:
        rows |= {name: METHODS[name] for name in dialect.older}
    if speaker == "client":
        if "tasks/get" not in rows:
            del rows["tasks/create"]  # no method of this revision returns its result
        rows |= {name: METHODS[name] for name in dialect.methods}
        if dialect.client_may_sample and not revision.modern:
            rows["sampling/createMessage"] = METHODS["sampling/createMessage"]
    return rows
