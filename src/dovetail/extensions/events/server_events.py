"""`Events`: the events extension of a server.

| method | what it does |
|---|---|
| ``events/list`` | lists the event types that the caller may subscribe to |
| ``events/poll`` | returns the events after a cursor |
| ``events/stream`` | sends events as notifications until the client ends the request |
| ``events/subscribe``, ``events/unsubscribe`` | post events to a callback URL |
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Unpack

from ...core.rights import visible
from ...errors import ProtocolError, RegistrationError, StateError
from ...server.context import Context
from ...server.server import Server
from ...settings import check_kinds
from ...settings.parameter_kinds import FLAG, SECONDS, WHOLE
from ...stores.quotas import quota_owner
from ..extension import Extension, ExtensionMethod
from .event_feeds import LogFeed, SourceFeed
from .event_log import EventLog
from .event_model import (
    EXTENSION,
    SINCE,
    DeliveryMode,
    ListEventsParams,
    ListEventsResult,
    PollEventsParams,
    PollEventsResult,
    SubscribeEventsParams,
    SubscribeEventsResult,
    SubscriptionParams,
    UnsubscribeEventsParams,
    event_not_found,
    exhausted,
    forbidden,
    seconds_of,
    unsupported,
)
from .event_types import EventSubscriber, EventType, EventTypeOptions
from .interest import Interests
from .push_delivery import PushStream
from .webhook_sender import Webhooks
from .webhook_subscriptions import WebhookSubscriptions

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher

LIST_PAGE: Final = 100
"""Event types of one page."""
MAX_POLLED_EVENTS: Final = 100
"""Events that one poll returns."""


class Events(Extension):
    """The events of a server. This extension is experimental: SEP-3415 is a draft.

    ```python
    events = Events()
    incidents = events.add("incident.created", payload=Incident, arguments=Filter, match=matches)
    server = Server("pager", extensions=[events], store="sqlite:events.db")

    await incidents.emit(Incident(id="INC-1", severity="P1"))
    ```

    Recent events are kept in the store of the server, so that a client that was away gets them later.
    """

    id = EXTENSION

    def __init__(
        self,
        *,
        webhooks: Webhooks | bool = False,
        keep_events: int = 1000,
        keep_seconds: float = 86_400.0,
        max_payload_bytes: int = 64 << 10,
        max_streams: int = 1000,
        max_streams_per_principal: int = 100,
        max_interests: int = 10_000,
        heartbeat: float = 20.0,
        draft_capability: bool = False,
    ) -> None:
        """Set the options.

        Args:
            webhooks: Whether events are delivered to callback URLs, and how: `Webhooks`.
            keep_events: Events of one type that are kept for clients that were away.
            keep_seconds: Seconds for which they are kept.
            max_payload_bytes: Bytes of the data of one event.
            max_streams: Open ``events/stream`` requests of all clients.
            max_streams_per_principal: Open streams of one principal or, without one, of one address.
            max_interests: Arguments of event types with hooks that have a subscriber.
            heartbeat: Seconds between two heartbeats of an idle stream.
            draft_capability: Declare the capability ``events`` too, which clients of an earlier draft look for.
        """
        check_kinds(
            {
                "webhooks": (Webhooks | bool, "Webhooks(…), or whether to deliver to callback URLs"),
                "keep_events": WHOLE,
                "keep_seconds": SECONDS,
                "max_payload_bytes": WHOLE,
                "max_streams": WHOLE,
                "max_streams_per_principal": WHOLE,
                "max_interests": WHOLE,
                "heartbeat": SECONDS,
                "draft_capability": FLAG,
            },
            locals(),
        )
        handlers: dict[str, Callable[..., Any]] = {
            "events/list": self._list,
            "events/poll": self._poll,
            "events/stream": self._stream,
        }
        self._webhook_options = Webhooks() if webhooks is True else webhooks or None
        if self._webhook_options is not None:
            handlers |= {"events/subscribe": self._subscribe, "events/unsubscribe": self._unsubscribe}
        super().__init__(capabilities={"events": {}} if draft_capability else None)
        # SEP-3415, Capability Negotiation: a client MAY declare the extension, so nothing is asked of it.
        options = {"opt_in": False, "since": SINCE, "may_ask": False, "timeout": None}
        self.methods = {name: ExtensionMethod(handler, options) for name, handler in handlers.items()}
        numbers = (
            keep_events,
            keep_seconds,
            max_payload_bytes,
            max_streams,
            max_streams_per_principal,
            heartbeat,
        )
        if min(numbers) <= 0:
            raise RegistrationError("the numbers of Events(…) are more than 0")
        self.types: dict[str, EventType] = {}
        """The event types, by name."""
        self._keep_events = keep_events
        self._keep_seconds = keep_seconds
        self._max_payload_bytes = max_payload_bytes
        self._max_streams = max_streams
        self._max_streams_per_principal = max_streams_per_principal
        self._max_interests = max_interests
        self._heartbeat = heartbeat
        self._open_streams: dict[str, int] = {}
        """Open streams by owner."""
        self._dispatcher: Dispatcher | None = None
        self.interests: Interests | None = None
        """Who is interested in which arguments; known once a server has the events."""
        self._webhooks: WebhookSubscriptions | None = None
        self._running = False

    # --- what an author writes ------------------------------------------------------------------------------

    def add(self, name: str, **options: Unpack[EventTypeOptions]) -> EventType:
        """Add an event type. `EventType.emit` of the result reports an occurrence.

        Raises:
            RegistrationError: the name is taken, or an option is not valid.
        """
        if name in self.types:
            raise RegistrationError(f"the event type {name!r} is already registered")
        offered: list[DeliveryMode] = ["poll", "push"]
        if self._webhook_options is not None:
            offered.append("webhook")
        added = EventType(name, options, offered)
        if self._dispatcher is not None:
            self._connect(added, self._dispatcher)
        self.types[name] = added
        return added

    def remove(self, name: str) -> None:
        """Remove an event type. Its webhook subscriptions end when their next event would be delivered.

        Raises:
            KeyError: the type does not exist.
        """
        removed = self.types.pop(name)
        if self._running:
            removed.feed.close()

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return sum(self._open_streams.values())

    # --- the life of the extension --------------------------------------------------------------------------

    def attach(self, server: Server) -> None:
        """Serve the events with ``server``."""
        if self._dispatcher is not None:
            raise RegistrationError(
                f"these events belong to the server {self._dispatcher.name!r}: make another Events(…)"
            )
        self._dispatcher = dispatcher = server.dispatcher
        self.interests = Interests(dispatcher.runner.call, maximum=self._max_interests)
        for type in self.types.values():
            self._connect(type, dispatcher)
        if self._webhook_options is not None:
            self._webhooks = WebhookSubscriptions(
                dispatcher, self._webhook_options, self.types, self.interests
            )

    @asynccontextmanager
    async def lifespan(self, service: Any) -> AsyncGenerator[None]:
        """Subscribe to events of other processes, and deliver webhooks."""
        for type in self.types.values():
            type.feed.open()
        self._running = True
        if self._webhooks is not None:
            await self._webhooks.open()
        try:
            yield
        finally:
            self._running = False
            if self._webhooks is not None:
                await self._webhooks.close()
            if self.interests is not None:
                await self.interests.close()
            for type in self.types.values():
                type.feed.close()

    def _connect(self, type: EventType, dispatcher: Dispatcher) -> None:
        if type.source is not None:
            feed = SourceFeed(dispatcher, type)
        else:
            log = EventLog(
                lambda: dispatcher.lifecycle.state_store,
                dispatcher.name,
                type.name,
                keep=self._keep_events,
                max_age=self._keep_seconds,
            )
            feed = LogFeed(dispatcher, type, log, self._keep_seconds)
        type.connect(feed, self._max_payload_bytes)
        if self._running:
            feed.open()

    # --- the methods ----------------------------------------------------------------------------------------

    async def _list(self, params: ListEventsParams, ctx: Context) -> ListEventsResult:
        seen = [type for type in self.types.values() if visible(type.rights, ctx.principal)]
        try:
            start = 0 if params.cursor is None else int(params.cursor)
        except ValueError:
            start = -1
        if not 0 <= start <= len(self.types):
            raise ProtocolError("invalid_cursor", "the cursor is not one of this list")
        end = start + LIST_PAGE
        return ListEventsResult(
            events=[type.definition for type in seen[start:end]],
            next_cursor=str(end) if end < len(seen) else None,
        )

    async def _poll(self, params: PollEventsParams, ctx: Context) -> PollEventsResult:
        subscriber = self._subscriber(params, ctx, "poll")
        limit = MAX_POLLED_EVENTS if params.max_events is None else params.max_events
        if limit < 1:
            raise ProtocolError("invalid_params", "maxEvents is 1 or more")
        assert self.interests is not None
        await self.interests.lease(subscriber)
        page = await subscriber.type.feed.read(
            subscriber, params.cursor, min(limit, MAX_POLLED_EVENTS), max_age=_max_age(params)
        )
        for event in page.events:
            event.cursor = None  # the result has it
        return PollEventsResult(
            events=page.events,
            cursor=page.cursor,
            truncated=page.truncated,
            has_more=page.more,
            next_poll_ms=round(subscriber.type.poll_interval * 1000),
        )

    async def _stream(self, params: SubscriptionParams, ctx: Context) -> dict[str, Any]:
        subscriber = self._subscriber(params, ctx, "push")
        assert self.interests is not None
        with self._stream_slot(ctx):
            async with self.interests.hold(subscriber):
                stream = PushStream(
                    subscriber, ctx, heartbeat=self._heartbeat, clock=self._server_dispatcher.clock
                )
                return await stream.run(params.cursor, _max_age(params))

    async def _subscribe(self, params: SubscribeEventsParams, ctx: Context) -> SubscribeEventsResult:
        subscriber = self._webhook_subscriber(params, ctx)
        assert self._webhooks is not None
        return await self._webhooks.subscribe(params, subscriber)

    async def _unsubscribe(self, params: UnsubscribeEventsParams, ctx: Context) -> None:
        named = SubscriptionParams(name=params.name, arguments=params.arguments)
        subscriber = self._webhook_subscriber(named, ctx)
        assert self._webhooks is not None
        await self._webhooks.unsubscribe(subscriber, params.delivery.url)

    # --- checks ---------------------------------------------------------------------------------------------

    @property
    def _server_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            raise StateError("these events belong to no server: register them with Server(extensions=[…])")
        return self._dispatcher

    def _subscriber(self, params: SubscriptionParams, ctx: Context, mode: DeliveryMode) -> EventSubscriber:
        type = self.types.get(params.name)
        if type is None:
            raise event_not_found(params.name)
        type.admit(ctx.principal)
        if mode not in type.definition.delivery:
            raise unsupported(mode)
        return type.subscriber(params.arguments, ctx.principal)

    def _webhook_subscriber(self, params: SubscriptionParams, ctx: Context) -> EventSubscriber:
        # SEP-3415, Subscription identity: without a principal, others could guess the key of a subscription.
        if ctx.principal is None:
            raise forbidden("webhooks need an authenticated client")
        return self._subscriber(params, ctx, "webhook")

    @contextmanager
    def _stream_slot(self, ctx: Context) -> Generator[None]:
        """Count a stream.

        Raises:
            ProtocolError: too many are open.
        """
        owner, open = quota_owner(ctx.principal, ctx.scope), self._open_streams
        if open.get(owner, 0) >= self._max_streams_per_principal:
            raise exhausted("streams", self._max_streams_per_principal)
        if self.streams >= self._max_streams:
            raise exhausted("streams", self._max_streams)
        open[owner] = open.get(owner, 0) + 1
        try:
            yield
        finally:
            open[owner] -= 1
            if not open[owner]:
                del open[owner]


def _max_age(params: SubscriptionParams) -> float | None:
    return None if params.max_age_ms is None else seconds_of(params.max_age_ms)
