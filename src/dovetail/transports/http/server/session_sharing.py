"""`SessionSharing`: whether other processes can serve the sessions of this one.

This class is for a server without a store: its sessions are in this process alone. `SharedSessions` in
`cluster/shared_sessions.py` overrides it for a server with a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ....core.principal import Principal
from ....errors import DovetailError, RemoteProtocolError
from ....wire.frames import Frame, RequestId

if TYPE_CHECKING:
    from ....cluster.message_bus import MessageBus
    from ....core.channel import Event, Session
    from .http_exchange import HttpService
    from .sessions import LiveSession, Sessions
    from .sse_event_log import EventHistory, LoggedStream, SseEventLog

Found = tuple["LoggedStream", list[bytes]]
"""A stream, and its events after the last one that the client has."""


class SessionSharing:
    """Sharing of sessions between processes. This base class shares nothing."""

    active = False
    """Whether other processes can serve these sessions."""
    message_bus: MessageBus | None = None
    """Sends messages to the other processes."""
    next_id: Callable[[], RequestId] | None = None
    """Makes the ids of requests to clients; None for numbers."""

    def __init__(self, service: HttpService, sessions: Sessions) -> None:
        self._service = service
        self._sessions = sessions

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def added(self, live: LiveSession) -> None:
        """Register a session that is now in memory."""

    def removed(self, live: LiveSession) -> None:
        """Forget a session that has left memory."""

    def may_restore(self, id: str) -> bool:
        """Whether `find` must look for the session in the store."""
        return False

    def reopen(self, id: str, principal: Principal | None) -> Session | None:
        """Make a session that has left memory from its id; None if it is in the store. Raises: ProtocolError."""
        return self._sessions.unseal(id, principal)

    async def find(self, id: str, principal: Principal | None) -> LiveSession | DovetailError:
        """Return the session with this id, or the error to send."""
        return self._sessions.find(id, principal)

    async def open(self, live: LiveSession, scope: Mapping[str, Any]) -> None:
        """Store a new session. Raises: StoreError."""

    async def save_phase(self, live: LiveSession) -> None:
        """Store the phase of a session if it has changed. Raises: StoreError, ProtocolError."""

    async def end(self, live: LiveSession) -> None:
        """End the session in all processes. Raises: StoreError."""
        self._sessions.end(live)

    def end_soon(self, live: LiveSession) -> None:
        """Schedule `end` from synchronous code."""
        self._sessions.end(live)

    # --- messages to other processes ------------------------------------------------------------------------

    async def forward_response(
        self, live: LiveSession, frame: Frame | RemoteProtocolError, message: bytes
    ) -> bool:
        """Forward the client's response to the process that waits for it; return whether one does.

        Raises:
            StoreError: that process cannot be reached.
        """
        return False

    async def forward_batch(self, live: LiveSession, events: list[Event], message: bytes) -> None:
        """Forward the responses of a batch. Raises: StoreError."""

    def cancel(self, live: LiveSession, message: bytes) -> None:
        """Forward a cancellation of a call that runs in another process."""

    def notify(self, live: LiveSession, message: bytes) -> None:
        """Send a message on the general stream in another process."""

    # --- streams --------------------------------------------------------------------------------------------

    @property
    def history(self) -> EventHistory | None:
        """The stored events of sessions (`EventHistory`); None if the store has them."""
        return self._service.event_history

    def log(self, live: LiveSession) -> SseEventLog:
        """Create the event log of a session."""
        from .sse_event_log import SseEventLog  # loaded with the first event stream

        history = self.history
        journal = None if history is None else history.journal(live.session)
        return SseEventLog(self._sessions.limits, self._sessions.event_budget, journal=journal)

    async def listen(self, live: LiveSession, *, resumed: bool) -> bool:
        """Take over the general stream. Return False if notifications may have been lost. Raises: StoreError."""
        return True

    async def find_stream(self, live: LiveSession, last: str) -> Found | None:
        """Find a stream of another process and its events after ``last``. Raises: StoreError."""
        return None

    def stream_opened(self, live: LiveSession, *, general: bool) -> None:
        """Record events for the general stream from its first response on."""
        live.listened = live.listened or general

    def vacate(self, live: LiveSession) -> None:
        """Announce that the last response of the general stream here has ended."""
