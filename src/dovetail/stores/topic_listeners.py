"""Who listens to which topic in this process: the part of publishing that all stores share."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .base import Take

log = logging.getLogger("dovetail.stores")


class Listeners:
    """Takers by topic."""

    def __init__(self) -> None:
        self._topics: dict[str, list[Take]] = {}

    def add(self, topic: str, take: Take) -> Callable[[], None]:
        """Have ``take`` called; call what is returned, as often as you like, to stop that."""
        self._topics.setdefault(topic, []).append(take)

        def stop() -> None:
            takers = self._topics.get(topic, [])
            if take in takers:
                takers.remove(take)
            if not takers:
                self._topics.pop(topic, None)

        return stop

    def tell(self, topic: str, message: bytes) -> None:
        for take in tuple(self._topics.get(topic, ())):
            try:
                take(message)
            except Exception:
                # One listener that breaks its promise must not keep the news from the others.
                log.exception("a listener of %s failed", topic)
