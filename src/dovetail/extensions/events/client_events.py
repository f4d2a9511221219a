"""`EventsClient`: the events extension of a client.

A subscription is an async iterator, whichever way its events come: by polling, on a stream, or at a callback URL. It
reconnects with its cursor, and drops duplicate events.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

from msgspec import UNSET, Struct, field

from ...client.client import Client
from ...errors import (
    CapabilityError,
    DovetailError,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    StateError,
    TransportError,
)
from ...model.meta import SUBSCRIPTION_ID
from ...settings import Timeouts
from ..extension import Extension
from .event_model import (
    EXTENSION,
    DeliveryMode,
    DeliveryStatus,
    EventDefinition,
    ListEventsResult,
    PollEventsResult,
    SubscribeEventsResult,
    unix,
)
from .webhook_receiver import WebhookMessage, WebhookReceiver
from .webhook_signatures import new_secret

log = logging.getLogger("dovetail.client")

CAPABILITY: Final = f"extensions.{EXTENSION}"
LIST_PAGES: Final = 100
"""Pages of ``events/list`` that are read."""
MAX_RETRY_DELAY: Final = 30.0
"""Seconds between two attempts to reach a server that does not answer, at most."""
MIN_REFRESH_DELAY: Final = 1.0
"""Seconds between two refreshes of a webhook subscription, at least."""
EVENT_IDS_REMEMBERED: Final = 1000
"""Events of one subscription that are recognised when they come again."""
_ENDLESS: Final = Timeouts(idle=None, total=None)


class ReceivedEvent(Struct, frozen=True, kw_only=True):
    """One event. Its data come from outside: treat them like the result of a tool."""

    id: str
    name: str
    timestamp: str
    data: Any
    cursor: str | None


class _News(Struct, rename="camel", kw_only=True):
    """The params of all notifications of a stream."""

    event_id: str = ""
    name: str = ""
    timestamp: str = ""
    data: Any = None
    cursor: str | None = None
    truncated: bool = False
    error: dict[str, Any] = {}
    meta: dict[str, Any] = field(name="_meta", default_factory=dict[str, Any])


class EventsClient(Extension):
    """The events of a server, for a client. This extension is experimental: SEP-3415 is a draft.

    ```python
    events = EventsClient()
    async with Client(url, extensions=[events]) as client:
        async with events.subscribe("incident.created", {"severity": "P1"}) as incidents:
            async for incident in incidents:
                print(incident.data)
    ```
    """

    id = EXTENSION

    def __init__(
        self,
        *,
        webhook: WebhookReceiver | None = None,
        min_poll_interval: float = 1.0,
        max_queued_events: int = 1000,
        silence: float = 90.0,
    ) -> None:
        """Set the options.

        Args:
            webhook: The receiver of webhooks. With it, subscriptions use webhooks where the server has them.
            min_poll_interval: Seconds between two polls, at least, whatever the server wants.
            max_queued_events: Events of one subscription that wait for the program.
            silence: Seconds without a message after which a stream is opened again.
        """
        super().__init__()
        self.webhook = webhook
        self.min_poll_interval = min_poll_interval
        self.max_queued_events = max_queued_events
        self.silence = silence
        self.opening = asyncio.Lock()
        """One stream is opened at a time: its first notification says which id it has."""
        self.streams: dict[int | str, EventSubscription] = {}
        """The subscriptions with a stream, by the id of the stream."""
        self.unconfirmed: EventSubscription | None = None
        """The subscription whose stream is being opened."""
        self._client: Client | None = None
        self._subscriptions: set[EventSubscription] = set()

    @asynccontextmanager
    async def lifespan(self, service: Any) -> AsyncGenerator[None]:
        """Receive the notifications of ``service``, a `Client`, until it closes."""
        if self._client is not None:
            raise StateError("this EventsClient belongs to an open client: make another")
        self._client, self.opening = service, asyncio.Lock()
        for name in ("active", "event", "heartbeat", "error", "terminated"):
            self._hear(service, name)
        try:
            yield
        finally:
            for subscription in list(self._subscriptions):
                await subscription.end()
            self._client = None

    @property
    def client(self) -> Client:
        """The client that this object belongs to. Raises StateError: it is not open."""
        if self._client is None:
            raise StateError("the client is not open: use Client(…, extensions=[events]) in a block")
        return self._client

    def _hear(self, client: Client, name: str) -> None:
        def heard(news: _News) -> None:
            id = news.meta.get(SUBSCRIPTION_ID, "")
            if not isinstance(id, int | str):
                return  # it is of no request
            found = self.streams.get(id)
            if found is None and name == "active" and self.unconfirmed is not None:
                found, self.unconfirmed = self.unconfirmed, None
                self.streams[id] = found
            if found is not None:
                found.received(name, news)

        client.add_notification(f"notifications/events/{name}", heard, params=_News)

    async def list(self) -> list[EventDefinition]:
        """Return the event types of the server.

        Raises:
            CapabilityError: the server has no events.
        """
        found: list[EventDefinition] = []
        cursor: str | None = None
        for _ in range(LIST_PAGES):
            params = {} if cursor is None else {"cursor": cursor}
            page = await self.request("events/list", params, ListEventsResult)
            found += page.events
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    def subscribe(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        delivery: DeliveryMode | None = None,
        cursor: str | None = None,
        max_age: float | None = None,
        ttl: float | None = None,
    ) -> EventSubscription:
        """Return a subscription: enter it with ``async with``, then iterate over it.

        Args:
            name: The name of the event type.
            arguments: The arguments of the subscription.
            delivery: "poll", "push" or "webhook"; by default what suits both sides best.
            cursor: The `EventSubscription.cursor` of an earlier subscription; without it the events from now on.
            max_age: Seconds; events that are older are left out.
            ttl: Seconds that a webhook subscription should last between two refreshes.
        """
        return EventSubscription(self, name, dict(arguments or {}), delivery, cursor, max_age, ttl)

    async def request(self, method: str, params: Mapping[str, Any], result: Any, **options: Any) -> Any:
        """Send a request of the extension."""
        return await self.client.request(method, params, result=result, capability=CAPABILITY, **options)

    def add(self, subscription: EventSubscription) -> None:
        """Note a subscription that has begun."""
        self._subscriptions.add(subscription)

    def discard(self, subscription: EventSubscription) -> None:
        """Forget a subscription that has ended."""
        self._subscriptions.discard(subscription)


class EventSubscription:
    """The events of one subscription, as an async iterator."""

    def __init__(
        self,
        events: EventsClient,
        name: str,
        arguments: dict[str, Any],
        delivery: DeliveryMode | None,
        cursor: str | None,
        max_age: float | None,
        ttl: float | None,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.delivery = delivery
        """How the events come."""
        self.cursor = cursor
        """The position after the last event that the program is done with. Store it, and pass it to `subscribe`."""
        self.gaps = 0
        """How often the server said that events are missing."""
        self.status: DeliveryStatus | None = None
        """How the deliveries of a webhook went, as of the last refresh."""
        self._events = events
        self._max_age = max_age
        self._ttl = ttl
        self._read_to = cursor
        """The position after the last event that is in the queue."""
        self._queue: asyncio.Queue[tuple[ReceivedEvent | None, str | None]] = asyncio.Queue()
        self._taken: tuple[str | None] | None = None
        """The position after the event that the program has now."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._error: BaseException | None = None
        self._finished = asyncio.Event()
        self._room = asyncio.Event()
        self._confirmed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stream: asyncio.Task[Any] | None = None
        self._stream_timeout: asyncio.Timeout | None = None
        self._overflow = False

    def __repr__(self) -> str:
        return f"EventSubscription({self.name!r}, delivery={self.delivery!r})"

    # --- what a program does --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Subscribe, and wait until the server has confirmed it.

        Raises:
            ProtocolError: the server refused it.
            CapabilityError: the server has no events, or no delivery mode that this client can use.
        """
        events = self._events
        if self._task is not None:
            raise StateError("this subscription was entered already: call subscribe again")
        modes = {"poll": self._poll, "push": self._push, "webhook": self._webhook}
        if self.delivery is None:
            self.delivery = await self._choose()
        if self.delivery not in modes:
            raise ValueError(f"delivery is one of {', '.join(modes)}, not {self.delivery!r}")
        if self.delivery == "webhook" and events.webhook is None:
            raise StateError("webhook delivery needs a receiver: EventsClient(webhook=WebhookReceiver(url))")
        self._confirmed = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(modes[self.delivery]), name=f"dovetail-events-{self.name}")
        events.add(self)
        try:
            await asyncio.shield(self._confirmed)
        except BaseException:
            await self.end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedEvent:
        """Return the next event. Asking for it says that the program is done with the one before.

        Raises:
            ProtocolError: the server has ended the subscription.
            StopAsyncIteration: the subscription was closed.
        """
        while True:
            if self._taken is not None:
                (self.cursor,), self._taken = self._taken, None
            event, cursor = await self._next()
            if event is None:
                self.cursor = cursor
                continue
            self._taken = (cursor,)
            return event

    async def end(self) -> None:
        """End the subscription. Ending twice is allowed."""
        self._events.discard(self)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._finished.set()

    # --- the queue ------------------------------------------------------------------------------------------

    async def _next(self) -> tuple[ReceivedEvent | None, str | None]:
        if self._queue.empty() and not self._finished.is_set():
            getting = asyncio.ensure_future(self._queue.get())
            ended = asyncio.ensure_future(self._finished.wait())
            try:
                await asyncio.wait((getting, ended), return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    return self._left(getting.result())
            finally:
                for one in (getting, ended):
                    one.cancel()
                await asyncio.wait((getting, ended))
        if not self._queue.empty():
            return self._left(self._queue.get_nowait())
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def _left(
        self, entry: tuple[ReceivedEvent | None, str | None]
    ) -> tuple[ReceivedEvent | None, str | None]:
        if self._queue.empty():
            self._room.set()
        return entry

    def _put(self, event: ReceivedEvent, cursor: str | None) -> bool:
        """Queue an event, unless it is a duplicate. Returns False if the queue is full."""
        if self._queue.qsize() >= self._events.max_queued_events:
            return False
        if event.id not in self._seen:
            self._seen[event.id] = None
            if len(self._seen) > EVENT_IDS_REMEMBERED:
                self._seen.popitem(last=False)
            self._queue.put_nowait((event, cursor))
        self._read_to = cursor
        return True

    def _mark(self, cursor: str | None) -> None:
        """Record that the events up to ``cursor`` have been processed."""
        if cursor is None or cursor == self._read_to:
            return
        self._read_to = cursor
        if self._queue.empty() and self._taken is None:
            self.cursor = cursor
        elif self._queue.qsize() < self._events.max_queued_events:
            self._queue.put_nowait((None, cursor))

    def _confirm(self) -> None:
        if self._confirmed is not None and not self._confirmed.done():
            self._confirmed.set_result(None)

    # --- delivery -------------------------------------------------------------------------------------------

    async def _choose(self) -> DeliveryMode:
        """Choose the best delivery mode that both sides have."""
        offered = next((one.delivery for one in await self._events.list() if one.name == self.name), None)
        if offered is None:
            raise CapabilityError("events", f"the server has no event type {self.name!r}")
        usable: list[DeliveryMode] = ["push", "poll"]
        if self._events.webhook is not None:
            usable.insert(0, "webhook")
        for mode in usable:
            if mode in offered:
                return mode
        raise CapabilityError(
            "events", f"the event type {self.name!r} is delivered by {', '.join(offered)} only"
        )

    async def _run(self, mode: Any) -> None:
        """Run a delivery mode, again when the connection fails."""
        attempts = 0
        try:
            while True:
                before = self._read_to
                try:
                    await mode()
                    attempts = 0
                except (TransportError, RequestTimeout) as error:
                    if self._confirmed is not None and not self._confirmed.done():
                        raise
                    attempts = 1 if self._read_to != before else attempts + 1
                    log.info("events of %s: %s", self.name, error.message)
                    pause = min(MAX_RETRY_DELAY, 0.25 * 2 ** min(attempts, 10))
                    await asyncio.sleep(pause * (0.5 + random.random() / 2))
        except Exception as error:  # noqa: BLE001  the program gets it
            self._error = error if isinstance(error, DovetailError) else _unreadable(error)
            if self._confirmed is not None and not self._confirmed.done():
                self._confirmed.set_exception(self._error)
                self._confirmed.exception()  # the program may be gone
        finally:
            self._finished.set()

    def _params(self) -> dict[str, Any]:
        params: dict[str, Any] = {"name": self.name, "arguments": self.arguments, "cursor": self._read_to}
        if self._max_age is not None:
            params["maxAgeMs"] = round(self._max_age * 1000)
        return params

    async def _poll(self) -> None:
        while True:
            page = await self._events.request("events/poll", self._params(), PollEventsResult)
            self._confirm()
            self.gaps += page.truncated
            for number, one in enumerate(page.events):
                last = number == len(page.events) - 1
                event = ReceivedEvent(
                    id=one.event_id, name=one.name, timestamp=one.timestamp, data=one.data, cursor=page.cursor
                )
                while not self._put(event, page.cursor if last else self._read_to):
                    await self._emptied()
            if not page.events:
                self._mark(page.cursor)
            if not (page.has_more and page.events):
                await asyncio.sleep(max(self._events.min_poll_interval, page.next_poll_ms / 1000))

    async def _emptied(self) -> None:
        """Wait until the program has taken what is in the queue."""
        self._room.clear()
        if not self._queue.empty():
            await self._room.wait()

    async def _push(self) -> None:
        """Hold one stream until it ends."""
        events = self._events
        self._overflow = False
        try:
            async with events.opening:
                events.unconfirmed = self
                self._stream = asyncio.ensure_future(
                    events.request("events/stream", self._params(), None, timeout=_ENDLESS)
                )
                await self._opened(self._stream)
            async with asyncio.timeout(events.silence) as self._stream_timeout:
                await asyncio.wait([self._stream])
            self._stream.result()
        except TimeoutError:
            raise TransportError(
                f"the stream of {self.name!r} sends no heartbeats", cause="timeout"
            ) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            ended_here = self._overflow or self._error is not None
            if not ended_here or (task is not None and task.cancelling()):
                raise
        finally:
            stream, self._stream, self._stream_timeout = self._stream, None, None
            if events.unconfirmed is self:
                events.unconfirmed = None
            for id in [id for id, one in events.streams.items() if one is self]:
                del events.streams[id]
            if stream is not None:
                stream.cancel()
                await asyncio.wait([stream])
        if self._error is not None:
            assert isinstance(self._error, DovetailError)
            raise self._error
        if self._overflow:
            await self._emptied()
        else:
            await asyncio.sleep(self._events.min_poll_interval)  # the server has ended the stream in order

    async def _opened(self, stream: asyncio.Task[Any] | asyncio.Future[Any]) -> None:
        """Wait until the server has confirmed the stream."""
        self._room.clear()
        async with asyncio.timeout(self._events.silence):
            while self._events.unconfirmed is self and not stream.done():
                self._room.clear()
                waiting = asyncio.ensure_future(self._room.wait())
                try:
                    await asyncio.wait((stream, waiting), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                    await asyncio.wait([waiting])

    def received(self, kind: str, news: _News) -> None:
        """Take a notification of the stream."""
        if self._stream_timeout is not None:
            loop = asyncio.get_running_loop()
            self._stream_timeout.reschedule(loop.time() + self._events.silence)
        if self._overflow:
            return  # it is delivered again: the stream reconnects at the last queued event
        if kind == "active":
            self._confirm()
            self._room.set()
            self.gaps += news.truncated
            if news.truncated or self._read_to is None:
                self._mark(news.cursor)
        elif kind == "event":
            event = ReceivedEvent(
                id=news.event_id, name=news.name, timestamp=news.timestamp, data=news.data, cursor=news.cursor
            )
            if not self._put(event, news.cursor) and self._stream is not None:
                self._overflow = True
                self._stream.cancel()
        elif kind == "heartbeat":
            self._mark(news.cursor)
        elif kind == "terminated":
            self._error = _error_of(news.error)
            if self._stream is not None:
                self._stream.cancel()
        else:
            log.info("events of %s: the server reports %s", self.name, news.error.get("message"))

    async def _webhook(self) -> None:
        """Hold a webhook subscription: subscribe, then refresh it until it is cancelled."""
        receiver = self._events.webhook
        assert receiver is not None
        secret = new_secret()
        receiver.expect(secret, self._take)
        address = {"mode": "webhook", "url": receiver.url, "secret": secret}
        subscribed = False
        try:
            while self._error is None:
                params = {**self._params(), "delivery": address}
                if self._ttl is not None:
                    params["ttlMs"] = round(self._ttl * 1000)
                found = await self._events.request("events/subscribe", params, SubscribeEventsResult)
                subscribed = True
                receiver.bind(secret, found.id)
                self.gaps += found.truncated
                self.status = None if found.delivery_status is UNSET else found.delivery_status
                self._mark(found.cursor)
                self._confirm()
                await self._until_refresh(found.refresh_before)
            assert isinstance(self._error, DovetailError)
            raise self._error
        finally:
            receiver.forget(secret)
            if subscribed and self._error is None:
                await self._unsubscribe(receiver.url)

    async def _until_refresh(self, refresh_before: str | None) -> None:
        """Wait for half of the time that was granted, or until the server has ended the subscription."""
        granted = 86_400.0 if refresh_before is None else unix(refresh_before) - time.time()
        self._room.clear()
        try:
            async with asyncio.timeout(max(MIN_REFRESH_DELAY, granted / 2)):
                while self._error is None:
                    await self._room.wait()
                    self._room.clear()
        except TimeoutError:
            return

    async def _unsubscribe(self, url: str) -> None:
        params = {"name": self.name, "arguments": self.arguments, "delivery": {"url": url}}
        try:
            await self._events.request("events/unsubscribe", params, None, timeout=5.0)
        except DovetailError as error:
            log.info("events of %s: the webhook was not unsubscribed: %s", self.name, error.message)

    def _take(self, message: WebhookMessage) -> bool:
        if message.type == "gap":
            self.gaps += 1
            self._mark(message.cursor)
        elif message.type == "terminated":
            self._error = _error_of(message.error if isinstance(message.error, dict) else {})
            self._room.set()
        elif message.type is UNSET:
            event = ReceivedEvent(
                id=message.event_id,
                name=message.name,
                timestamp=message.timestamp,
                data=message.data,
                cursor=message.cursor,
            )
            return self._put(event, message.cursor)
        return True


def _unreadable(error: Exception) -> DovetailError:
    """The error for an answer of the server that makes no sense."""
    found = RemoteProtocolError("validation_failed", f"the server sent what is no event message: {error}")
    found.__cause__ = error
    return found


def _error_of(error: Mapping[str, Any]) -> ProtocolError:
    """The error object of a notification or webhook."""
    code, text = error.get("code"), error.get("message")
    return ProtocolError(
        "permission_denied",
        text if isinstance(text, str) else "the server has ended the subscription",
        data=error.get("data", UNSET),
        code=code if isinstance(code, int) else None,
    )
