"""`WebhookSubscriptions`: subscriptions whose events are posted to a callback URL.

A subscription is a record in the store that expires unless the client refreshes it. One process of a server delivers
all of them: the one that holds a lease. When it ends, another takes over, at the positions that the records have. So
an event is delivered at least once.

The key of a record is principal, URL, name and arguments; its id is a hash of them. The secret is sealed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, Raw, Struct

from ...core.principal import Principal
from ...errors import DovetailError, ProtocolError
from ...stores.base import SCAN_PAGE, Store, StoreError, StoreFull, StoreUnreadable
from ...stores.quotas import Quota, quota_owner, release, renew
from ...stores.versioned_records import VersionedRecords
from ...wire.seal import bind
from .event_model import (
    DeliveryStatus,
    FailureReason,
    SubscribeEventsParams,
    SubscribeEventsResult,
    event_not_found,
    exhausted,
    iso,
    seconds_of,
    subscription_not_found,
)
from .event_types import EventSubscriber, EventType
from .webhook_sender import Webhooks, WebhookSender
from .webhook_signatures import secret_bytes
from .webhook_worker import WebhookWorker

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher
    from .interest import Interests

log = logging.getLogger("dovetail.server")

DELIVERY_LEASE: Final = 15.0
"""Seconds after which another process delivers, if the one that did is gone."""
RESCAN_INTERVAL: Final = 60.0
"""Seconds between two looks for subscriptions that other processes have taken."""
PRINCIPAL_SHARE: Final = 8
"""One principal gets this fraction of the concurrent requests: an eighth."""
CHANGE_ATTEMPTS: Final = 16
"""Attempts to change a record that others change at the same time."""


class SubscribedPrincipal(Struct, array_like=True):
    """The principal of a subscription, as it was when it subscribed last."""

    subject: str
    issuer: str | None
    scopes: list[str]
    claims: dict[str, Any]
    client_id: str | None

    @classmethod
    def of(cls, principal: Principal) -> SubscribedPrincipal:
        claims = msgspec.json.decode(msgspec.json.encode(dict(principal.claims), enc_hook=str))
        return cls(principal.subject, principal.issuer, sorted(principal.scopes), claims, principal.client_id)

    def principal(self) -> Principal:
        return Principal(self.subject, self.issuer, frozenset(self.scopes), self.claims, self.client_id)


class WebhookRecord(Struct):
    """One subscription as it is stored."""

    id: str
    name: str
    arguments: Raw
    url: str
    principal: SubscribedPrincipal
    expires: float
    secret: str
    cursor: str | None
    made: str
    """Differs between two subscriptions with the same key, one after the other."""
    old_secret: str | None = None
    old_until: float = 0.0
    active: bool = True
    failures: int = 0
    """Events in a row that could not be delivered."""
    last_delivery_at: float | None = None
    last_error: FailureReason | None = None
    failed_since: float | None = None
    slots: tuple[str, ...] = ()

    def take_outcomes(self, known: WebhookRecord, suspend_after: int) -> None:
        """Take the outcomes of deliveries from ``known``, the record as the worker has it.

        A refresh that the worker has not seen yet has activated the deliveries again: failures before it do not count.
        """
        self.last_error, self.failed_since = known.last_error, known.failed_since
        self.last_delivery_at = known.last_delivery_at
        self.failures = 0 if self.active and not known.active else known.failures
        if self.failures >= suspend_after:
            self.active = False


_records = VersionedRecords(WebhookRecord)


class WebhookSubscriptions:
    """The webhook subscriptions of one server."""

    def __init__(
        self, dispatcher: Dispatcher, options: Webhooks, types: dict[str, EventType], interests: Interests
    ) -> None:
        server = hashlib.sha256(dispatcher.name.encode()).hexdigest()[:16]
        self.options = options
        self.sender = WebhookSender(options, dispatcher.clock)
        self.clock = dispatcher.clock
        self.interests = interests
        self._dispatcher = dispatcher
        self._types = types
        self._folder = f"events-webhook/{server}"
        self._topic = f"events-webhook/{server}"
        self._lease = f"events-delivery/{server}"
        self._process = os.urandom(8).hex()
        self._workers: dict[str, tuple[WebhookWorker, asyncio.Task[None]]] = {}
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    # --- the methods ----------------------------------------------------------------------------------------

    async def subscribe(
        self, params: SubscribeEventsParams, subscriber: EventSubscriber
    ) -> SubscribeEventsResult:
        """Make a subscription, or refresh it.

        Raises:
            ProtocolError: the params are not valid, a limit is reached, or the endpoint could not be verified.
        """
        address = params.delivery
        if address.mode != "webhook" or address.secret is UNSET:
            raise ProtocolError("invalid_params", "delivery needs mode 'webhook', url and secret")
        try:
            key = secret_bytes(address.secret)
        except ValueError as error:
            raise ProtocolError("invalid_params", f"delivery.secret: {error}") from None
        self.sender.check(address.url)
        id, now = self._id(subscriber, address.url), self.clock()
        lifetime = self._lifetime(params.ttl_ms)
        max_age = None if params.max_age_ms is None else seconds_of(params.max_age_ms)
        existing = await self.load(id)
        if existing is not None:
            return await self._refresh(existing, subscriber, address.secret, now + lifetime)
        slots = await self._acquire(subscriber, lifetime)
        try:
            if self.sender.needs_verification(address.url):
                await self._verify(subscriber, address.url, key, id)
            page = await subscriber.type.feed.read(subscriber, params.cursor, 1, max_age=max_age)
            assert subscriber.principal is not None
            record: WebhookRecord | None = WebhookRecord(
                id=id,
                name=subscriber.type.name,
                arguments=Raw(subscriber.canonical),
                url=address.url,
                principal=SubscribedPrincipal.of(subscriber.principal),
                expires=now + lifetime,
                secret=self._seal(id, address.secret),
                cursor=page.start,
                made=os.urandom(8).hex(),
                slots=slots,
            )
            if not await self._store.put(self._key(id), _records.encode(record), ttl=lifetime, only_new=True):
                record = None  # the same subscription was made at the same time
        except BaseException:
            await release(self._store, slots)
            raise
        if record is None:
            await release(self._store, slots)
            return await self.subscribe(params, subscriber)
        await self._changed(id)
        return SubscribeEventsResult(
            id=id, refresh_before=iso(record.expires), cursor=record.cursor, truncated=page.truncated
        )

    async def unsubscribe(self, subscriber: EventSubscriber, url: str) -> None:
        """End a subscription.

        Raises:
            ProtocolError: the subscription does not exist.
        """
        record = await self.load(self._id(subscriber, url))
        if record is None:
            raise subscription_not_found()
        await self.remove(record)

    async def _refresh(
        self, record: WebhookRecord, subscriber: EventSubscriber, secret: str, expires: float
    ) -> SubscribeEventsResult:
        principal = subscriber.principal
        assert principal is not None
        before = record

        def refreshed(found: WebhookRecord) -> None:
            nonlocal before
            before = msgspec.structs.replace(found)
            if self.open_secret(found.id, found.secret) != secret:
                found.old_secret, found.old_until = (
                    found.secret,
                    self.clock() + self.options.secret_grace_period,
                )
                found.secret = self._seal(found.id, secret)
            found.expires, found.principal = expires, SubscribedPrincipal.of(principal)
            if not found.active:
                found.active, found.failures = True, 0

        found = await self.change(record.id, refreshed)
        if found is None:
            raise subscription_not_found()  # it has expired just now: subscribing again makes a new one
        await renew(self._store, found.slots, found.expires - self.clock())
        await self._changed(found.id)
        status = DeliveryStatus(active=before.active, last_error=before.last_error)
        if before.last_delivery_at is not None:
            status.last_delivery_at = iso(before.last_delivery_at)
        if before.failed_since is not None:
            status.failed_since = iso(before.failed_since)
        return SubscribeEventsResult(
            id=found.id, refresh_before=iso(found.expires), cursor=found.cursor, delivery_status=status
        )

    async def _verify(self, subscriber: EventSubscriber, url: str, key: bytes, id: str) -> None:
        """Verify an endpoint, unless this principal has verified it before."""
        principal = subscriber.principal
        assert principal is not None
        who = hashlib.sha256(msgspec.json.encode([principal.key, url])).hexdigest()[:32]
        place = f"{self._folder}-verified/{who}"
        if await self._store.get(place) is None:
            async with self.share(principal):
                await self.sender.verify(url, [key], id)
            await self._store.put(place, b"1", ttl=self.options.max_ttl)

    async def _acquire(self, subscriber: EventSubscriber, ttl: float) -> tuple[str, ...]:
        options = self.options
        own, total = options.max_subscriptions_per_principal, options.max_subscriptions
        quota = Quota(self._store, "event-webhook", own=own, total=total)
        try:
            return await quota.acquire(quota_owner(subscriber.principal, {}), ttl)
        except StoreFull:
            raise exhausted("subscriptions", own) from None

    def _lifetime(self, ttl_ms: Any) -> float:
        """The seconds that a subscription is granted. It always expires: a client asks for more with a refresh."""
        options = self.options
        if ttl_ms is UNSET:
            return options.default_ttl
        if ttl_ms is None:
            return options.max_ttl
        return min(max(seconds_of(ttl_ms), options.min_ttl), options.max_ttl)

    def share(self, principal: Principal) -> asyncio.Semaphore:
        """The requests that the endpoints of one principal may keep busy. Slow ones must not delay the others."""
        found = self._shares.get(principal.key)
        if found is None:
            most = max(1, self.options.max_concurrent_requests // PRINCIPAL_SHARE)
            found = self._shares[principal.key] = asyncio.Semaphore(most)
        return found

    # --- records --------------------------------------------------------------------------------------------

    @property
    def _store(self) -> Store:
        return self._dispatcher.lifecycle.state_store

    def _id(self, subscriber: EventSubscriber, url: str) -> str:
        principal = subscriber.principal
        assert principal is not None
        parts = [principal.key, url, subscriber.type.name, subscriber.canonical.decode()]
        return f"sub_{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]}"

    def _key(self, id: str) -> str:
        return f"{self._folder}/{id}"

    def _seal(self, id: str, secret: str) -> str:
        dispatcher = self._dispatcher
        bound = bind("event webhook", id)
        return dispatcher.seal.seal("state", secret.encode(), expires=float("inf"), bound=bound)

    def open_secret(self, id: str, sealed: str) -> str | None:
        """Return a secret; None if the keys of the server have changed since."""
        try:
            bound = bind("event webhook", id)
            return self._dispatcher.seal.open("state", sealed, now=self.clock(), bound=bound).decode()
        except ProtocolError:
            return None

    def keys(self, record: WebhookRecord) -> list[bytes]:
        """Return the keys that sign the deliveries of a subscription, the current one first."""
        sealed = [record.secret]
        if record.old_secret is not None and record.old_until > self.clock():
            sealed.append(record.old_secret)
        secrets = [self.open_secret(record.id, one) for one in sealed]
        return [secret_bytes(one) for one in secrets if one is not None]

    def subscriber(self, record: WebhookRecord) -> EventSubscriber:
        """Return who gets the events of a subscription.

        Raises:
            ProtocolError: the event type is gone, takes other arguments now, or is not for the principal any more.
        """
        type = self._types.get(record.name)
        if type is None:
            raise event_not_found(record.name)
        return type.subscriber(msgspec.json.decode(record.arguments), record.principal.principal())

    async def load(self, id: str) -> WebhookRecord | None:
        found = await self._store.get(self._key(id))
        return None if found is None else _records.decode(found)

    async def change(self, id: str, edit: Callable[[WebhookRecord], None]) -> WebhookRecord | None:
        """Change a record. Returns None if it is gone."""
        for _ in range(CHANGE_ATTEMPTS):
            found = await self._store.get(self._key(id))
            if found is None:
                return None
            record = _records.decode(found)
            edit(record)
            left = record.expires - self.clock()
            if left <= 0:
                return None
            if await self._store.put(self._key(id), _records.encode(record), ttl=left, expect=found):
                return record
        raise StoreError(f"the subscription {id} is changed too often")

    async def remove(self, record: WebhookRecord) -> None:
        """End a subscription."""
        if await self._store.delete(self._key(record.id)):
            await release(self._store, record.slots)
        await self._changed(record.id)

    # --- delivering -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start delivering, as soon as no other process does."""
        await self.sender.open()
        self._stop = self._store.subscribe(self._topic, self._told)
        self._task = asyncio.create_task(self._deliver(), name="dovetail-webhooks")

    async def close(self) -> None:
        """Stop delivering. Another process continues, or this one after a restart."""
        if self._stop is not None:
            self._stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.sender.close()

    async def _changed(self, id: str) -> None:
        await self._store.publish(self._topic, id.encode())

    def _told(self, message: bytes) -> None:
        found = self._workers.get(message.decode("ascii", "replace"))
        if found is not None:
            found[0].wake()
        else:
            self._wake.set()

    async def _deliver(self) -> None:
        try:
            while True:
                try:
                    await self._hold_lease()
                except (StoreError, OSError) as error:
                    log.warning("webhooks are not delivered: %s", error)
                    await self._end_workers()
                self._wake.clear()
                await self._pause()
        finally:
            await self._end_workers()
            try:
                await self._store.lease(self._lease, self._process, 0)
            except DovetailError as error:
                log.warning("the lease of webhook deliveries was not released: %s", error)

    async def _pause(self) -> None:
        """Wait until a subscription is new, or the lease has to be renewed."""
        try:
            async with asyncio.timeout(DELIVERY_LEASE / 3):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _hold_lease(self) -> None:
        """Deliver for as long as this process has the lease."""
        loop = asyncio.get_running_loop()
        scan_at = 0.0
        while await self._store.lease(self._lease, self._process, DELIVERY_LEASE):
            if self._wake.is_set() or loop.time() >= scan_at:
                self._wake.clear()
                scan_at = loop.time() + RESCAN_INTERVAL
                await self._start_workers()
            await self._pause()
        await self._end_workers()

    async def _start_workers(self) -> None:
        after = ""
        while page := await self._store.scan(self._folder, after=after, limit=SCAN_PAGE):
            for key, value in page:
                id = key.rpartition("/")[2]
                if id not in self._workers:
                    try:
                        record = _records.decode(value)
                    except StoreUnreadable as error:
                        log.warning("the webhook %s is not delivered: %s", id, error)
                        continue
                    worker = WebhookWorker(self, record)
                    task = asyncio.create_task(worker.run(), name=f"dovetail-webhook-{id}")
                    self._workers[id] = (worker, task)
                    task.add_done_callback(partial(self._ended, id))
            after = page[-1][0]

    def _ended(self, id: str, _: asyncio.Task[None]) -> None:
        self._workers.pop(id, None)
        self._wake.set()  # the same subscription may have been made again

    async def _end_workers(self) -> None:
        tasks = [task for _, task in self._workers.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
