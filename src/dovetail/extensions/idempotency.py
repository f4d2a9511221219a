"""The extension ``io.dovetail/idempotency``: a tool call with an idempotency key runs once.

A server with a store has it. Without a store, ``Server(extensions=[Idempotency()])`` remembers the keys in memory:
they hold for one process.
"""

from __future__ import annotations

from ..cluster.idempotent_calls import IDEMPOTENT_RESULT_LIFETIME, IdempotentCalls
from ..errors import RegistrationError
from ..model.meta import IDEMPOTENCY_EXTENSION
from ..server.server import Server
from ..settings import checked_seconds
from ..stores.base import Store
from .extension import Extension


class Idempotency(Extension):
    """Idempotency keys: calls with the same key run once and get one result. A store registers it.

    The client sends the key with ``client.call_tool(…, idempotency_key=…)``.
    """

    id = IDEMPOTENCY_EXTENSION

    def __init__(self, *, lifetime: float = IDEMPOTENT_RESULT_LIFETIME) -> None:
        """Set how long results are remembered.

        Args:
            lifetime: Seconds for which the result of a call with a key is stored.
        """
        super().__init__()
        self.lifetime = checked_seconds("lifetime", lifetime)
        self._server: Server | None = None
        self._store: Store | None = None
        self._in_memory: IdempotentCalls | None = None
        """Runs the calls of a server without a store."""

    def attach(self, server: Server) -> None:
        """Run the calls of ``server`` that have a key once."""
        if self._server is not None:
            raise RegistrationError(
                f"this Idempotency(…) belongs to the server {self._server.name!r}: make another one"
            )
        self._server, lifecycle = server, server.lifecycle
        lifecycle.store_listeners.append(self._use_store)
        lifecycle.add(start=self._start, stop=self._stop)
        if lifecycle.store is not None:
            self._use_store(lifecycle.store)

    def _use_store(self, store: Store, keep_keys: bool = False) -> None:
        """Remember results in ``store``."""
        if store is not self._store:
            self._store = store
            once = self._remember_in(store)
            assert self._server is not None
            self._server.lifecycle.before_store_closes(once.close)

    def _remember_in(self, store: Store) -> IdempotentCalls:
        assert self._server is not None
        dispatcher = self._server.dispatcher
        once = IdempotentCalls(dispatcher, store, self.lifetime)
        dispatcher.pipeline.run_once_with(once)
        return once

    def _start(self) -> None:
        """The server starts: one that has got no store remembers in memory."""
        if self._store is None and self._in_memory is None:
            assert self._server is not None
            self._in_memory = self._remember_in(self._server.lifecycle.state_store)

    async def _stop(self) -> None:
        if self._in_memory is not None:
            await self._in_memory.close()
