"""`WebhookWorker`: delivers the events of one webhook subscription.

Each event is retried separately, with growing delays, so that one that fails does not delay the others. The position of
the subscription advances when all events before it have been delivered or given up; it is in every delivery, and in
the record from which another process continues.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ...errors import ProtocolError
from ...stores.base import StoreError
from .event_feeds import webhook_body
from .event_model import EventOccurrence, error_object
from .event_types import EventSubscriber
from .webhook_sender import DeliveryFailed, message_id

if TYPE_CHECKING:
    from .webhook_subscriptions import WebhookRecord, WebhookSubscriptions

log = logging.getLogger("dovetail.server")

QUIET_INTERVAL: Final = 30.0
"""Seconds without events after which a subscription is checked again."""
FAILURE_PAUSE: Final = 10.0
"""Seconds after which a subscription is taken up again whose source or hook has failed."""
RETRY_JITTER: Final = 0.2
"""The part of a pause between two attempts that is random."""


class _Delivery(Struct, eq=False):
    """One event on its way."""

    cursor: str | None
    task: asyncio.Task[None]


class WebhookWorker:
    """Delivers the events of one subscription until it ends."""

    def __init__(self, subscriptions: WebhookSubscriptions, record: WebhookRecord) -> None:
        self._all = subscriptions
        self._record = record
        self._cursor = self._read_to = record.cursor
        self._share = subscriptions.share(record.principal.principal())
        self._pending: deque[_Delivery] = deque()
        self._woken = asyncio.Event()
        self._progress = False
        """Whether the record has to be written: the position or the outcome of a delivery is new."""

    def wake(self) -> None:
        """The record has changed."""
        self._woken.set()

    async def run(self) -> None:
        """Deliver until the subscription ends; then, unless it has expired, say why."""
        try:
            await self._run()
        except ProtocolError as error:  # the subscription is not valid any more
            await self._terminate(error)
        except Exception:
            log.exception("the deliveries of %s failed; they begin again", self._record.id)
            await asyncio.sleep(FAILURE_PAUSE)
        finally:
            for delivery in self._pending:
                delivery.task.cancel()
            if self._pending:
                await asyncio.wait([delivery.task for delivery in self._pending])

    async def _run(self) -> None:
        subscriber = self._all.subscriber(self._record)
        async with self._all.interests.hold(subscriber):
            while True:
                self._woken.clear()
                if not await self._renewed():
                    return
                subscriber = self._all.subscriber(self._record)
                version = subscriber.type.feed.version
                if not self._all.keys(self._record):
                    log.warning(
                        "the secret of the webhook %s cannot be read: seal keys changed", self._record.id
                    )
                    await self._all.remove(self._record)
                    return
                more = self._record.active and await self._read(subscriber)
                await self._settle(subscriber, version, more=more)

    async def _renewed(self) -> bool:
        """Load the record, and write how far the deliveries are. Returns whether it is still there."""

        def edit(found: WebhookRecord) -> None:
            mine = self._record
            if found.made != mine.made:
                return
            found.cursor = self._cursor
            found.take_outcomes(mine, self._all.options.suspend_after)

        if self._progress:
            self._progress = False
            found = await self._all.change(self._record.id, edit)
        else:
            found = await self._all.load(self._record.id)
        if found is None or found.made != self._record.made:
            return False
        self._record = found
        return True

    async def _read(self, subscriber: EventSubscriber) -> bool:
        """Read events, as far as there is room for them, and begin to deliver them. Returns whether there are more."""
        room = self._all.options.max_pending_events - len(self._pending)
        if room <= 0:
            return False
        page = await subscriber.type.feed.read(subscriber, self._read_to, room)
        if page.truncated:
            self._begin(page.start, self._post_message("gap", {"cursor": page.start}))
        for event in page.events:
            self._begin(event.cursor, self._deliver(event))
        if not page.events and not self._pending and page.cursor != self._cursor:
            self._cursor, self._progress = page.cursor, True  # events that are for others
        self._read_to = page.cursor
        return page.more and room > len(page.events)

    def _begin(self, cursor: str | None, work: Any) -> None:
        self._pending.append(_Delivery(cursor, asyncio.create_task(work)))

    async def _settle(self, subscriber: EventSubscriber, version: int, *, more: bool) -> None:
        """Wait for the next event or outcome, and record deliveries."""
        if not more:
            feed = subscriber.type.feed
            limit = min(QUIET_INTERVAL, max(0.0, self._record.expires - self._all.clock()) + 0.01)
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._woken.wait())]
            if len(self._pending) < self._all.options.max_pending_events and self._record.active:
                waits.append(asyncio.ensure_future(feed.wait(version, limit)))
            try:
                await asyncio.wait(
                    [*waits, *(one.task for one in self._pending if not one.task.done())],
                    timeout=limit,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                for one in waits:
                    one.cancel()
                await asyncio.wait(waits)
        while self._pending and self._pending[0].task.done():
            self._cursor, self._progress = self._pending.popleft().cursor, True

    async def _deliver(self, event: EventOccurrence) -> None:
        """Deliver one event, or give it up."""
        failure = await self._try(event.event_id, lambda: webhook_body(event, self._cursor))
        record, now = self._record, self._all.clock()
        self._progress = True
        if failure is None:
            record.failures, record.last_error, record.failed_since, record.last_delivery_at = (
                0,
                None,
                None,
                now,
            )
            return
        record.last_error = failure.reason
        if not failure.final:
            record.failures += 1
            record.failed_since = record.failed_since or now
        log.warning("webhook delivery given up id=%s reason=%s", record.id, failure.reason)

    async def _post_message(self, type: str, members: dict[str, Any]) -> None:
        body = msgspec.json.encode({"type": type, **members})
        failure = await self._try(message_id(type), lambda: body)
        if failure is not None:
            log.warning("webhook message not delivered id=%s type=%s", self._record.id, type)

    async def _try(self, id: str, body: Any) -> DeliveryFailed | None:
        """Try until it is delivered. Each attempt has a new time and signature. Returns the last failure."""
        options, failure = self._all.options, DeliveryFailed("timeout")
        for pause in (0.0, *options.retry_delays):
            if pause:
                await asyncio.sleep(pause * (1 + RETRY_JITTER * random.random()))
            record = self._record
            try:
                async with self._share:
                    await self._all.sender.post(record.url, self._all.keys(record), record.id, id, body())
            except DeliveryFailed as error:
                failure = error
                if error.final:
                    return failure
            else:
                return None
        return failure

    async def _terminate(self, error: ProtocolError) -> None:
        """End the subscription, and tell the endpoint why."""
        log.info("webhook subscription ended id=%s: %s", self._record.id, error.message)
        try:
            await self._all.remove(self._record)
        except StoreError as failure:
            log.warning("the webhook %s was not removed: %s", self._record.id, failure)
        await self._post_message("terminated", {"error": error_object(error)})
