"""HTTP clients of other libraries, told which address a name has: they look names up themselves otherwise."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from ...errors import TransportError
from ...transports.http.client.adapters import Head, Library, LibrarySession
from ...transports.http.client.addresses import address_of, shown
from ...transports.http.client.dialing import unreachable

__all__ = ["LibrarySession", "PinnedLibrary"]


class PinnedLibrary(Library):
    """``inner`` for requests to one host: they go to its ``addresses``, in its name, with its certificate."""

    def __init__(self, inner: Library, addresses: Sequence[str]) -> None:
        super().__init__(inner.client, inner.name)
        self.errors = inner.errors
        self._inner = inner
        self._addresses = addresses

    @property
    def is_closed(self) -> bool:
        return self._inner.is_closed

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, name: str | None = None
    ) -> Head:
        wanted = address_of(url)
        secure, name, port = wanted.origin
        # Their pools know connections by the address alone: one that was made in this name is for no other.
        lines = {"Host": wanted.name, "Connection": "close", **headers}
        failure: Exception = unreachable(socket.gaierror(socket.EAI_NONAME, "no address"), shown(url))
        for place in self._addresses:
            host = f"[{place}]" if ":" in place else place
            there = f"http{'s' if secure else ''}://{host}:{port}{wanted.path}"
            try:
                return await self._inner.send(method, there, lines, body, name if secure else None)
            except self._inner.unconnected as error:
                failure = error
        raise failure

    def explain(self, error: Exception, where: str, begun: bool) -> TransportError:
        return self._inner.explain(error, where, begun)
