"""Questions that cannot be asked: what handlers of others get to hear, and what the protocol has for it."""

from __future__ import annotations

from ...errors import CapabilityError, ProtocolError
from ...server import Context
from ...server.asking.ask import CannotAsk
from ...server.failures import missing_capability
from ...wire.revisions import BY_NAME
from ..mcp.server.session import Unasked, current


class NotAsked(Exception):
    """The client cannot be asked; where the protocol has a word for that, it gets it."""

    def __init__(self, words: str, cause: CapabilityError) -> None:
        super().__init__(words)
        self.cause = cause


def unasked(error: BaseException | None) -> ProtocolError | None:
    """What a modern client is told when a handler failed for want of an answer; None where that is not the cause."""
    context: Context | None = current.get()
    if context is None or not BY_NAME[context.revision].modern:
        return None
    while error is not None:
        found = error.cause if isinstance(error, Unasked | NotAsked) else error
        if isinstance(found, CannotAsk):
            return missing_capability(found)
        error = error.__cause__
    return None
