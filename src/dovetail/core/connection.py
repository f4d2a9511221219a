"""The states of a client's connection, as one table.

====================  =============================================================================
state                 meaning
====================  =============================================================================
``starting``          the transport is being opened
``negotiating``       the transport is up; era and revision are being found
``ready``             requests may be sent
``paused``            held back on purpose; nothing was lost
``backoff``           lost; waiting for the next try
``draining``          no new requests; those in flight may finish
``failed``            given up; close to release what is left
``closed``            over, for good
====================  =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from ..errors import StateError

_ENDS: Final = {"fail": "failed", "drain": "draining", "close": "closed"}
_LOST: Final = {"lost": "backoff", **_ENDS}
TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "starting": {"connected": "negotiating", **_LOST},
    # "restart": this peer needs another process, or another transport
    "negotiating": {"established": "ready", "restart": "starting", **_LOST},
    # "renegotiate": the server forgot the session
    "ready": {"pause": "paused", "renegotiate": "negotiating", **_LOST},
    "paused": {"resume": "ready", **_LOST},
    "backoff": {"retry": "starting", **_ENDS},
    "draining": {"lost": "closed", "fail": "failed", "close": "closed"},
    "failed": {"close": "closed"},
    "closed": {},
}
"""State → event → next state. What is not here is refused."""


class Change(Struct, frozen=True):
    """One step a connection took."""

    before: str
    event: str
    after: str
    reason: str | None = None
    """Why, in words, when there is more to say than the event."""


Observer = Callable[[Change], None]


class ConnectionMachine:
    """Where a connection stands. ``state`` is for reading; `advance` is the only way to change it.

    Every observer is told of every change, after it happened. Observers must not raise.
    """

    def __init__(self, *observers: Observer) -> None:
        self.state = "starting"
        self.observers: list[Observer] = list(observers)
        self.reason: str | None = None
        """The reason of the last change that had one: why a connection failed stays readable."""

    def may(self, event: str) -> bool:
        """Whether ``event`` is possible in this state."""
        return event in TRANSITIONS[self.state]

    def advance(self, event: str, reason: str | None = None) -> str:
        """Take one step and return the new state.

        Raises:
            StateError: this state has no such step; nothing changed and no observer was told.
        """
        before = self.state
        after = TRANSITIONS[before].get(event)
        if after is None:
            raise StateError(f"a connection that is {before} cannot {event}")
        self.state = after
        if reason is not None:
            self.reason = reason
        change = Change(before, event, after, reason)
        for observer in tuple(self.observers):
            observer(change)
        return after
