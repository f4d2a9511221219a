"""Where requests may go that others name: neither a server nor a client must lead us into our own network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from ...client.fetch import Pinnable, Send
from ..core import urls
from ..core.privacy import PUBLIC, highest, leads_inside
from ..core.problems import AuthError, Fault


class AddressGuard:
    """Lets requests through to addresses that are no more private than that of the ``server`` which names them.

    A server on this machine may name an authorization server on this machine; one on the internet may not. Whoever has
    no address of its own, such as a client that says where its metadata lies (None), may name public ones alone.
    """

    def __init__(self, server: str | None, *, allow_private: bool) -> None:
        self._server = server
        self._allow = allow_private
        self._level: int | None = None

    async def check(self, url: str, what: str, fault: Fault) -> list[str] | None:
        """The addresses that a request to ``url`` may go to; None: any. A name without any has an empty list.

        Whoever connects uses these and does not look the name up again: the next answer may be another one.

        Raises:
            AuthError: nothing is to be sent there.
        """
        urls.secure(url, what, fault)
        if self._allow:
            return None
        addresses = await addresses_of(url)
        level = highest(addresses)
        if level == PUBLIC:
            return addresses
        if self._level is None:
            self._level = PUBLIC if self._server is None else highest(await addresses_of(self._server))
        if leads_inside(level, self._level):
            raise AuthError(
                f"{what} lies in a private network ({urls.origin(url)}), and whoever names it does not",
                fault=fault,
                advice="give allow_private=True if that is meant to be",
            )
        return addresses


@asynccontextmanager
async def pinned(send: Send, addresses: list[str] | None) -> AsyncGenerator[Send]:
    """``send`` for one host at ``addresses``; what an application brings that is no library's looks names up itself."""
    if addresses is None:
        yield send
    elif isinstance(send, Pinnable):
        async with send.pinned(addresses) as made:
            yield made
    else:
        yield send


async def addresses_of(url: str) -> list[str]:
    """The addresses of a host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            urlsplit(url).hostname or "", None, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
