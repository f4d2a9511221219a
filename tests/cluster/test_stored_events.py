"""When the events of legacy sessions are written to the store: results at once, notifications after they were
sent.
"""

import asyncio
import time

from dovetail.cluster.stored_events import StoredEvents
from dovetail.settings import Limits
from dovetail.stores import MemoryStore
from dovetail.transports.http.server.sse_event_log import LoggedStream, ReplayBudget, SseEventLog
from tests.support.aio import run
from tests.support.waiting import until


class Appended(MemoryStore):
    """Count the entries added to logs."""

    count = 0

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        self.count += 1
        return await super().append(folder, value, keep=keep, ttl=ttl)


class Session:
    """One session with its event log."""

    tag = "worker"

    def __init__(self, store: MemoryStore) -> None:
        self.events = StoredEvents(store, Limits(), time.time)
        self.log = SseEventLog(Limits(), ReplayBudget(1 << 20), "general", self)

    def keep(self, stream: LoggedStream, event: bytes | None) -> None:
        self.events.append("session", stream, event)

    async def numbers(self, stream: LoggedStream) -> list[int]:
        return [entry.number for entry in await self.events.read("session", stream.name)]


@run
async def test_notifications_wait_for_all_subscribers_and_are_written_together() -> None:
    store = Appended()
    session = Session(store)
    working = asyncio.all_tasks()
    for _ in range(3):
        session.log.general.write(b"{}")
    assert asyncio.all_tasks() == working, "telling comes first"
    await until(lambda: store.count)
    await session.events.close()
    assert await session.numbers(session.log.general) == [1, 2, 3]
    assert store.count == 1


@run
async def test_the_events_of_a_call_are_written_together_with_earlier_notifications() -> None:
    session = Session(MemoryStore())
    working = asyncio.all_tasks()
    session.log.general.write(b"{}")
    call = session.log.open(1)
    call.write(b"{}")
    assert len(asyncio.all_tasks() - working) == 1, "a result is on its way to the store"
    session.log.general.write(b"{}")
    await session.events.close()
    assert await session.numbers(session.log.general) == [1, 2]
    assert await session.numbers(call) == [1]


@run
async def test_no_message_is_lost_at_shutdown() -> None:
    session = Session(MemoryStore())
    session.log.general.write(b"{}")
    await session.events.close()
    assert await session.numbers(session.log.general) == [1]


@run
async def test_what_is_kept_of_a_session_has_a_bound_in_bytes() -> None:
    store = MemoryStore()
    session = Session(store)
    most = Limits().max_replay_bytes_per_session
    for _ in range(20):
        call = session.log.open(1)
        call.write(b'{"a":"%b"}' % (b"x" * (most // 4)))
        await session.events.close()
    kept = await store.scan("events/session")
    assert 2 <= len(kept) <= 4
    assert sum(len(value) for _, value in kept) <= most
    # An event larger than the total limit is not stored: a client that resumes from it learns that it is lost.
    session.log.open(2).write(b'{"a":"%b"}' % (b"x" * most))
    await session.events.close()
    assert await store.scan("events/session") == kept
