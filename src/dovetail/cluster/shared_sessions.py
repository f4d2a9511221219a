"""Legacy sessions that live in a store: what is kept of them, who has which part of one, how they move.

A session id is sealed and opens in every process. What changed since `initialize` is a record in the store: whoever
changes it writes the record before the client is answered, and tells the others, which have it in memory if they have
seen the session. A record that is missing or cannot be read means that there is no such session: never half of one.

Calls and their streams stay where they run; the ids of questions and of events name the process, so an answer, or a
client that comes back for events, finds it from anywhere. The general stream belongs to the process that a GET reached
last. It hears of changes for the session; the others pass on what they have to say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
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
from ..transports.http.server.event_log import EventLog, LoggedStream
from ..transports.http.server.http_exchange import HttpService
from ..transports.http.server.sessions import LiveSession, Sessions, unknown_session
from ..wire.frames import Frame, decode
from .message_bus import (
    Answered,
    Changed,
    Done,
    Ended,
    Kept,
    Known,
    MessageBus,
    Told,
    Vacant,
    Withdrawn,
    Yield,
)
from .remote_streams import Found, RemoteStreams
from .stored_events import StoredEvents
from .stored_sessions import StoredSession, merged, name_of, records, wished

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


class _Journal:
    """The event log of one session, on its way to the store."""

    __slots__ = ("_name", "_shared")

    def __init__(self, shared: SharedSessions, name: str) -> None:
        self._shared = shared
        self._name = name

    @property
    def tag(self) -> str:
        return self._shared.mail.me

    def keep(self, stream: LoggedStream, event: bytes | None) -> None:
        self._shared.events.keep(self._name, stream, event)


class SharedSessions:
    """The sessions of one app that every process of its server may serve."""

    def __init__(self, store: Store, service: HttpService, options: HttpOptions, sessions: Sessions) -> None:
        self.mail = MessageBus(store, service.name)
        self.events = StoredEvents(store, service.limits, service.clock)
        self._store = store
        self._service = service
        self._options = options
        self._sessions = sessions
        self._clock = service.clock
        self._here: dict[str, LiveSession] = {}
        """The sessions in memory by their names."""
        self._taking: dict[str, tuple[asyncio.Future[None], list[bytes]]] = {}
        """General streams on their way to us, and what has happened meanwhile."""
        self._working: set[asyncio.Task[None]] = set()
        self._stop_missing: Callable[[], None] = lambda: None
        self.elsewhere = RemoteStreams(self.mail, self.events, self._here.get)
        self.mail.handlers |= {
            Answered: self._answered,
            Withdrawn: self._withdrawn,
            Changed: self._changed,
            Ended: self._ended,
            Told: self._told,
            Yield: self._yield,
            Vacant: self._vacant,
        }

    async def start(self) -> None:
        self._stop_missing = self._store.subscribe(GAP, self._missed)
        await self.mail.start()

    async def stop(self) -> None:
        """Write what is left, then be gone to the others."""
        self._stop_missing()
        if self._working:
            await asyncio.wait(self._working)
        await self.events.close()
        await self.mail.stop()

    # --- coming and going -----------------------------------------------------------------------------------

    def entered(self, live: LiveSession) -> None:
        """A session is in memory from now on."""
        self._here[name_of(live.id)] = live

    def left(self, live: LiveSession) -> None:
        self._here.pop(name_of(live.id), None)

    async def open(self, live: LiveSession, scope: Mapping[str, Any]) -> None:
        """Keep a session that has just been opened. Raises: StoreError."""
        lifetime, who = self._options.session_lifetime, live.session.principal
        places: tuple[str, ...] = ()
        try:
            places = await self._shares(who).acquire(quota_owner(who, scope), lifetime)
            live.kept = StoredSession(self._clock() + lifetime, live.session.phase, places=places)
            await self._store.put(_key(live), records.encode(live.kept), ttl=lifetime)
        except BaseException:
            self._sessions.leave(live)  # nobody has its id
            await release(self._store, places)
            raise

    def _shares(self, who: Principal | None) -> Quota:
        limits = self._service.limits
        own = (
            2 * limits.max_sessions
            if who is None
            else STORED_SESSIONS_FACTOR_PER_PRINCIPAL * limits.max_sessions_per_principal
        )
        return Quota(self._store, "session", own=own, total=STORED_SESSIONS_FACTOR * limits.max_sessions)

    async def restore(self, id: str, principal: Principal | None) -> LiveSession | DovetailError:
        """The session of this id as any process has left it, or why there is none."""
        sessions = self._sessions
        try:
            session = sessions.unseal(id, principal)
            data = None if session is None else await self._store.get(f"session/{name_of(id)}/state")
            if session is None or data is None:
                return unknown_session()
            kept = records.decode(data)
            if id in sessions:  # somebody else was faster
                return sessions.find(id, principal)
            session.phase, session.queue, session.log_level = kept.phase, kept.queue, kept.log_level
            session.subscriptions = set(kept.subscriptions) or None
            session.tasks = dict(kept.tasks) or None
            live = sessions.enter(id, session)
            self._adopt(live, kept)
        except StoreUnreadable:
            return unknown_session()
        except (ProtocolError, Refusal, StoreError) as error:
            return error
        return live

    async def save(self, live: LiveSession, listener: str | None = None) -> None:
        """Write what has changed here, beside what others have changed, and tell them.

        Raises:
            StoreError: it is not written; the session is as it was.
            ProtocolError: the session has ended meanwhile.
        """
        # What is wished for is noted now: another change that is written first makes the session be as that one says.
        await run_to_completion(self._save(live, live.kept, wished(live.kept, live.session), listener))

    async def _save(
        self, live: LiveSession, before: StoredSession, wish: StoredSession, listener: str | None
    ) -> None:
        kept, data = before, records.encode(before)
        try:
            for _ in range(SESSION_WRITE_ATTEMPTS):
                new = merged(kept, before, wish, listener)
                ttl = max(new.until - self._clock(), 1.0)
                new = await self._fitted(live, new, ttl)
                if await self._store.put(_key(live), records.encode(new), expect=data, ttl=ttl):
                    break
                await release(self._store, set(new.places).difference(kept.places))
                # The very bytes: a newer version may have written more than we know of.
                data = await self._read(live)
                kept = records.decode(data)
            else:
                raise Refusal(1008, message="the session is being changed by too many at once", retry_after=1)
        except (Refusal, StoreError):
            self._adopt(live, live.kept, anyway=True)  # what others have written meanwhile stays
            raise
        await release(self._store, set(kept.places).difference(new.places))
        self._adopt(live, new)
        self.mail.tell(None, Changed(name_of(live.id), records.encode(new)))

    async def _fitted(self, live: LiveSession, new: StoredSession, ttl: float) -> StoredSession:
        """A session that has become large takes more places. Raises: StoreFull."""
        size = len(records.encode(new))
        if size <= BYTES_PER_SLOT or not new.places:
            return new
        shares = self._shares(live.session.principal)
        return replace(new, places=await shares.resize(owner_of_slots(new.places), new.places, ttl, size))

    async def _kept(self, live: LiveSession) -> StoredSession:
        return records.decode(await self._read(live))

    async def _read(self, live: LiveSession) -> bytes:
        data = await self._store.get(_key(live))
        if data is None:
            self._sessions.end(live)
            raise unknown_session()
        return data

    def _adopt(self, live: LiveSession, kept: StoredSession, *, anyway: bool = False) -> None:
        """Be as the record says."""
        if live.kept is not None and kept.version <= live.kept.version and not anyway:
            return
        session, live.kept = live.session, kept
        if session.phase != "closed":
            session.phase, session.queue = kept.phase, kept.queue
        session.log_level = kept.log_level
        session.tasks = dict(kept.tasks) or None
        session.notified_remotely = (
            kept.listener not in (None, self.mail.me) and name_of(live.id) not in self._taking
        )
        live.listened = live.listened and kept.listener == self.mail.me
        self._service.session_changed(session, kept.subscriptions)

    async def end(self, live: LiveSession) -> None:
        """The client has ended it: everywhere. Raises: StoreError."""
        await run_to_completion(self._end(live))

    async def _end(self, live: LiveSession) -> None:
        gone, places = await self._store.delete(_key(live)), live.kept.places
        self.mail.tell(None, Ended(name_of(live.id)))
        self._sessions.end(live)
        if gone:
            await release(self._store, places)

    def end_soon(self, live: LiveSession) -> None:
        """`end` for those who cannot wait."""
        self._work(self.end(live))

    def _missed(self, _: bytes) -> None:
        """Letters may have been lost: what is in memory of sessions may be out of date, or ended."""
        for live in self._sessions:
            if live.busy:
                self._work(self._read_again(live))
            else:
                self._sessions.leave(live)

    async def _read_again(self, live: LiveSession) -> None:
        self._adopt(live, await self._kept(live))

    # --- messages for other processes -----------------------------------------------------------------------

    async def pass_on(self, live: LiveSession, frame: Frame | RemoteProtocolError, message: bytes) -> bool:
        """Hand the client's answer to the process that asked; whether a question was waiting for it there.

        Raises:
            StoreError: that process cannot be reached now.
        """
        worker = frame.id.partition("-")[0] if isinstance(frame.id, str) else self.mail.me
        if worker == self.mail.me or not isinstance(frame, Frame):
            return False
        reply = await self.mail.ask(worker, Answered(name_of(live.id), message))
        return isinstance(reply, Done) and reply.well

    async def pass_on_array(self, live: LiveSession, events: list[Event], message: bytes) -> None:
        """The same for what came in an array. Raises: StoreError."""
        kinds = {event.kind for event in events if isinstance(event, Violation)}
        if kinds.isdisjoint(("unknown_answer", "unknown_cancel")):
            return
        for raw in msgspec.json.decode(message, type=list[Raw]):
            frame = _frame(bytes(raw))
            if frame is not None and frame.method is UNSET:
                await self.pass_on(live, frame, bytes(raw))
            elif frame is not None and frame.method == CANCELLED:
                self.cancel(live, bytes(raw))

    def cancel(self, live: LiveSession, message: bytes) -> None:
        """The client has cancelled a call that does not run here."""
        self.mail.tell(None, Withdrawn(name_of(live.id), message))

    def notify(self, live: LiveSession, message: bytes) -> None:
        """Say something on a general stream that is not here."""
        name = name_of(live.id)
        taking = self._taking.get(name)
        if taking is not None:
            taking[1].append(message)
        elif live.session.notified_remotely:
            self.mail.tell(live.kept.listener, Told(name, message))

    # --- streams --------------------------------------------------------------------------------------------

    def log(self, live: LiveSession) -> EventLog:
        """The event log of a session, in memory and in the store."""
        sessions, name = self._sessions, name_of(live.id)
        return EventLog(sessions.limits, sessions.event_budget, name[:8], _Journal(self, name))

    async def find(self, live: LiveSession, last: str) -> Found | None:
        """The stream of an event that is not known here, and what came after it. Raises: StoreError."""
        return await self.elsewhere.follow(live, name_of(live.id), last)

    async def listen(self, live: LiveSession) -> bool:
        """Have the general stream here from now on, with all that was written to it.

        False: nobody has kept watch for a while; tell it so (`Service.session_recovered`). Raises: StoreError.
        """
        name = name_of(live.id)
        while name in self._taking:
            await asyncio.wait({self._taking[name][0]})
        if live.listened:
            return True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._taking[name] = (done, [])
        try:
            # From here on it hears of changes: better twice than never.
            live.session.notified_remotely = False
            listener = (await self._kept(live)).listener
            missing = listener is not None and not await self._take_over(live, name, listener)
            await self.save(live, self.mail.me)
            live.listened = True
            general = self._sessions.log(live).general
            for message in self._taking[name][1]:
                general.write(message)
        finally:
            del self._taking[name]
            done.set_result(None)
            live.session.notified_remotely = live.kept.listener not in (None, self.mail.me)
        if not missing:  # as soon as the response is there
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self._service.session_recovered(live.session, lately=True))
        return not missing

    async def _take_over(self, live: LiveSession, name: str, listener: str) -> bool:
        """Get the general stream from whoever has it; False: nobody has kept watch since it was lost."""
        log = self._sessions.log(live)
        kept = None if listener == self.mail.me else await self.mail.ask(listener, Yield(name))
        if isinstance(kept, Kept):
            log.resume_general(kept.written, kept.events)
            return True
        entries = [
            entry for entry in await self.events.read(name, log.general.name) if entry.text is not None
        ]
        if entries and entries[-1].number > log.general.written:
            log.resume_general(
                entries[-1].number, [(entry.number, cast("str", entry.text).encode()) for entry in entries]
            )
        # What it wrote last may have reached the client alone: none of those numbers may be given again.
        log.general.written += MAX_UNSTORED_EVENTS
        return False

    def vacate(self, live: LiveSession) -> None:
        """The last response of the general stream here has ended."""
        if live.listened:
            self.mail.tell(None, Vacant(name_of(live.id)))

    # --- letters --------------------------------------------------------------------------------------------

    def _answered(self, letter: Answered, sender: str) -> Known:
        event = self._received(letter.session, letter.message)
        live = self._here.get(letter.session)
        if isinstance(event, PeerResponse) and live is not None:
            live.ask().answered(event)
            return Done(True)
        return Done(isinstance(event, Violation) and event.kind == "late_answer")

    def _withdrawn(self, letter: Withdrawn, sender: str) -> None:
        event, live = self._received(letter.session, letter.message), self._here.get(letter.session)
        for one in event if isinstance(event, list) else [event]:
            if isinstance(one, Cancel) and live is not None:
                live.cancel(one.call.id)

    def _received(self, session: str, message: bytes) -> Event | list[Event] | None:
        live = self._here.get(session)
        return None if live is None else live.endpoint.receive_frame(decode(message))

    def _changed(self, letter: Changed, sender: str) -> None:
        live = self._here.get(letter.session)
        if live is not None:
            try:
                self._adopt(live, records.decode(letter.record))
            except StoreUnreadable as error:
                log.warning("a session is used by a newer version as well: %s", error.message)

    def _ended(self, letter: Ended, sender: str) -> None:
        live = self._here.get(letter.session)
        if live is not None:
            self._sessions.end(live)

    def _told(self, letter: Told, sender: str) -> None:
        live = self._here.get(letter.session)
        if live is not None and live.listened:
            self._sessions.log(live).general.write(letter.message)
        elif live is not None:
            self.notify(live, letter.message)  # it has moved meanwhile

    def _yield(self, letter: Yield, sender: str) -> Known:
        live = self._here.get(letter.session)
        if live is None or not live.listened:
            return Done(False)
        live.listened, live.session.notified_remotely = False, True
        live.kept = replace(live.kept, listener=sender)
        log = self._sessions.log(live)
        return Kept(log.general.written, log.taken(log.general))

    def _vacant(self, letter: Vacant, sender: str) -> None:
        live = self._here.get(letter.session)
        if live is not None and live.log is not None and live.log.general.sinks:
            self._work(self._listen_again(live))

    async def _listen_again(self, live: LiveSession) -> None:
        if not await self.listen(live):
            self._service.session_recovered(live.session)

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_logged(work), name="dovetail-sessions")
        self._working.add(task)
        task.add_done_callback(self._working.discard)


def _frame(message: bytes) -> Frame | None:
    try:
        return decode(message)
    except RemoteProtocolError:
        return None


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except DovetailError as error:
        log.warning("a session is not as it should be: %s", error.message)


def _key(live: LiveSession) -> str:
    return f"session/{name_of(live.id)}/state"
