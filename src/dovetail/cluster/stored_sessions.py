"""The stored record of a legacy session, and the merge of concurrent changes."""

from __future__ import annotations

import hashlib

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.channel import Session
from ..stores.versioned_records import VersionedRecords


class StoredSession(Struct, frozen=True, omit_defaults=True):
    """The stored state of a session, without its id."""

    until: float
    phase: str
    queue: int = 0
    log_level: str | None = None
    subscriptions: tuple[str, ...] = ()
    tasks: dict[str, tuple[float | None, str | None]] = field(
        default_factory=dict[str, tuple[float | None, str | None]]
    )
    listener: str | None = None
    """The process that has the general stream."""
    version: int = 0
    """Of two records, the one with the greater version is newer."""
    places: tuple[str, ...] = ()


records = VersionedRecords(StoredSession)


def storage_name(id: str) -> str:
    """Return the storage name of a session: a hash that cannot be used as a session id."""
    return hashlib.blake2b(id.encode(), digest_size=16).hexdigest()


def with_session_state(before: StoredSession, session: Session) -> StoredSession:
    """Return ``before`` with the current state of ``session``."""
    return replace(
        before,
        phase=session.phase,
        queue=session.queue,
        log_level=session.log_level,
        subscriptions=tuple(session.subscriptions or ()),
        tasks=dict(session.tasks or {}),
    )


def merged(
    kept: StoredSession, before: StoredSession, wish: StoredSession, listener: str | None
) -> StoredSession:
    """Merge the changes from ``before`` to ``wish`` into ``kept``. ``listener`` replaces the stream owner
    unless None.
    """
    old, now = set(before.subscriptions), set(wish.subscriptions)
    tasks = {id: note for id, note in kept.tasks.items() if id in wish.tasks or id not in before.tasks}
    tasks |= {id: note for id, note in wish.tasks.items() if id not in before.tasks}
    return replace(
        kept,
        phase=kept.phase if wish.phase == before.phase else wish.phase,
        queue=kept.queue if wish.queue == before.queue else wish.queue,
        log_level=kept.log_level if wish.log_level == before.log_level else wish.log_level,
        subscriptions=tuple(sorted((set(kept.subscriptions) | (now - old)) - (old - now))),
        tasks=tasks,
        listener=kept.listener if listener is None else listener,
        version=kept.version + 1,
    )
