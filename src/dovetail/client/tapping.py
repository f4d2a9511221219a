"""A conversation that somebody listens to: for recordings, inspectors and gateways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..core.channel import Link
from ..core.endpoint import Endpoint
from ..drivers.clock import Clock
from .calling.waiting import Outgoing
from .conversation import Conversation, Peer

Tap = Callable[[str, bytes], None]


class TappedConversation(Conversation):
    """Tells ``tap`` of each message: its sender ("client" or "server") and its bytes."""

    def __init__(self, endpoint: Endpoint, peer: Peer, clock: Clock, tap: Tap) -> None:
        super().__init__(endpoint, peer, clock)
        self._tap = tap

    def connected(self, link: Link) -> None:
        super().connected(link)
        self._inner_exchange = self._exchange
        if self._exchange is not None:
            self._exchange = self._tapped_exchange
        self.link = cast("Link", _TappedLink(link, self._tap))
        self._send_many = None

    def received(self, message: bytes) -> None:
        self._tap("server", message)
        super().received(message)

    async def _tapped_exchange(self, outgoing: Outgoing) -> None:
        self._tap("client", outgoing.data)
        assert self._inner_exchange is not None
        await self._inner_exchange(outgoing)


class _TappedLink:
    """A link that tells what is sent over it; for everything else it is the link itself."""

    def __init__(self, link: Link, tap: Tap) -> None:
        self._link = link
        self._tap = tap

    def send(self, message: bytes) -> None:
        self._tap("client", message)
        self._link.send(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)
