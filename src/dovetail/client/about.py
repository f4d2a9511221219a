"""What a client knows about its connection and its server: the read-only part of `Client`."""

from __future__ import annotations

from ..model import Implementation, ServerCapabilities
from .calling.calls import Calls
from .life import Life


class About:
    """Properties to read at any time; before the first connection most of them are None or empty."""

    _life: Life
    _calls: Calls

    @property
    def state(self) -> str:
        """starting, negotiating, ready, paused, backoff, draining, failed or closed."""
        return self._life.machine.state

    @property
    def connected(self) -> bool:
        """Whether calls can be made right now."""
        return self._life.machine.state == "ready"

    @property
    def revision(self) -> str | None:
        """The revision spoken with the server; None before the first connection."""
        return None if self._calls.established is None else self._calls.established.revision.name

    @property
    def server_info(self) -> Implementation | None:
        """What the server calls itself; None before the first connection. Never decide anything by it."""
        return None if self._calls.established is None else self._calls.established.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server offers: ``client.server_capabilities.has("resources.subscribe")``."""
        established = self._calls.established
        return ServerCapabilities() if established is None else established.capabilities

    @property
    def instructions(self) -> str | None:
        """What the server wants the model to know about it."""
        return None if self._calls.established is None else self._calls.established.instructions

    @property
    def violations(self) -> dict[str, int]:
        """What the server sent that it may not, by kind, on this connection: counted and dropped."""
        conversation = self._life.conversation
        return {} if conversation is None else dict(conversation.endpoint.violations)

    @property
    def pending(self) -> int:
        """Requests that wait for an answer."""
        conversation = self._life.conversation
        return 0 if conversation is None else conversation.pending
