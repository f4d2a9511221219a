"""A server with a store: what it takes from it at its start, shares through it, and gives back at its end.

The store is opened before the author's lifespan and closed after it. Unless keys were given, those that seal session
ids, cursors and the state of questions are kept in the store, so that all processes have the same and a restart
changes none. News for subscribers (lists, resources, tasks) goes to every process that has the same store open.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..core.subscriptions import Change
from ..errors import DovetailError
from ..server.execution import Enter
from ..server.store_choice import STORE_PROBE_INTERVAL
from ..stores.base import GAP, Store
from ..stores.send_queue import SendQueue
from ..wire.seal import Keys, Seal
from .process_registry import TASK_HEARTBEAT_INTERVAL
from .replay_buffer import ReplayBuffer

if TYPE_CHECKING:
    from ..server.server import Server

NEWS_WAITING: Final = 10_000
"""Pieces of news on their way to other processes; a store that takes none makes the oldest go."""


log = logging.getLogger("dovetail.server")

_KEY: Final = "seal/key"
_TOPIC: Final = "news"
_read_news = msgspec.json.Decoder(Change).decode


def life(server: Server, store: Store, enter: Enter | None, *, keep_keys: bool) -> Enter:
    """The lifespan of a server with a store, around that of its author."""

    @asynccontextmanager
    async def manager() -> AsyncGenerator[Any, None]:
        await store.open()
        if keep_keys:
            server.seal = Seal(
                await _kept_keys(store), server.limits.max_request_state_bytes, owner=server.name
            )
        spread = _Spread(server, store)
        watch = asyncio.create_task(_watch_tasks(server), name="dovetail-tasks")
        try:
            if enter is None:
                yield None
            else:
                async with enter() as value:
                    yield value
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            if server.before_store_closes is not None:
                await server.before_store_closes()
            await spread.close()
            await store.close()

    return manager


async def probe(store: Store) -> None:
    """Whether the store takes and gives. Raises: StoreError."""
    key = f"health/{secrets.token_hex(4)}"
    await store.put(key, b"1", ttl=STORE_PROBE_INTERVAL)
    await store.delete(key)


async def _watch_tasks(server: Server) -> None:
    """Look after tasks, ours and those of the dead, from the first tool on that may run as one."""
    while server.tasks is None:  # noqa: ASYNC110  it comes with a tool, seldom while the server runs
        await asyncio.sleep(TASK_HEARTBEAT_INTERVAL)
    if server.tasks.tasks.durable is not None:
        await server.tasks.tasks.durable.watch()


async def _kept_keys(store: Store) -> Keys:
    """The key all processes share, made by whoever came first."""
    await store.put(_KEY, secrets.token_bytes(32), only_new=True)
    found = await store.get(_KEY)
    if found is None:
        raise DovetailError("the store forgets at once what it was given")
    return Keys(found)


class _Spread:
    """Hands news to the other processes of this server, and theirs to the subscribers here."""

    def __init__(self, server: Server, store: Store) -> None:
        self._hub = server.hub
        # Servers of another name may share the store.
        self._topic = f"{_TOPIC}/{hashlib.sha256(server.name.encode()).hexdigest()[:16]}"
        self._me = secrets.token_bytes(8)
        self._outbox = SendQueue(store, NEWS_WAITING)
        self._stops = (store.subscribe(self._topic, self._take), store.subscribe(GAP, self._missed))
        self._hub.publish_remote = self._spread
        self._recent = ReplayBuffer(self._hub, time.monotonic)
        self._hub.on_publish, self._hub.notify_missed = self._recent.note, self._recent.tell_again

    def _spread(self, news: Change) -> None:
        self._outbox.put(self._topic, self._me + msgspec.json.encode(news))

    def _take(self, message: bytes) -> None:
        if not message.startswith(self._me):  # our own subscribers have heard it already
            try:
                self._hub.notify_local(_read_news(message[len(self._me) :]))
            except msgspec.DecodeError:
                log.warning("news of a newer version was not understood")

    def _missed(self, _: bytes) -> None:
        """News may have been lost: to whoever listens here, anything may have changed."""
        self._recent.lost()
        self._hub.refresh_all()

    async def close(self) -> None:
        self._hub.publish_remote = self._hub.on_publish = self._hub.notify_missed = None
        for stop in self._stops:
            stop()
        await self._outbox.close()
