"""The connection states of a client, as one table.

====================  =============================================================================
state                 meaning
====================  =============================================================================
``starting``          the transport is being opened
``negotiating``       the transport is open; era and revision are negotiated
``ready``             requests may be sent
``paused``            paused by the caller; the connection is still open
``backoff``           disconnected; waiting before the next reconnect
``draining``          no new requests; those in flight may finish
``failed``            reconnecting failed for good; close to release resources
``closed``            closed; cannot be reopened
====================  =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..errors import StateError

_ENDS: Final = {"fail": "failed", "drain": "draining", "close": "closed"}
_LOST: Final = {"lost": "backoff", **_ENDS}
TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "starting": {"connected": "negotiating", **_LOST},
    # "restart": this peer needs another process, or another transport
    "negotiating": {"established": "ready", "restart": "starting", **_LOST},
    "ready": {"pause": "paused", **_LOST},
    "paused": {"resume": "ready", **_LOST},
    "backoff": {"retry": "starting", **_ENDS},
    "draining": {"lost": "closed", "fail": "failed", "close": "closed"},
    "failed": {"close": "closed"},
    "closed": {},
}
"""State → event → next state. Other events are errors."""


class ConnectionMachine:
    """The current state of a connection.

    ``notify`` is called with every new state, after the change; it must not raise.
    """

    def __init__(self, notify: Callable[[str], object] | None = None) -> None:
        self.state = "starting"
        self._notify = notify

    def may(self, event: str) -> bool:
        """Whether ``event`` is allowed in this state."""
        return event in TRANSITIONS[self.state]

    def try_advance(self, event: str) -> None:
        """Call `advance` if this state allows ``event``."""
        if self.may(event):
            self.advance(event)

    def advance(self, event: str) -> str:
        """Apply ``event`` and return the new state.

        Raises:
            StateError: this state does not allow the event. Nothing changed and ``notify`` was not called.
        """
        if not self.may(event):
            raise StateError(f"connection in state {self.state!r} does not allow {event!r}")
        self.state = after = TRANSITIONS[self.state][event]
        if self._notify is not None:
            self._notify(after)
        return after
