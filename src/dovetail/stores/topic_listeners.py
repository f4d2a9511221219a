"""`TopicListeners`: the subscribers of this process by topic, shared by all stores."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .base import MessageCallback

log = logging.getLogger("dovetail.stores")


class TopicListeners:
    """Callbacks by topic."""

    def __init__(self) -> None:
        self._topics: dict[str, list[MessageCallback]] = {}

    def add(self, topic: str, take: MessageCallback) -> Callable[[], None]:
        """Add a callback. The returned function removes it and may be called repeatedly."""
        self._topics.setdefault(topic, []).append(take)

        def stop() -> None:
            takers = self._topics.get(topic, [])
            if take in takers:
                takers.remove(take)
            if not takers:
                self._topics.pop(topic, None)

        return stop

    def notify(self, topic: str, message: bytes) -> None:
        for take in tuple(self._topics.get(topic, ())):
            try:
                take(message)
            except Exception:
                # A callback that raises must not prevent delivery to the others.
                log.exception("subscriber callback failed topic=%s", topic)
