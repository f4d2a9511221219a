"""`ReplayBuffer`: repeats recent change notifications for legacy sessions that move between processes.

Change notifications and session updates travel separately. A resource may therefore change after a session
subscribed elsewhere, but before the process with its stream knows of the subscription. A moved stream can
miss a notification in the same way. Recent changes are sent again in these cases, except those that the
process which had the stream before has delivered. When that is unknown, a duplicate is harmless, a missed
change is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from ..core.subscription_hub import PublishedChange, Subscriber, SubscriptionHub, parents
from ..stores.send_queue import SEND_QUEUE_TIMEOUT

REPLAY_BUFFER_PERIOD: Final = SEND_QUEUE_TIMEOUT + 15.0
"""How long a process remembers resource changes. It exceeds the longest delivery time of a message."""
MAX_REPLAY_BUFFER_CHANGES: Final = 4096
"""Resource changes that a process remembers."""


class ReplayBuffer:
    """The change notifications of the last `REPLAY_BUFFER_PERIOD` seconds of one hub."""

    def __init__(self, hub: SubscriptionHub, clock: Callable[[], float]) -> None:
        self._hub = hub
        self._clock = clock
        self._last: dict[tuple[Any, ...], tuple[float, PublishedChange]] = {}
        self._complete_since = 0.0
        """Changes before this time are incomplete."""

    def record(self, news: PublishedChange) -> None:
        if news.task is not None:
            return  # only listen streams receive task changes, and they do not move
        key, now = (news.list, news.uri, news.session, news.principal, news.caller), self._clock()
        self._last.pop(key, None)
        self._last[key] = (now, news)
        while True:
            oldest = next(iter(self._last))
            if self._last[oldest][0] > now - REPLAY_BUFFER_PERIOD:
                if len(self._last) <= MAX_REPLAY_BUFFER_CHANGES:
                    return
                self._complete_since = self._last[oldest][0]
            del self._last[oldest]

    def mark_gap(self) -> None:
        """Record that notifications were lost."""
        self._complete_since = self._clock()

    def replay(self, subscriber: Subscriber, uris: Collection[str] | None) -> None:
        """Resend recent changes to one subscriber, optionally only for ``uris``."""
        since = self._clock() - REPLAY_BUFFER_PERIOD
        if self._complete_since > since:
            self._hub.refresh(subscriber)
            return
        delivered = subscriber.delivered if uris is None else None
        for at, news in tuple(self._last.values()):
            if delivered is not None and news.origin is not None:
                process, number = news.origin
                if number <= delivered.get(process, 0):
                    continue
            if at > since and (uris is None or (news.uri is not None and self._concerns(news.uri, uris))):
                self._hub.notify_local(news, only=subscriber)

    def _concerns(self, uri: str, uris: Collection[str]) -> bool:
        named = uri if self._hub.client_uri is None else self._hub.client_uri(uri)
        return any(address in uris for address in parents(named))
