"""`Visibility`: components that are hidden from all callers, or shown and hidden per caller.

A rule applies to the legacy session it was made in; on 2026-07-28, without sessions, to the principal. Only
they are notified of the changed list. Hidden components cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from ..core.channel import Call
from ..core.principal import key_of
from ..core.subscription_hub import LIST_KINDS, PublishedChange
from ..errors import StateError
from ..server.handles import SESSION_STATE_SECONDS, owner, session_folder
from ..server.server import Server
from ..stores.base import Store
from ..stores.versioned_records import VersionedRecords
from .naming import LISTINGS_KEPT
from .selectors import Selection, Traits, may_mean

RULES_KEPT: Final = 100
"""Rules of one session or principal."""
RULES_LENGTH: Final = 10_000
"""Characters of all rules of one session or principal."""


class VisibilityRule(Struct, array_like=True, frozen=True):
    """A stored rule: show or hide the selected components."""

    show: bool
    words: tuple[str, ...]


Rules = tuple[tuple[bool, Selection], ...]

_records = VersionedRecords(tuple[VisibilityRule, ...])


class Visibility:
    """The visibility rules of one server. The last matching rule decides."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.store: Store | None = None
        """Where rules are kept, if not with the rest: with that of the server this one is mounted in."""
        self._place = f"visible/{sha256(server.name.encode()).hexdigest()[:16]}-"
        self._always: tuple[VisibilityRule, ...] = ()
        self._read: dict[bytes, Rules] = {}

    def hide(self, words: Iterable[str]) -> None:
        """Hide components by default."""
        self._always += (VisibilityRule(False, tuple(Selection(words).words)),)
        self._read.clear()

    async def rules(self, call: Call) -> Rules:
        """Return the rules for the caller; the same object until something changes."""
        key = self._key(call, new=False)
        data = None if key is None else await self._kept.get(key)
        found = self._read.get(data or b"")
        if found is None:
            kept = () if data is None else _records.decode(data)
            found = tuple((rule.show, Selection(rule.words)) for rule in (*self._always, *kept))
            if len(self._read) >= LISTINGS_KEPT:
                self._read.clear()
            self._read[data or b""] = found
        return found

    async def change(self, call: Call, words: Sequence[str], *, show: bool) -> None:
        """Show or hide components for the session or principal of ``call``.

        Raises:
            StateError: there is neither a session nor a principal, or there are too many rules.
        """
        key = self._key(call, new=True)
        if key is None:
            raise StateError("visibility needs a session or a principal, and this call has neither")
        rule = VisibilityRule(show, tuple(sorted(Selection(words).words)))
        data = await self._kept.get(key)
        kept = () if data is None else _records.decode(data)
        rules = (*(one for one in kept if one.words != rule.words), rule)
        length = sum(len(word) for one in rules for word in one.words)
        if len(rules) > RULES_KEPT or length > RULES_LENGTH:
            raise StateError(
                f"at most {RULES_KEPT} visibility rules of {RULES_LENGTH} characters per session or principal"
            )
        lifetime = None if call.session is None else SESSION_STATE_SECONDS
        await self._kept.put(key, _records.encode(rules), ttl=lifetime)
        session = None if call.session is None else call.session.id
        principal = key_of(call.principal) if session is None else None
        for kind in LIST_KINDS:
            if kind in self._server.dispatcher.capabilities and may_mean(rule.words, kind):
                self._server.subscriptions.hub.publish(
                    PublishedChange(list=kind, session=session, principal=principal)
                )

    @property
    def _kept(self) -> Store:
        return self._server.lifecycle.state_store if self.store is None else self.store

    def _key(self, call: Call, *, new: bool) -> str | None:
        if call.session is not None:
            return None if call.session.id is None and not new else self._place + session_folder(call.session)
        return None if call.principal is None else self._place + owner(call.principal)


def admits(rules: Rules, name: str, traits: Traits) -> bool:
    """Return whether a tool is visible: the last matching rule decides."""
    for show, selection in reversed(rules):
        if selection.has(name, traits):
            return show
    return True
