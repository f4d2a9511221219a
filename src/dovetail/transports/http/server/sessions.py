"""Sessions over HTTP: their ids, and which of them are in memory.

A session id is a sealed token. It holds the result of `initialize` and is bound to the principal that opened the
session. Any process with the same keys can serve it, and forged ids are refused. An idle session can therefore leave
memory, and its client does not notice. Open streams and calls exist only in memory; without a store, so do
subscriptions and the log level.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ....core.channel import Session
from ....core.endpoint import Endpoint
from ....core.phases import names_of
from ....core.principal import Principal, key_of
from ....drivers.cancellation import CancelledCalls
from ....drivers.heartbeat import INITIALIZE_SECONDS
from ....errors import DovetailError, ProtocolError, Refusal, TransportError
from ....model import ClientCapabilities
from ....settings import HttpOptions
from ....wire.frames import RequestId
from ....wire.revisions import BY_NAME
from ....wire.seal import Expired, bind
from .ended_sessions import EndedSessions, SessionSlot
from .http_exchange import HttpService
from .session_sharing import SessionSharing

if TYPE_CHECKING:
    from ....drivers.requests import Requests
    from .sse_event_log import ReplayBudget, SseEventLog


class _SessionToken(Struct, array_like=True):
    """The content of a session id."""

    revision: str
    capabilities: dict[str, Any]
    client_info: dict[str, Any] | None
    dialect: str
    place: SessionSlot
    """Its slot in `EndedSessions`."""
    expires: float
    """When the session expires, on the clock of the service."""


class LiveSession:
    """One legacy session in memory."""

    __slots__ = (
        "at_work",
        "cancelled_calls",
        "delivered",
        "endpoint",
        "expires",
        "id",
        "listened",
        "log",
        "open_streams",
        "opened",
        "record",
        "requests",
        "running",
        "session",
        "slot",
        "used",
    )

    def __init__(
        self, id: str, session: Session, endpoint: Endpoint, used: float, token: _SessionToken
    ) -> None:
        self.id = id
        self.session = session
        self.slot = token.place
        """Its slot in `EndedSessions`."""
        self.expires = token.expires
        """When the session expires, on the clock of the service."""
        self.endpoint = endpoint
        self.used = used
        """The time of its last request, on the clock of the service."""
        self.opened = used
        self.running: dict[RequestId, asyncio.Task[Any]] = {}
        """The tasks of its calls in flight, for cancellation."""
        self.cancelled_calls = CancelledCalls(endpoint.limits.max_requests_per_connection)
        """Cancelled calls whose task has not finished. They still count as in flight."""
        self.requests: Requests | None = None
        self.log: SseEventLog | None = None
        """Created with the first event stream."""
        self.open_streams = 0
        self.at_work = False
        """It was busy when another session needed its slot. The end of its work must call `Sessions.settle`."""
        self.listened = False
        """The client has opened the general stream before, so events for it are recorded."""
        self.delivered: dict[str, int] | None = None
        """By process, the newest change that was sent before the general stream lost its last response; None while it
        has one."""
        self.record: Any = None
        """The stored record of the session, if a store has it."""

    @property
    def busy(self) -> bool:
        asked = self.requests is not None and self.requests.waiting
        return bool(self.running or asked or self.open_streams)

    def cancel(self, id: RequestId) -> None:
        task = self.running.pop(id, None)
        if task is not None:
            self.cancelled_calls.cancel(task)

    def outgoing_requests(self) -> Requests:
        """The requests to this client; created with the first one."""
        if self.requests is None:
            from ....drivers.requests import Requests  # most sessions send none

            self.requests = Requests(self.endpoint, _discard)
        return self.requests

    def close(self) -> None:
        """Fail waiting requests, cancel calls, end streams."""
        self.endpoint.close()
        if self.requests is not None:
            self.requests.fail(TransportError("the session has ended", cause="closed"))
        for id in list(self.running):
            self.cancel(id)
        if self.log is not None:
            self.log.close()


class _Share:
    """The sessions in memory: all, or those of one principal."""

    __slots__ = ("order", "size")

    def __init__(self) -> None:
        self.size = 0
        self.order: OrderedDict[str, LiveSession] = OrderedDict()
        """The candidates for eviction, least recently used first. Busy sessions are not in it."""


class Sessions:
    """The sessions of one app: found by id, limited in number, removed from memory when idle.

    ``opened`` is called with each session that enters memory, the first time or again.
    """

    def __init__(
        self,
        service: HttpService,
        options: HttpOptions,
        opened: Callable[[LiveSession], None],
        ended: EndedSessions | None = None,
    ) -> None:
        self._service = service
        self._options = options
        self.limits = service.limits
        self._opened = opened
        self.shared = SessionSharing(service, self)
        """Whether other processes can serve the sessions."""
        self._live: dict[str, LiveSession] = {}
        self._all = _Share()
        self._owned: dict[Principal, _Share] = {}
        self.ended = EndedSessions() if ended is None else ended
        self._several = self.ended.shared

    def __len__(self) -> int:
        return len(self._live)

    @cached_property
    def event_budget(self) -> ReplayBudget:
        """The bytes of all event logs."""
        from .sse_event_log import ReplayBudget  # loaded with the first event stream

        return ReplayBudget(self.limits.max_replay_bytes)

    def __contains__(self, id: str) -> bool:
        return id in self._live

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(list(self._live.values()))

    def open(self, session: Session, endpoint: Endpoint) -> LiveSession:
        """Open a session with a new id.

        Raises:
            Refusal: too many sessions are in use, of all clients or of this principal.
        """
        session.client_info = names_of(session.client_info or {})
        now = self._service.clock()
        expires = now + self._options.session_lifetime
        token = _SessionToken(
            session.revision.name,
            dict(session.capabilities),
            session.client_info,
            session.codec.dialect.name,
            self.ended.assign_slot(expires, now),
            expires,
        )
        id = self._service.seal.seal(
            "session", msgspec.json.encode(token), expires=expires, bound=bind(key_of(session.principal))
        )
        return self._add(id, session, endpoint, token)

    def find(self, id: str, principal: Principal | None) -> LiveSession | DovetailError:
        """Return the session with this id if it belongs to ``principal``, or the error to send.

        A session that has left memory is restored, unless it is in a store. It is then the most recently used one.
        """
        entry = self._live.get(id)
        if entry is not None and self._several and entry.slot in self.ended:
            self.leave(entry)  # it was ended through another worker
            return unknown_session()
        if entry is None:
            try:
                session = self.shared.reopen(id, principal)
                return unknown_session() if session is None else self.enter(id, session)
            except (ProtocolError, Refusal) as error:
                return error
        owner = entry.session.principal
        if owner is not principal and owner != principal:
            return unknown_session()
        entry.used = self._service.clock()
        if entry.used > entry.expires:
            self.leave(entry)
            return _expired()
        if not entry.at_work:
            self._all.order.move_to_end(id)
            if principal is not None:
                self._owned[principal].order.move_to_end(id)
        return entry

    def log(self, entry: LiveSession) -> SseEventLog:
        """The event log of a session; created with its first stream."""
        if entry.log is None:
            entry.log = self.shared.log(entry)
        return entry.log

    def settle(self, entry: LiveSession) -> None:
        """Call this when a call or stream of the session has ended. An idle session can be evicted, or ends."""
        if entry.session.phase == "draining" and not entry.running:  # the client has sent ``shutdown``
            self.finish(entry)
        elif entry.at_work and not entry.busy and self._live.get(entry.id) is entry:
            entry.at_work = False
            entry.used = self._service.clock()
            for share in self._shares(entry):
                share.order[entry.id] = entry

    def _shares(self, entry: LiveSession) -> tuple[_Share, ...]:
        principal = entry.session.principal
        return (self._all,) if principal is None else (self._all, self._owned[principal])

    def _read(self, id: str, principal: Principal | None, now: float) -> _SessionToken:
        """Decode a session id. Raises: DovetailError, msgspec.DecodeError: it is not valid."""
        payload = self._service.seal.open("session", id, now=now, bound=bind(key_of(principal)))
        return msgspec.json.decode(payload, type=_SessionToken)

    def unseal(self, id: str, principal: Principal | None) -> Session | None:
        """Return the session as it was after ``initialize``; None if the id is not valid, or the session has ended.

        Raises:
            ProtocolError: it has expired.
        """
        service = self._service
        try:
            token = self._read(id, principal, service.clock())
        except Expired:
            raise _expired() from None
        except (DovetailError, msgspec.DecodeError):
            return None
        revision = BY_NAME.get(token.revision)
        if revision is None or revision not in service.admission.revisions or token.place in self.ended:
            return None
        return Session(
            revision=revision,
            codec=service.admission.codec_for(revision, token.dialect),
            capabilities=ClientCapabilities(token.capabilities),
            client_info=token.client_info,
            principal=principal,
            phase="ready",
        )

    def endpoint(self, principal: Principal | None, session: Session | None = None) -> Endpoint:
        """Create the endpoint of a session. With a store, the ids of its requests name this process."""
        next_id = self.shared.next_id
        admission, limits = self._service.admission, self.limits.on_events()
        return Endpoint(admission, limits, next_id, principal=principal, session=session)

    def enter(self, id: str, session: Session) -> LiveSession:
        """Take a session into memory. Raises: Refusal."""
        token = self._read(id, session.principal, now=0.0)
        return self._add(id, session, self.endpoint(session.principal, session), token)

    def _add(self, id: str, session: Session, endpoint: Endpoint, token: _SessionToken) -> LiveSession:
        principal = session.principal
        self._make_room(self._all, self.limits.max_sessions)
        own = None if principal is None else self._owned.get(principal)
        if own is not None:
            self._make_room(own, self.limits.max_sessions_per_principal)
        session.id = id
        entry = self._live[id] = LiveSession(id, session, endpoint, self._service.clock(), token)
        if principal is not None:
            self._owned.setdefault(principal, _Share())
        for share in self._shares(entry):
            share.size += 1
            share.order[id] = entry
        self._opened(entry)
        self._service.session_opened(session)
        return entry

    def _make_room(self, share: _Share, limit: int) -> None:
        """Remove the least recently used session from memory; its id stays valid.

        A busy session is taken off the list until it is idle, so that it is not checked again.
        """
        if share.size < limit:
            return
        while share.order:
            entry = next(iter(share.order.values()))
            if not entry.busy:
                self.leave(entry)
                return
            entry.at_work = True
            for one in self._shares(entry):
                del one.order[entry.id]
        raise Refusal(1060, message="too many sessions are in use", retry_after=5)

    def end(self, entry: LiveSession) -> None:
        """End a session that its client has deleted: its id is not valid any more."""
        self.ended.add(entry.slot)
        self.leave(entry)

    def leave(self, entry: LiveSession) -> None:
        """Remove a session from memory; its id stays valid."""
        if self._live.pop(entry.id, None) is None:
            return
        for share in self._shares(entry):
            share.size -= 1
            share.order.pop(entry.id, None)
        principal = entry.session.principal
        if principal is not None and not self._owned[principal].size:
            del self._owned[principal]
        self.shared.removed(entry)
        entry.close()
        self._service.session_closed(entry.session)
        entry.session.notify = entry.session.save = (
            None  # they reference the entry: a cycle for the garbage collector
        )

    def reap(self) -> None:
        """Remove expired and idle sessions from memory."""
        now = self._service.clock()
        for entry in self:
            if entry.expires < now and not entry.running:  # calls in flight may finish, streams end
                self.leave(entry)
        oldest = self._service.clock() - self._options.session_idle_timeout
        for entry in list(self._all.order.values()):
            if entry.used > oldest:
                break
            if not entry.busy:
                self.leave(entry)
        latest = self._service.clock() - INITIALIZE_SECONDS
        for entry in self:
            # Document 000: 30 s for initialization. A client that sends requests without ``initialized`` is served.
            if (
                entry.session.phase == "negotiating"
                and entry.used == entry.opened < latest
                and not entry.busy
            ):
                self.finish(entry)

    def finish(self, entry: LiveSession) -> None:
        """End a session for good, in every process."""
        self.shared.end_soon(entry)

    def silence(self) -> None:
        """Send no notifications to sessions any more. Subscriptions stay in the store."""
        for entry in self:
            entry.session.notified_remotely = True

    def close(self) -> None:
        for entry in self:
            self.leave(entry)


def _discard(message: bytes) -> None:
    """The default writer: requests of the server are written to the stream of their call."""


def _expired() -> ProtocolError:
    return ProtocolError("session_expired", "the session has expired; send initialize again")


def unknown_session() -> ProtocolError:
    return ProtocolError("session_not_found", "no such session; send initialize again")
