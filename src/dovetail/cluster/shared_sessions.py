"""Legacy sessions that every worker process can serve: shared state, message routing and stream takeover.

A session id is sealed and can be opened in every process. State that changes after `initialize` is a record
in the store. A process writes the record before it answers the client, and then notifies the other processes.
A missing or unreadable record means that the session does not exist.

Calls and their streams stay in the process that runs them. The ids of server-to-client requests and of events
contain the process id, so responses and reconnects are routed from any process. The general stream belongs to
the process that received the last GET; other processes forward their messages to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..core.channel import Cancel, Event, PeerResponse, Violation
from ..core.endpoint import CANCELLED
from ..core.principal import Principal
from ..drivers.shielding import run_to_completion
from ..errors import DovetailError, ProtocolError, Refusal, RemoteProtocolError
from ..settings import HttpOptions
from ..stores.base import GAP, Store, StoreError, StoreUnreadable
from ..stores.quotas import BYTES_PER_SLOT, Quota, owner_of_slots, quota_owner, release
from ..transports.http.server.http_exchange import HttpService
from ..transports.http.server.session_sharing import Found, SessionSharing
from ..transports.http.server.sessions import LiveSession, Sessions, unknown_session
from ..transports.http.server.sse_event_log import LoggedStream, SseEventLog
from ..wire.frames import Frame, decode
from .message_bus import (
    Acknowledgement,
    BusMessage,
    CallCancelled,
    GeneralStreamState,
    MessageBus,
    ResponseReceived,
    SessionChanged,
    SessionEnded,
    StreamMessage,
    StreamTakeover,
    StreamVacated,
)
from .remote_streams import RemoteStreams
from .stored_events import StoredEvents
from .stored_sessions import StoredSession, merged, records, storage_name, with_session_state

SESSION_WRITE_ATTEMPTS: Final = 16
"""Attempts to write a session that other processes write at the same time."""
MAX_UNSTORED_EVENTS: Final = 100_000
"""Events of one stream that a client may have received, but that were not stored when the process was killed."""
STORED_SESSIONS_FACTOR_PER_PRINCIPAL: Final = 10
"""A store keeps this many times the sessions of one principal that one process keeps in memory."""
STORED_SESSIONS_FACTOR: Final = 100
"""A store keeps this many times the sessions that one process keeps in memory.

Of one address without a principal it keeps twice as many as one process."""


log = logging.getLogger("dovetail.http")


class _SessionLog:
    """The event log of one session, backed by the store."""

    __slots__ = ("_name", "_shared")

    def __init__(self, shared: SharedSessions, name: str) -> None:
        self._shared = shared
        self._name = name

    @property
    def tag(self) -> str:
        return self._shared.bus.worker_id

    def keep(self, stream: LoggedStream, event: bytes | None) -> None:
        self._shared.events.append(self._name, stream, event)


class SharedSessions(SessionSharing):
    """The sessions of one app, shared by all processes of its server."""

    active = True

    def __init__(self, store: Store, service: HttpService, options: HttpOptions, sessions: Sessions) -> None:
        super().__init__(service, sessions)
        self.bus = self.message_bus = MessageBus(store, service.name)
        self.next_id = self.bus.next_id
        self.events = StoredEvents(store, service.limits, service.clock)
        self._store = store
        self._options = options
        self._clock = service.clock
        self._live_sessions: dict[str, LiveSession] = {}
        """Live sessions by storage name."""
        self._recovering: set[str] = set()
        """Sessions that are notified of changes again only after recent ones were repeated."""
        self._acquiring: dict[str, tuple[asyncio.Future[None], list[bytes]]] = {}
        """General streams that are being taken over, with the messages that arrived meanwhile."""
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._stop_gap_listener: Callable[[], None] = lambda: None
        self.remote_streams = RemoteStreams(self.bus, self.events, self._live_sessions.get)
        self.bus.handlers |= {
            ResponseReceived: self._response_received,
            CallCancelled: self._call_cancelled,
            SessionChanged: self._session_changed,
            SessionEnded: self._session_ended,
            StreamMessage: self._stream_message,
            StreamTakeover: self._stream_takeover,
            StreamVacated: self._stream_vacated,
        }

    async def start(self) -> None:
        self._stop_gap_listener = self._store.subscribe(GAP, self._on_gap)
        await self.bus.start()

    async def stop(self) -> None:
        """Write pending events and deregister this process."""
        self._stop_gap_listener()
        if self._background_tasks:
            await asyncio.wait(self._background_tasks)
        await self.events.close()
        await self.bus.stop()
        log.debug("sessions stored")

    # --- opening and ending ---------------------------------------------------------------------------------

    def added(self, live: LiveSession) -> None:
        """Register a session that is now in memory."""
        self._live_sessions[storage_name(live.id)] = live
        live.session.save = partial(self.save, live)

    def removed(self, live: LiveSession) -> None:
        self._live_sessions.pop(storage_name(live.id), None)

    async def open(self, live: LiveSession, scope: Mapping[str, Any]) -> None:
        """Store a new session. Raises: StoreError."""
        lifetime, who = self._options.session_lifetime, live.session.principal
        places: tuple[str, ...] = ()
        try:
            places = await self._quota(who).acquire(quota_owner(who, scope), lifetime)
            live.record = StoredSession(self._clock() + lifetime, live.session.phase, places=places)
            await self._store.put(_key(live), records.encode(live.record), ttl=lifetime)
        except BaseException:
            self._sessions.leave(live)  # the client never received its id
            await release(self._store, places)
            raise

    def _quota(self, who: Principal | None) -> Quota:
        limits = self._service.limits
        own = (
            2 * limits.max_sessions
            if who is None
            else STORED_SESSIONS_FACTOR_PER_PRINCIPAL * limits.max_sessions_per_principal
        )
        return Quota(self._store, "session", own=own, total=STORED_SESSIONS_FACTOR * limits.max_sessions)

    def may_restore(self, id: str) -> bool:
        """Whether `find` must look for the session in the store."""
        return id not in self._sessions

    def reopen(self, id: str, principal: Principal | None) -> None:
        """The session is in the store."""

    async def find(self, id: str, principal: Principal | None) -> LiveSession | DovetailError:
        """Return the session with this id, from memory or from the store, or the error why it does not exist."""
        sessions = self._sessions
        if id in sessions:
            return sessions.find(id, principal)
        try:
            session = sessions.unseal(id, principal)
            data = None if session is None else await self._store.get(f"session/{storage_name(id)}/state")
            if session is None or data is None:
                return unknown_session()
            stored = records.decode(data)
            if id in sessions:  # another request restored it first
                return sessions.find(id, principal)
            session.phase, session.queue, session.log_level = stored.phase, stored.queue, stored.log_level
            session.subscriptions = set(stored.subscriptions) or None
            session.tasks = dict(stored.tasks) or None
            live = sessions.enter(id, session)
            self._apply(live, stored)
        except StoreUnreadable:
            return unknown_session()
        except (ProtocolError, Refusal, StoreError) as error:
            return error
        return live

    async def save(self, live: LiveSession, listener: str | None = None) -> None:
        """Write the local changes, merged with those of other processes, and notify the other processes.

        Raises:
            StoreError: nothing was written; the session is unchanged.
            ProtocolError: the session has ended.
        """
        # Capture the changes now: applying a concurrent write below overwrites the session.
        await run_to_completion(
            self._save(live, live.record, with_session_state(live.record, live.session), listener)
        )

    async def save_phase(self, live: LiveSession) -> None:
        """Store the phase of a session if it has changed. Raises: StoreError, ProtocolError."""
        if live.record.phase != live.session.phase != "closed":
            await self.save(live)

    async def _save(
        self, live: LiveSession, before: StoredSession, wish: StoredSession, listener: str | None
    ) -> None:
        stored, data = before, records.encode(before)
        try:
            for _ in range(SESSION_WRITE_ATTEMPTS):
                new = merged(stored, before, wish, listener)
                ttl = max(new.until - self._clock(), 1.0)
                new = await self._resize_quota(live, new, ttl)
                if await self._store.put(_key(live), records.encode(new), expect=data, ttl=ttl):
                    break
                await release(self._store, set(new.places).difference(stored.places))
                # Compare the exact bytes: a newer version may have written members unknown here.
                data = await self._read(live)
                stored = records.decode(data)
            else:
                raise Refusal(
                    1008, message="too many concurrent changes of this session; try again", retry_after=1
                )
        except (Refusal, StoreError):
            self._apply(live, live.record, anyway=True)  # retains concurrent changes
            raise
        await release(self._store, set(stored.places).difference(new.places))
        self._apply(live, new)
        self.bus.send(None, SessionChanged(storage_name(live.id), records.encode(new)))

    async def _resize_quota(self, live: LiveSession, new: StoredSession, ttl: float) -> StoredSession:
        """Acquire or release quota slots for the new size of a session. Raises: StoreFull."""
        size = len(records.encode(new))
        if size <= BYTES_PER_SLOT or not new.places:
            return new
        quota = self._quota(live.session.principal)
        return replace(new, places=await quota.resize(owner_of_slots(new.places), new.places, ttl, size))

    async def _stored(self, live: LiveSession) -> StoredSession:
        return records.decode(await self._read(live))

    async def _read(self, live: LiveSession) -> bytes:
        data = await self._store.get(_key(live))
        if data is None:
            self._sessions.end(live)
            raise unknown_session()
        return data

    def _apply(self, live: LiveSession, stored: StoredSession, *, anyway: bool = False) -> None:
        """Apply the stored record to the session in memory."""
        if live.record is not None and stored.version <= live.record.version and not anyway:
            return
        session, live.record = live.session, stored
        if session.phase != "closed":
            session.phase, session.queue = stored.phase, stored.queue
        session.log_level = stored.log_level
        session.tasks = dict(stored.tasks) or None
        self._set_notified(live)
        live.listened = live.listened and stored.listener == self.bus.worker_id
        self._service.session_changed(session, stored.subscriptions)

    def _set_notified(self, live: LiveSession) -> None:
        """Notify a session of changes here, unless another process does so or recent changes come first."""
        elsewhere = live.record.listener not in (None, self.bus.worker_id)
        live.session.notified_remotely = elsewhere or storage_name(live.id) in self._recovering

    async def end(self, live: LiveSession) -> None:
        """End the session in all processes. Raises: StoreError."""
        await run_to_completion(self._end(live))

    async def _end(self, live: LiveSession) -> None:
        gone, places = await self._store.delete(_key(live)), live.record.places
        self.bus.send(None, SessionEnded(storage_name(live.id)))
        self._sessions.end(live)
        if gone:
            await release(self._store, places)

    def end_soon(self, live: LiveSession) -> None:
        """Schedule `end` from synchronous code."""
        self._start_task(self.end(live))

    def _on_gap(self, _: bytes) -> None:
        """Reload all sessions in memory, because messages may have been lost."""
        for live in self._sessions:
            if live.busy:
                self._start_task(self._reload(live))
            else:
                self._sessions.leave(live)

    async def _reload(self, live: LiveSession) -> None:
        self._apply(live, await self._stored(live))

    # --- messages to other processes ------------------------------------------------------------------------

    async def forward_response(
        self, live: LiveSession, frame: Frame | RemoteProtocolError, message: bytes
    ) -> bool:
        """Forward the client's response to the process that sent the request. Return whether it was expected
        there.

        Raises:
            StoreError: that process cannot be reached.
        """
        worker = frame.id.partition("-")[0] if isinstance(frame.id, str) else self.bus.worker_id
        if worker == self.bus.worker_id or not isinstance(frame, Frame):
            return False
        reply = await self.bus.request(worker, ResponseReceived(storage_name(live.id), message))
        return isinstance(reply, Acknowledgement) and reply.well

    async def forward_batch(self, live: LiveSession, events: list[Event], message: bytes) -> None:
        """Forward responses of a batch. Raises: StoreError."""
        kinds = {event.kind for event in events if isinstance(event, Violation)}
        if kinds.isdisjoint(("unknown_answer", "unknown_cancel")):
            return
        for raw in msgspec.json.decode(message, type=list[Raw]):
            frame = _frame(bytes(raw))
            if frame is not None and frame.method is UNSET:
                await self.forward_response(live, frame, bytes(raw))
            elif frame is not None and frame.method == CANCELLED:
                self.cancel(live, bytes(raw))

    def cancel(self, live: LiveSession, message: bytes) -> None:
        """Forward a cancellation of a call that runs in another process."""
        self.bus.send(None, CallCancelled(storage_name(live.id), message))

    def notify(self, live: LiveSession, message: bytes) -> None:
        """Send a message on the general stream in another process."""
        name = storage_name(live.id)
        taking = self._acquiring.get(name)
        if taking is not None:
            taking[1].append(message)
        elif live.session.notified_remotely:
            self.bus.send(live.record.listener, StreamMessage(name, message))

    # --- streams --------------------------------------------------------------------------------------------

    @property
    def history(self) -> None:
        """The store has the events of sessions."""

    def log(self, live: LiveSession) -> SseEventLog:
        """Return the event log of a session, in memory and in the store."""
        sessions, name = self._sessions, storage_name(live.id)
        return SseEventLog(sessions.limits, sessions.event_budget, name[:8], _SessionLog(self, name))

    async def find_stream(self, live: LiveSession, last: str) -> Found | None:
        """Find a stream of another process and its events after ``last``. Raises: StoreError."""
        return await self.remote_streams.follow(live, storage_name(live.id), last)

    async def listen(self, live: LiveSession, *, resumed: bool) -> bool:
        """Take over the general stream, including its past events.

        ``resumed`` means that the client gets the events since its last one. Otherwise the changes since its last
        response ended are repeated.
        Return False if notifications may have been lost; the caller then reports it
        (`Service.session_recovered`). Raises: StoreError.
        """
        name = storage_name(live.id)
        while name in self._acquiring:
            await asyncio.wait({self._acquiring[name][0]})
        live.delivered = None
        if live.listened:
            return True
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._acquiring[name] = (done, [])
        self._recovering.add(name)
        recover: Callable[[], None] | None = None
        try:
            # Changes from here on are recorded, and repeated below.
            live.session.notified_remotely = True
            listener = (await self._stored(live)).listener
            taken = None if listener is None else await self._acquire_stream(live, name, listener)
            missing = listener is not None and taken is None
            await self.save(live, self.bus.worker_id)
            live.listened = True
            general = self._sessions.log(live).general
            for message in self._acquiring[name][1]:
                general.write(message)
            if not missing:
                # With another version, its subscriptions may have been others.
                known = taken is not None and live.record.version == taken.version + 1
                delivered = None
                if known and taken is not None:
                    delivered = taken.delivered if resumed else taken.sent
                recover = partial(
                    self._service.session_recovered, live.session, lately=True, delivered=delivered
                )
        finally:
            del self._acquiring[name]
            done.set_result(None)
            loop.call_soon(
                self._resume_notifying, live, name, recover
            )  # after the response has been attached
        return not missing

    def _resume_notifying(self, live: LiveSession, name: str, recover: Callable[[], None] | None) -> None:
        if name not in self._acquiring:
            self._recovering.discard(name)
        self._set_notified(live)
        if recover is not None:
            recover()

    async def _acquire_stream(self, live: LiveSession, name: str, listener: str) -> GeneralStreamState | None:
        """Acquire the general stream from its owner. Return None if its owner died and messages may be lost."""
        log = self._sessions.log(live)
        stored = (
            None if listener == self.bus.worker_id else await self.bus.request(listener, StreamTakeover(name))
        )
        if isinstance(stored, GeneralStreamState):
            log.resume_general(stored.written, stored.events)
            return stored
        entries = [
            entry for entry in await self.events.read(name, log.general.name) if entry.text is not None
        ]
        if entries and entries[-1].number > log.general.written:
            log.resume_general(
                entries[-1].number, [(entry.number, cast("str", entry.text).encode()) for entry in entries]
            )
        # The owner may have sent events that were not stored: skip their numbers.
        log.general.written += MAX_UNSTORED_EVENTS
        return None

    def stream_opened(self, live: LiveSession, *, general: bool) -> None:
        """`listen` has recorded the listener."""

    def vacate(self, live: LiveSession) -> None:
        """Announce that the last response of the general stream here has ended."""
        if live.listened:
            live.delivered = self._service.delivered_changes(live.session)
            self.bus.send(None, StreamVacated(storage_name(live.id)))

    # --- message handlers -----------------------------------------------------------------------------------

    def _response_received(self, bus_message: ResponseReceived, sender: str) -> BusMessage:
        event = self._decode(bus_message.session, bus_message.message)
        live = self._live_sessions.get(bus_message.session)
        if isinstance(event, PeerResponse) and live is not None:
            live.outgoing_requests().answered(event)
            return Acknowledgement(True)
        return Acknowledgement(isinstance(event, Violation) and event.kind == "late_answer")

    def _call_cancelled(self, bus_message: CallCancelled, sender: str) -> None:
        event, live = (
            self._decode(bus_message.session, bus_message.message),
            self._live_sessions.get(bus_message.session),
        )
        for one in event if isinstance(event, list) else [event]:
            if isinstance(one, Cancel) and live is not None:
                live.cancel(one.call.id)

    def _decode(self, session: str, message: bytes) -> Event | list[Event] | None:
        live = self._live_sessions.get(session)
        return None if live is None else live.endpoint.receive_frame(decode(message))

    def _session_changed(self, bus_message: SessionChanged, sender: str) -> None:
        live = self._live_sessions.get(bus_message.session)
        if live is not None:
            try:
                self._apply(live, records.decode(bus_message.record))
            except StoreUnreadable as error:
                log.warning("session record unreadable, written by a newer version: %s", error.message)

    def _session_ended(self, bus_message: SessionEnded, sender: str) -> None:
        live = self._live_sessions.get(bus_message.session)
        if live is not None:
            self._sessions.end(live)

    def _stream_message(self, bus_message: StreamMessage, sender: str) -> None:
        live = self._live_sessions.get(bus_message.session)
        if live is not None and live.listened:
            self._sessions.log(live).general.write(bus_message.message)
        elif live is not None:
            self.notify(live, bus_message.message)  # the stream has moved again

    def _stream_takeover(self, bus_message: StreamTakeover, sender: str) -> BusMessage:
        live = self._live_sessions.get(bus_message.session)
        if live is None or not live.listened:
            return Acknowledgement(False)
        delivered, version = self._service.delivered_changes(live.session), live.record.version
        live.listened, live.session.notified_remotely = False, True
        live.record = replace(live.record, listener=sender)
        log = self._sessions.log(live)
        sent = delivered if live.delivered is None else live.delivered
        return GeneralStreamState(log.general.written, log.taken(log.general), delivered, sent, version)

    def _stream_vacated(self, bus_message: StreamVacated, sender: str) -> None:
        live = self._live_sessions.get(bus_message.session)
        if live is not None and live.log is not None and live.log.general.sinks:
            self._start_task(self._reacquire_stream(live))

    async def _reacquire_stream(self, live: LiveSession) -> None:
        if not await self.listen(live, resumed=False):
            self._service.session_recovered(live.session)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_log_errors(work), name="dovetail-sessions")
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)


def _frame(message: bytes) -> Frame | None:
    try:
        return decode(message)
    except RemoteProtocolError:
        return None


async def _log_errors(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except DovetailError as error:
        log.warning("session update failed: %s", error.message)


def _key(live: LiveSession) -> str:
    return f"session/{storage_name(live.id)}/state"
