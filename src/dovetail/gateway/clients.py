"""`Clients`: all servers of a file for a program, under their prefixes. One that fails does not stop the rest."""

from __future__ import annotations

from typing import Unpack

from ..client import Client
from ..client.client_config import ClientOptions
from ..errors import DovetailError
from .gateway import Gateway, Source


class Clients(Client):
    """A `Client` of all servers that ``source`` names: the path of an ``mcp.json``, or what one holds.

    ```python
    async with Clients("mcp.json") as clients:
        await clients.call_tool("weather_forecast", {"city": "Oslo"})
    ```
    """

    def __init__(self, source: Source, **options: Unpack[ClientOptions]) -> None:
        self.gateway = Gateway(source)
        super().__init__(self.gateway, **options)

    @property
    def failed(self) -> dict[str, DovetailError]:
        """The servers that cannot be reached now, and why; their tools come back by themselves."""
        return self.gateway.failed
