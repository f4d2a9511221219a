"""Which methods exist here: what the revisions know, what the dialect and the author add, what is offered.

The tables are made once and again whenever the capabilities change, so that looking up a method is one dict
access and an alias costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from ..model import ServerCapabilities
from ..model.capabilities import Capabilities
from ..wire.codec import Codec
from ..wire.dialects import Dialect
from ..wire.dialects.aliases import TASK_MANAGEMENT
from ..wire.methods import METHODS, OWN_EXTENSION, Method, methods_for
from ..wire.revisions import REVISIONS, Revision

Side = Literal["server", "client"]
Table = dict[str, Method]

EITHER: Final = frozenset({"shutdown"})
"""Requests that other projects also send as notifications."""
_OFFICIAL: Final = frozenset(row.extension for row in METHODS.values() if row.extension is not None)
"""Extensions with methods in the table."""


class Offers:
    """The methods around one side: ``requests`` and ``notifications`` are what the *peer* may say."""

    def __init__(self, side: Side, revisions: Sequence[Revision], dialect: Dialect) -> None:
        peer: Side = "client" if side == "server" else "server"
        self._all = tuple(REVISIONS)
        self._served = revisions
        self._dialect = dialect
        self.capabilities = Capabilities()
        self.added: Table = {}
        """Methods of the author's own. After a change: `Admission.offer`."""
        self.known: dict[str, Table] = {r.name: _speech(peer, r, dialect) for r in self._all}
        """By revision: everything the peer could say of the protocol, offered or not."""
        self.sayable: dict[str, Table] = {r.name: _speech(side, r, dialect) for r in self._all}
        """By revision: everything we may say."""
        self.requests: dict[str, Table] = {}
        """By revision: the requests that exist and are offered, under all their names."""
        self.notifications: dict[str, Table] = {}
        self.followers: list[Callable[[], None]] = []
        """Told that something else is offered: servers this one is mounted in."""

    def rebuild(self, capabilities: Capabilities) -> None:
        """Recompute the tables for these capabilities."""
        self.capabilities = capabilities
        for revision in self._all:
            known = self.known[revision.name] | {n: row for n, row in self.added.items() if row.on(revision)}
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
        for follow in self.followers:
            follow()

    def told(self, codec: Codec) -> ServerCapabilities:
        """What a server offers, as clients of this revision and dialect are told."""
        told = ServerCapabilities(codec.edit(ServerCapabilities(self._without_absent(codec.revision))))
        if not codec.revision.modern:
            for name, members in codec.dialect.server_capabilities.items():
                if name in told:
                    told[name] = {**told[name], **members}
            if codec.dialect.older and "tasks/create" in self.requests[codec.revision.name]:
                told["experimental"] = {"features": [TASK_MANAGEMENT], **(told.experimental or {})}
        return told

    def _without_absent(self, revision: Revision) -> Capabilities:
        """The capabilities without the extensions that have methods, but none on this revision."""
        extensions = self.capabilities.extensions
        if not extensions:
            return self.capabilities
        rows = [row for row in self.added.values() if row.extension is not None]
        present = {row.extension for row in rows if row.on(revision)}
        if revision.modern:
            absent = {row.extension for row in rows} - present
        else:  # what the table names as an extension is one from 2026-07-28 on
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


def _speech(speaker: Side, revision: Revision, dialect: Dialect) -> Table:
    """What the revision and the dialect let one side say."""
    rows = methods_for(revision, speaker)
    if not revision.modern:
        rows |= {name: METHODS[name] for name in dialect.older}
    if speaker == "client":
        if "tasks/get" not in rows:
            del rows["tasks/create"]  # nobody could ask for what it makes
        rows |= {name: METHODS[name] for name in dialect.methods}
        if dialect.client_may_sample and not revision.modern:
            rows["sampling/createMessage"] = METHODS["sampling/createMessage"]
    return rows
