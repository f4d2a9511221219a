"""An `EventStore` of the program: told of every event of a legacy session, asked for those a client has missed.

Theirs says what the id of an event is, and takes its time; ours numbers events as they are written. So ids on the wire
are ours, and which of theirs is which is remembered here, for as many as `MOST`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from ....core.channel import Session
from ....stores.bounds import EVENTS_WAITING
from ....transports.http.server.event_log import EventLog, LoggedStream, position
from ....wire.sse import EventParser, encode_event
from ...serving import log
from ..types import JSONRPCMessage
from .streamable_http import EventMessage

MOST: Final = 10_000
"""Events whose ids are remembered; what came before is resumed from our own log, as far as that has it."""


@runtime_checkable
class Told(Protocol):
    async def store_event(self, stream_id: str, message: Any) -> str: ...

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None: ...


class _Event(Struct, frozen=True):
    """One event on its way to the store; without data, the beginning of its stream."""

    session: str | None
    stream: str
    id: str
    data: bytes | None


class _Journal:
    """Tells the store of the events of one session."""

    def __init__(self, told: ToldEvents, session: Session) -> None:
        self.tag = secrets.token_hex(4)
        self._told = told
        self._session = session

    def keep(self, stream: LoggedStream, event: bytes | None) -> None:
        if event is None:
            return
        if stream.written == 1 and self._session.revision.primed_streams:
            self._told.tell(_Event(self._session.id, stream.name, f"{stream.name}.0", None))
        data = next(iter(EventParser(len(event) + 1).feed(event))).data
        self._told.tell(_Event(self._session.id, stream.name, f"{stream.name}.{stream.written}", data))


class ToldEvents:
    """The `EventHistory` of a server whose program has an event store.

    Raises:
        TypeError: it is none.
    """

    def __init__(self, store: Any) -> None:
        if not isinstance(store, Told):
            raise TypeError(
                f"event_store={type(store).__name__} has no store_event and replay_events_after to ask"
            )
        self._store = store
        self._waiting: deque[_Event] = deque()
        self._size = 0
        self._writing: asyncio.Task[None] | None = None
        self._theirs: OrderedDict[str, tuple[str | None, str]] = OrderedDict()
        """By our id: whose session it is, and their id."""
        self._ours: dict[str, str] = {}

    def journal(self, session: Session) -> _Journal:
        return _Journal(self, session)

    def tell(self, event: _Event) -> None:
        """Have the store told, in order; nobody who writes waits for it."""
        size = len(event.data or b"")
        if self._size + size > EVENTS_WAITING:
            log.warning("event_store= is too slow: an event was not given to it")
            return
        self._size += size
        self._waiting.append(event)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="dovetail-events")

    async def _write(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            self._size -= len(event.data or b"")
            message = None if event.data is None else JSONRPCMessage.model_validate_json(event.data)
            try:
                id = await self._store.store_event(event.stream, message)
            except Exception:  # noqa: BLE001  theirs: whatever it is, the client is to get its answer
                log.warning("event_store= failed to keep an event", exc_info=True)
                continue
            self._theirs[event.id] = event.session, id
            self._ours[id] = event.id
            if len(self._theirs) > MOST:
                _, (_, old) = self._theirs.popitem(last=False)
                self._ours.pop(old, None)

    async def missed(
        self, session: Session, log: EventLog, last: str
    ) -> tuple[LoggedStream, list[bytes]] | None:
        """What the store has after an event, and what has been written since it was asked."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        owner, known = self._theirs.get(last, (None, None))
        if known is None or owner != session.id:
            return log.find(last)
        sent: list[tuple[str | None, bytes]] = []

        async def send(event: EventMessage) -> None:
            data = event.message.model_dump_json(by_alias=True, exclude_none=True).encode()
            sent.append((self._ours.get(event.event_id or ""), data))

        if await self._store.replay_events_after(known, send) is None:
            return None
        events = [encode_event(data, id=id) for id, data in sent]
        newest = next((id for id, _ in reversed(sent) if id is not None), last)
        rest = log.find(newest)
        if rest is not None:
            return rest[0], events + rest[1]
        # Ours has forgotten the stream. If it was a call's, that is over; the general one goes on under its new name.
        name, number = position(last) or ("", 0)
        if name.endswith("-0"):
            return log.general, events
        return LoggedStream(log, -1, name, written=number, over=True), events
