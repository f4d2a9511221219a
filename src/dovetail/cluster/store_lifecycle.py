"""The lifespan of a server with a store: opening it, sealing keys, and notification relay.

The store is opened before the author's lifespan and closed after it. Without configured keys, the keys that
seal session ids, cursors and request state are stored in the store: all processes share them and they survive
a restart. Change notifications (lists, resources, tasks) go to every process that has the same store open.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from ..core.subscription_hub import PublishedChange
from ..errors import DovetailError
from ..server.lifecycle import Enter
from ..server.store_choice import STORE_PROBE_INTERVAL
from ..stores.base import GAP, Store
from ..stores.send_queue import SendQueue
from ..wire.seal import Keys
from .process_registry import TASK_HEARTBEAT_INTERVAL
from .replay_buffer import ReplayBuffer

if TYPE_CHECKING:
    from ..server.dispatcher import Dispatcher

MAX_QUEUED_CHANGES: Final = 10_000
"""Changes queued for other processes. When the store does not accept them, the oldest are dropped."""


log = logging.getLogger("dovetail.server")

_KEY: Final = "seal/key"
_TOPIC: Final = "news"
_read_news = msgspec.json.Decoder(PublishedChange).decode


def store_lifespan(dispatcher: Dispatcher, store: Store, enter: Enter | None, *, keep_keys: bool) -> Enter:
    """Return the lifespan of a server with a store, around the author's lifespan."""

    @asynccontextmanager
    async def manager() -> AsyncGenerator[Any, None]:
        await store.open()
        if keep_keys:
            dispatcher.use_keys(await _stored_keys(store))
        spread = _NotificationRelay(dispatcher, store)
        watch = asyncio.create_task(_watch_tasks(dispatcher), name="dovetail-tasks")
        try:
            if enter is None:
                yield None
            else:
                async with enter() as value:
                    yield value
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            await dispatcher.lifecycle.leave_store()
            await spread.close()
            await store.close()

    return manager


async def probe(store: Store) -> None:
    """Check that the store accepts writes and returns them. Raises: StoreError."""
    key = f"health/{secrets.token_hex(4)}"
    await store.put(key, b"1", ttl=STORE_PROBE_INTERVAL)
    await store.delete(key)


async def _watch_tasks(dispatcher: Dispatcher) -> None:
    """Run the task heartbeat, from the first registration of a tool that may run as a task."""
    pipeline = dispatcher.pipeline
    while pipeline.deferral is None:  # noqa: ASYNC110  it comes with a tool, seldom while the server runs
        await asyncio.sleep(TASK_HEARTBEAT_INTERVAL)
    await pipeline.deferral.heartbeat()


async def _stored_keys(store: Store) -> Keys:
    """Return the shared sealing key, created by the first process."""
    await store.put(_KEY, secrets.token_bytes(32), only_new=True)
    found = await store.get(_KEY)
    if found is None:
        raise DovetailError("the store lost a value that was just written; check its memory limit")
    return Keys(found)


class _NotificationRelay:
    """Relays change notifications between the processes of this server."""

    def __init__(self, dispatcher: Dispatcher, store: Store) -> None:
        self._hub = dispatcher.subscriptions.hub
        # Servers with other names may share the store.
        self._topic = f"{_TOPIC}/{hashlib.sha256(dispatcher.name.encode()).hexdigest()[:16]}"
        self._sender_id = secrets.token_hex(8)
        self._published = itertools.count(1)
        self._send_queue = SendQueue(store, MAX_QUEUED_CHANGES)
        self._stops = (store.subscribe(self._topic, self._receive), store.subscribe(GAP, self._on_gap))
        self._hub.publish_remote = self._publish
        self._replay_buffer = ReplayBuffer(self._hub, time.monotonic)
        self._hub.on_publish, self._hub.notify_missed = self._replay_buffer.record, self._replay_buffer.replay

    def _publish(self, news: PublishedChange) -> PublishedChange:
        news = replace(news, origin=(self._sender_id, next(self._published)))
        self._send_queue.put(self._topic, msgspec.json.encode(news))
        return news

    def _receive(self, message: bytes) -> None:
        try:
            news = _read_news(message)
        except msgspec.DecodeError:
            log.warning("notification rejected: unknown format, sent by another version of Dovetail")
            return
        if (
            news.origin is None or news.origin[0] != self._sender_id
        ):  # local subscribers were already notified
            self._hub.notify_local(news)

    def _on_gap(self, _: bytes) -> None:
        """Tell all local subscribers that anything may have changed, because notifications were lost."""
        self._replay_buffer.mark_gap()
        self._hub.refresh_all()

    async def close(self) -> None:
        self._hub.publish_remote = self._hub.on_publish = self._hub.notify_missed = None
        for stop in self._stops:
            stop()
        await self._send_queue.close()
