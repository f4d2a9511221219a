"""News of the last seconds, for legacy sessions that come to a process, or subscribe to more, while it is on its way.

News and letters about sessions travel apart. So what a session has just subscribed to elsewhere may change before the
process that has its stream knows of it, and a stream that moves may miss what was heard there too early and where it
came from too late. Better twice than never: what changed lately is told again to whoever may have missed it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from ..core.subscriptions import Change, Subscriber, SubscriptionHub, parents
from ..stores.send_queue import SEND_QUEUE_TIMEOUT

REPLAY_BUFFER_PERIOD: Final = SEND_QUEUE_TIMEOUT + 15.0
"""How long a process remembers resource changes. It exceeds the longest delivery time of a message."""
MAX_REPLAY_BUFFER_CHANGES: Final = 4096
"""Resource changes that a process remembers."""


class ReplayBuffer:
    """What the subscribers of ``hub`` were told of lately."""

    def __init__(self, hub: SubscriptionHub, clock: Callable[[], float]) -> None:
        self._hub = hub
        self._clock = clock
        self._last: dict[tuple[Any, ...], tuple[float, Change]] = {}
        self._whole_since = 0.0
        """Before that not everything is known."""

    def note(self, news: Change) -> None:
        if news.task is not None:
            return  # of tasks only listen streams hear, which stay where they are
        key, now = (news.list, news.uri, news.session, news.principal, news.caller), self._clock()
        self._last.pop(key, None)
        self._last[key] = (now, news)
        while True:
            oldest = next(iter(self._last))
            if self._last[oldest][0] > now - REPLAY_BUFFER_PERIOD:
                if len(self._last) <= MAX_REPLAY_BUFFER_CHANGES:
                    return
                self._whole_since = self._last[oldest][0]
            del self._last[oldest]

    def lost(self) -> None:
        """Some news has not come at all."""
        self._whole_since = self._clock()

    def tell_again(self, subscriber: Subscriber, uris: Collection[str] | None) -> None:
        """Tell one session what it may have missed; with ``uris``, of these alone."""
        since = self._clock() - REPLAY_BUFFER_PERIOD
        if self._whole_since > since:
            self._hub.refresh(subscriber)
            return
        for at, news in tuple(self._last.values()):
            if at > since and (uris is None or (news.uri is not None and self._concerns(news.uri, uris))):
                self._hub.notify_local(news, only=subscriber)

    def _concerns(self, uri: str, uris: Collection[str]) -> bool:
        named = uri if self._hub.client_uri is None else self._hub.client_uri(uri)
        return any(address in uris for address in parents(named))
