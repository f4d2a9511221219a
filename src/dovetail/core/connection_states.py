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
"""State → event → next state. What is not here is refused."""


class ConnectionMachine:
    """Where a connection stands. ``told`` hears of every new state, after the change; it must not raise."""

    def __init__(self, told: Callable[[str], object] | None = None) -> None:
        self.state = "starting"
        self._told = told

    def may(self, event: str) -> bool:
        """Whether ``event`` is possible in this state."""
        return event in TRANSITIONS[self.state]

    def try_advance(self, event: str) -> None:
        """`advance` if this state has such a step."""
        if self.may(event):
            self.advance(event)

    def advance(self, event: str) -> str:
        """Take one step and return the new state.

        Raises:
            StateError: this state has no such step; nothing changed and nobody was told.
        """
        if not self.may(event):
            raise StateError(f"a connection that is {self.state} cannot {event}")
        self.state = after = TRANSITIONS[self.state][event]
        if self._told is not None:
            self._told(after)
        return after
