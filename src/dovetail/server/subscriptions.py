"""`Subscriptions`: notifies clients of changes.

Legacy sessions and ``subscriptions/listen`` streams are subscribers of one `SubscriptionHub`. Any thread may report a
change; subscribers are notified on their own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from ..core.channel import Call, Session
from ..core.subscription_hub import LIST_KINDS, PublishedChange, Subscriber, SubscriptionHub
from ..model import ServerCapabilities, SubscriptionFilter
from ..settings import Limits
from ..wire.dialects.dialect import VENDOR

if TYPE_CHECKING:
    from .resource_watcher import ResourceWatcher, Source

F = TypeVar("F", bound=Callable[..., Any])
WATCH_SECONDS: Final = 0.1
"""The minimum interval between two checks of a watched source; changes in between are reported once."""

ListenFilter = Callable[
    [Call, SubscriptionFilter], Awaitable[tuple[SubscriptionFilter, Callable[[Subscriber], None]]]
]
"""Returns what a caller may listen to of what it asks for, and a function that sends what the new subscriber has
missed."""


class Subscriptions:
    """The subscribers of one server, and the sources that are watched for them."""

    def __init__(self, limits: Limits, run: Callable[..., Awaitable[Any]]) -> None:
        self.hub = SubscriptionHub(limits)
        """The table of subscribers."""
        self.session_listeners: list[Callable[[Session], None]] = []
        """Called with each new legacy session."""
        self.roots_changed: Callable[[Session], Any] | None = None
        """The handler that `on_roots_changed` has registered."""
        self.listen_filters: list[ListenFilter] = []
        """Called with each ``subscriptions/listen`` and what it asks for."""
        self._run = run
        self._listening: set[asyncio.Future[None]] = set()
        self._watches: ResourceWatcher | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the subscribers; known once the server has started or has a subscriber."""

    @property
    def listening(self) -> int:
        """The number of ``subscriptions/listen`` streams that are open."""
        return len(self._listening)

    # --- changes --------------------------------------------------------------------------------------------

    def publish(self, news: PublishedChange) -> None:
        """Notify subscribers on their event loop; callable from any thread."""
        if self._loop is None or self._loop is _running_loop():
            self.hub.publish(news)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.hub.publish, news)

    def notify_resource_updated(self, uri: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Notify all subscribers of ``uri``, or of a folder that contains it."""
        members = None if metadata is None else {VENDOR + "metadata": dict(metadata)}
        self.hub.publish_resource_updated(uri, members)

    def watch(self, uri: str, source: Source, *, interval: float = WATCH_SECONDS) -> Callable[[], None]:
        """`Server.watch`."""
        if self._watches is None:
            from .resource_watcher import ResourceWatcher  # loaded with the first watched source

            self._watches = ResourceWatcher(self.hub, self._run)
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._watches.start)
        return self._watches.add(uri, source, interval)

    def on_roots_changed(self, handler: F) -> F:
        """Call ``handler(session)`` when a client of an older revision reports that its roots have changed.

        An exception of the handler is logged. The next call can request the roots with ``ctx.list_roots()``.
        """
        self.roots_changed = handler
        return handler

    # --- starting and stopping ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to notify on the running event loop, and to watch the sources."""
        self._loop = asyncio.get_running_loop()
        if self._watches is not None:
            self._watches.start()

    async def stop(self) -> None:
        """Stop watching the sources."""
        if self._watches is not None:
            await self._watches.stop()

    def end_listening(self) -> None:
        """Complete every ``subscriptions/listen`` with its result."""
        for future in self._listening:
            if not future.done():
                future.set_result(None)

    async def listen_until_stopped(self) -> None:
        """Wait for `end_listening`."""
        self._loop = asyncio.get_running_loop()
        future = self._loop.create_future()
        self._listening.add(future)
        try:
            await future
        finally:
            self._listening.discard(future)

    # --- legacy sessions ------------------------------------------------------------------------------------

    def session_opened(self, session: Session, offered: ServerCapabilities) -> None:
        """A legacy session begins: after ``initialized`` it is notified of changes that its ``offered`` capabilities
        cover.
        """
        silent = {
            f"notifications/{kind}/list_changed"
            for kind in LIST_KINDS
            if not offered.has(f"{kind}.listChanged")
        }

        def notify(method: str, params: Struct | None) -> None:
            if session.notify is not None and method not in silent:
                session.notify(method, params)

        for listener in self.session_listeners:
            listener(session)
        self._loop = _running_loop()
        session.subscriber = self.hub.add_session(session, notify)
        session.subscriber.principal = session.principal

    def session_changed(self, session: Session, subscriptions: Collection[str]) -> None:
        """Another process has changed the subscriptions of a legacy session."""
        if session.subscriber is not None:
            self.hub.resubscribe(session.subscriber, subscriptions)
        if session.phase != "paused":
            session.wake_waiting()

    def delivered_changes(self, session: Session) -> dict[str, int]:
        """By process, the newest change that a legacy session was notified of."""
        return {} if session.subscriber is None else self.hub.delivered_to(session.subscriber)

    def session_recovered(
        self, session: Session, *, lately: bool = False, delivered: Mapping[str, int] | None = None
    ) -> None:
        """A legacy session was without a process for some time: repeat notifications that it may have missed."""
        if session.subscriber is not None:
            self.hub.refresh(session.subscriber, lately=lately, delivered=delivered)

    def session_closed(self, session: Session) -> None:
        """A legacy session has ended."""
        if session.subscriber is not None:
            self.hub.discard(session.subscriber)
            session.subscriber = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # called from a worker thread
