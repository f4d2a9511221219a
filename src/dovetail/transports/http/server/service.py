"""What the HTTP transport needs of a server beyond `core.channel.Service`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ....core.channel import Service
from ....wire.seal import Seal


class HttpService(Service, Protocol):
    """A service with a life of its own and keys for what it hands out."""

    seal: Seal
    clock: Callable[[], float]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def end_listening(self) -> None: ...
