"""Push delivery: one ``events/stream`` request, whose notifications are the events of one subscription.

``active`` comes first, then the events that the cursor asks for, then events as they happen, and ``heartbeat`` in quiet
times. ``active`` comes again with ``truncated`` when events are missing. ``terminated`` ends a stream whose
principal has lost its rights. The server ends a stream with an empty result when it stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...errors import ProtocolError
from ...model.meta import SUBSCRIPTION_ID
from .event_feeds import FeedPage
from .event_model import error_object, forbidden
from .event_types import EventSubscriber

if TYPE_CHECKING:
    from ...server.context import Context

log = logging.getLogger("dovetail.server")

PUSH_PAGE: Final = 100
"""Events that a stream reads at once."""


class PushStream:
    """One stream."""

    def __init__(
        self, subscriber: EventSubscriber, ctx: Context, *, heartbeat: float, clock: Callable[[], float]
    ) -> None:
        self._subscriber = subscriber
        self._type = subscriber.type
        self._feed = subscriber.type.feed
        self._ctx = ctx
        self._heartbeat = heartbeat
        self._clock = clock
        self._meta = {SUBSCRIPTION_ID: ctx.request_id}

    async def run(self, cursor: str | None, max_age: float | None) -> dict[str, Any]:
        """Serve the stream until the server stops or the rights are lost."""
        stopped = asyncio.ensure_future(self._ctx.server.subscriptions.listen_until_stopped())
        serving = asyncio.ensure_future(self._serve(cursor, max_age))
        try:
            await asyncio.wait((stopped, serving), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            stopped.cancel()
            serving.cancel()
            await asyncio.wait((stopped, serving))
        return {"_meta": self._meta}

    async def _serve(self, cursor: str | None, max_age: float | None) -> None:
        version = self._feed.version
        page = await self._feed.read(self._subscriber, cursor, PUSH_PAGE, max_age=max_age)
        await self._send("active", {"cursor": page.start, "truncated": page.truncated})
        while not self._expired():
            if not self._type.allows(self._ctx.principal):
                error = error_object(forbidden("access to these events was revoked"))
                await self._send("terminated", {"error": error})
                return
            for event in page.events:
                event.meta = self._meta
                await self._ctx.notify("notifications/events/event", event)
            cursor = page.cursor
            if not page.more:
                await self._wait(version, cursor)
            version = self._feed.version
            page = await self._read(cursor)
            if page.truncated:
                await self._send("active", {"cursor": page.start, "truncated": True})

    async def _wait(self, version: int, cursor: str | None) -> None:
        """Wait until there may be events. Heartbeats show the client that the stream is alive."""
        waited, longest = 0.0, max(self._type.poll_interval, self._heartbeat)
        while not await self._feed.wait(version, self._heartbeat):
            waited += self._heartbeat
            await self._send("heartbeat", {"cursor": cursor})
            if waited >= longest or self._expired() or not self._type.allows(self._ctx.principal):
                return

    async def _read(self, cursor: str | None) -> FeedPage:
        """Read on. An upstream system that fails does not end the stream."""
        while True:
            try:
                return await self._feed.read(self._subscriber, cursor, PUSH_PAGE)
            except Exception:
                log.exception("the event type %s cannot be read", self._type.name)
                error = ProtocolError("internal_error", "UpstreamError", data={"reason": "the source failed"})
                await self._send("error", {"error": error_object(error)})
                await asyncio.sleep(self._type.poll_interval)

    def _expired(self) -> bool:
        """Whether the token of the client has expired: the client comes back with a new one."""
        principal = self._ctx.principal
        expires = None if principal is None else principal.expires
        return expires is not None and expires <= self._clock()

    async def _send(self, name: str, params: dict[str, Any]) -> None:
        await self._ctx.notify(f"notifications/events/{name}", {**params, "_meta": self._meta})
