"""Legacy sessions over HTTP: what a session id stands for, and which ones are in memory.

The id is a sealed token that holds what `initialize` settled, bound to the principal who opened it. So any
process that has the keys can serve it, an id that was not minted here cannot be used, and a session that
was idle can leave memory without its client noticing. What exists only in memory are open streams,
questions and subscriptions.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ....core.channel import Answer, Session
from ....core.endpoint import Endpoint
from ....errors import DovetailError, ProtocolError, Refusal, TransportError
from ....model import ClientCapabilities
from ....settings import HttpOptions
from ....wire.frames import RequestId
from ....wire.methods import METHODS
from ....wire.revisions import BY_NAME
from ....wire.seal import bind
from .ended_sessions import Board, Ended, digest
from .event_log import EventLog, Ledger
from .service import HttpService

LARGEST: Final = 3072
"""Bytes of capabilities and client info in an id, which travels in a header: many peers take 8 KiB at most."""


class _Token(Struct, array_like=True):
    """What the id of a session says."""

    revision: str
    capabilities: dict[str, Any]
    client_info: dict[str, Any] | None
    dialect: str
    nonce: str


class HttpSession:
    """One legacy session in memory."""

    __slots__ = (
        "answers", "aside", "endpoint", "id", "listened", "log", "open_streams", "running", "session", "used",
    )  # fmt: skip

    def __init__(self, id: str, session: Session, endpoint: Endpoint, used: float) -> None:
        self.id = id
        self.session = session
        self.endpoint = endpoint
        self.used = used
        """When a request last named it, on the service's clock."""
        self.running: dict[RequestId, asyncio.Task[Any]] = {}
        """The calls under way, so that they can be cancelled."""
        self.answers: dict[RequestId, asyncio.Future[Answer]] | None = None
        """Our own requests that wait for the client."""
        self.log: EventLog | None = None
        """Made with the first event stream."""
        self.open_streams = 0
        self.aside = False
        """It was at work when room was needed: whoever ends that work tells `Sessions.settle`."""
        self.listened = False
        """The client has opened the general stream before, so what it misses there is kept."""

    @property
    def busy(self) -> bool:
        return bool(self.running or self.answers or self.open_streams)

    def cancel(self, id: RequestId) -> None:
        task = self.running.pop(id, None)
        if task is not None:
            task.cancel()

    def expect(self, id: RequestId) -> asyncio.Future[Answer]:
        """A future for the client's answer to our request ``id``."""
        if self.answers is None:
            self.answers = {}
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.answers[id] = future
        return future

    def answered(self, answer: Answer) -> None:
        future = None if self.answers is None else self.answers.pop(answer.id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def read(self, answer: Answer) -> Any:
        """The decoded result of an answer; raises the client's error if it is one."""
        if answer.error is not None:
            raise answer.error
        assert isinstance(answer.result, Raw)
        return self.session.codec.decode_result(METHODS[answer.method], answer.result)

    def close(self) -> None:
        """Fail what waits, cancel what runs, end the streams."""
        self.endpoint.close()
        for future in list((self.answers or {}).values()):
            if not future.done():
                future.set_exception(TransportError("the session has ended", cause="closed"))
                future.exception()  # whoever waited may have gone already
        for task in list(self.running.values()):
            task.cancel()
        if self.log is not None:
            self.log.close()


class _Share:
    """The sessions of everybody, or of one principal."""

    __slots__ = ("order", "size")

    def __init__(self) -> None:
        self.size = 0
        self.order: OrderedDict[str, HttpSession] = OrderedDict()
        """Who makes room, the one unused longest first. Those that were found at work are not in it."""


class Sessions:
    """The sessions of one app: found by id, bounded in number, reaped when idle.

    ``opened`` is called with each session that enters memory, the first time or again.
    """

    def __init__(
        self,
        service: HttpService,
        options: HttpOptions,
        opened: Callable[[HttpSession], None],
        board: Board | None = None,
    ) -> None:
        self._service = service
        self._options = options
        self._limits = service.limits
        self._opened = opened
        self._live: dict[str, HttpSession] = {}
        self._all = _Share()
        self._owned: dict[str, _Share] = {}
        self._ended = Ended(board)
        self._shared = board is not None
        self.ledger = Ledger(service.limits.all_event_bytes)

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._live.values()))

    def open(self, session: Session, endpoint: Endpoint) -> HttpSession:
        """A new session with a new id.

        Raises:
            ProtocolError: (``invalid_params``) the client declares more than an id can hold.
            Refusal: too many sessions are in use, of all clients or of this principal.
        """
        session.client_info = _short(session.client_info)
        payload = msgspec.json.encode(
            _Token(
                session.revision.name,
                dict(session.capabilities),
                session.client_info,
                session.codec.dialect.name,
                secrets.token_urlsafe(16),
            )
        )
        if len(payload) > LARGEST:
            raise ProtocolError("invalid_params", f"the capabilities exceed {LARGEST} bytes")
        expires = self._service.clock() + self._options.session_lifetime
        id = self._service.seal.seal("session", payload, expires=expires, bound=bind(session.principal))
        return self._add(id, session, endpoint)

    def find(self, id: str, principal: str | None) -> HttpSession | None:
        """The session of this id if it belongs to ``principal``, brought back into memory if need be.

        Raises:
            Refusal: it would have to come back into memory, and too many are in use.
        """
        if self._shared:
            self._hear()
        entry = self._live.get(id)
        if entry is None:
            return self._revive(id, principal)
        if entry.session.principal != principal:
            return None
        self._touch(entry)
        return entry

    def _touch(self, entry: HttpSession) -> None:
        """It is in use: now it is the last to make room."""
        entry.used = self._service.clock()
        if entry.aside:
            return
        self._all.order.move_to_end(entry.id)
        principal = entry.session.principal
        if principal is not None:
            self._owned[principal].order.move_to_end(entry.id)

    def settle(self, entry: HttpSession) -> None:
        """A piece of its work has ended: if that was the last one, it may make room again."""
        if entry.aside and not entry.busy and self._live.get(entry.id) is entry:
            entry.aside = False
            entry.used = self._service.clock()
            for share in self._shares(entry):
                share.order[entry.id] = entry

    def _shares(self, entry: HttpSession) -> tuple[_Share, ...]:
        principal = entry.session.principal
        return (self._all,) if principal is None else (self._all, self._owned[principal])

    def _hear(self) -> None:
        news = self._ended.news()
        if news:
            ended = set(news)
            for entry in self:
                if digest(entry.id) in ended:
                    self._forget(entry)

    def _revive(self, id: str, principal: str | None) -> HttpSession | None:
        if id in self._ended:
            return None
        service = self._service
        try:
            payload = service.seal.open("session", id, now=service.clock(), bound=bind(principal))
            token = msgspec.json.decode(payload, type=_Token)
        except (DovetailError, msgspec.DecodeError):
            return None
        revision = BY_NAME.get(token.revision)
        if revision is None or revision not in service.admission.revisions:
            return None
        session = Session(
            revision=revision,
            codec=service.admission.codec_for(revision, token.dialect),
            capabilities=ClientCapabilities(token.capabilities),
            client_info=token.client_info,
            principal=principal,
            phase="ready",
        )
        endpoint = Endpoint(service.admission, self._limits, principal=principal, session=session)
        return self._add(id, session, endpoint)

    def _add(self, id: str, session: Session, endpoint: Endpoint) -> HttpSession:
        principal = session.principal
        self._make_room(self._all, self._limits.sessions)
        own = None if principal is None else self._owned.get(principal)
        if own is not None:
            self._make_room(own, self._limits.sessions_per_principal)
        session.id = id
        entry = self._live[id] = HttpSession(id, session, endpoint, self._service.clock())
        if principal is not None:
            self._owned.setdefault(principal, _Share())
        for share in self._shares(entry):
            share.size += 1
            share.order[id] = entry
        self._opened(entry)
        self._service.session_opened(session)
        return entry

    def _make_room(self, share: _Share, limit: int) -> None:
        """Let the session unused longest leave memory; its id stays good.

        One that is at work is set aside until that ends, so nobody who needs room looks at it twice.
        """
        if share.size < limit:
            return
        while share.order:
            entry = next(iter(share.order.values()))
            if not entry.busy:
                self._forget(entry)
                return
            entry.aside = True
            for one in self._shares(entry):
                del one.order[entry.id]
        raise Refusal(1004, message="too many sessions are in use", retry_after=5)

    def end(self, entry: HttpSession) -> None:
        """The client has deleted it: the id is worth nothing any more."""
        self._ended.add(entry.id)
        self._forget(entry)

    def _forget(self, entry: HttpSession) -> None:
        if self._live.pop(entry.id, None) is None:
            return
        for share in self._shares(entry):
            share.size -= 1
            share.order.pop(entry.id, None)
        principal = entry.session.principal
        if principal is not None and not self._owned[principal].size:
            del self._owned[principal]
        entry.close()
        self._service.session_closed(entry.session)

    def reap(self) -> None:
        """Let sessions leave memory that nobody has used for a while."""
        oldest = self._service.clock() - self._options.session_idle
        for entry in list(self._all.order.values()):
            if entry.used > oldest:
                break
            if not entry.busy:
                self._forget(entry)

    def close(self) -> None:
        for entry in self:
            self._forget(entry)


def _short(info: dict[str, Any] | None) -> dict[str, Any] | None:
    """What is kept of a client's description of itself: its names, not its pictures."""
    if info is None:
        return None
    return {
        name: info[name][:200] for name in ("name", "version", "title") if isinstance(info.get(name), str)
    }


def unknown_session() -> ProtocolError:
    return ProtocolError("session_not_found", "no such session; send initialize again")
