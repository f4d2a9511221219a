"""Whether the client of a lasting connection is there: it has to begin in time, and is asked when it has been quiet."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ..errors import DovetailError, RequestTimeout, TransportError
from ..settings import INITIALIZE_SECONDS, PING_SECONDS, Timeouts

if TYPE_CHECKING:
    from .duplex import Duplex

log = logging.getLogger("dovetail")

PATIENCE: Final = Timeouts(connect=None, idle=None, total=PING_SECONDS)


class Pulse:
    """Hangs up on a client that does not begin; ``quiet`` seconds without a word, and a legacy one gets a ``ping``.

    Whatever it answers, it is there. On 2026-07-28 a server asks nothing: its clients are known by their listen
    streams, and TCP finds those that are gone.
    """

    def __init__(self, duplex: Duplex, *, begins: bool, quiet: float | None) -> None:
        self._duplex = duplex
        self._quiet = quiet
        self._heard = 0
        self._loop = asyncio.get_running_loop()
        self._first = self._loop.call_later(INITIALIZE_SECONDS, self._begun) if begins else None
        self._next = None if quiet is None else self._loop.call_later(quiet, self._look)
        self._asking: asyncio.Task[None] | None = None

    def stop(self) -> None:
        for timer in (self._first, self._next, self._asking):
            if timer is not None:
                timer.cancel()

    def _begun(self) -> None:
        """Whoever connects has something to say soon; document 000: 30 s for initialization."""
        if not self._duplex.endpoint.understood:
            self._duplex.hang_up()

    def _look(self) -> None:
        duplex, heard = self._duplex, self._heard
        self._heard = duplex.heard
        if heard == duplex.heard and duplex.endpoint.session is not None and not duplex.busy:
            self._asking = self._loop.create_task(self._ask())
        elif self._quiet is not None:
            self._next = self._loop.call_later(self._quiet, self._look)

    async def _ask(self) -> None:
        try:
            await self._duplex.request("ping", None, PATIENCE)
        except (RequestTimeout, TransportError) as error:
            log.info("a client does not answer, its connection is closed: %s", error.message)
            self._duplex.hang_up()
            return
        except DovetailError:
            pass  # it does not like the question, but it is there
        self._look()
