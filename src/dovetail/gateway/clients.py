"""`Clients`: one client for all servers of a configuration file, each with its prefix. Failed servers are
left out.
"""

from __future__ import annotations

from typing import Unpack

from ..client import Client
from ..client.client_config import ClientOptions
from ..errors import DovetailError
from .gateway import Gateway, Source


class Clients(Client):
    """A `Client` for all servers of ``source``: the path of an ``mcp.json``, or its content.

    ```python
    async with Clients("mcp.json") as clients:
        await clients.call_tool("weather_forecast", {"city": "Oslo"})
    ```
    """

    def __init__(self, source: Source, **options: Unpack[ClientOptions]) -> None:
        self.gateway = Gateway(source)
        super().__init__(self.gateway, **options)

    def __repr__(self) -> str:
        return f"Clients({sorted(self.gateway.proxies)}, state={self.state!r})"

    @property
    def failed(self) -> dict[str, DovetailError]:
        """The unreachable servers, with the reason. Their tools return when they reconnect."""
        return self.gateway.failed
