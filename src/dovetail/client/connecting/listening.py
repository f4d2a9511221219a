"""`Listening`: subscriptions to changes: one `subscriptions/listen` request on modern servers.

All subscriptions of a client form one filter. When it changes, a new listen request is opened before the old
one is closed, so that nothing is missed. A broken stream is reopened with backoff. Because events may be
lost, everything it watched then counts as changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from ...drivers.clock import Clock
from ...errors import DovetailError, ProtocolError, RequestTimeout
from ...model import SubscriptionFilter, SubscriptionsListenRequestParams
from ...settings import Reconnect, Timeouts
from ..conversation import Conversation
from ..reconnect import delay

log = logging.getLogger("dovetail.client")

_NO_LIMIT = Timeouts(idle=None, total=None)


class Listening:
    """The listen stream of one client."""

    def __init__(self, clock: Clock, reconnect: Reconnect, missed: Callable[[], None]) -> None:
        self.lists = False
        """Whether list changes are subscribed."""
        self.uris: dict[str, None] = {}
        """The subscribed resources."""
        self.tasks: dict[str, None] = {}
        """The subscribed tasks."""
        self._clock = clock
        self._reconnect = reconnect
        self._missed = missed
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._ack: asyncio.Future[None] | None = None
        self._broken = False
        """Whether no notification was received since the stream broke."""

    @property
    def wanted(self) -> bool:
        return self.lists or bool(self.uris) or bool(self.tasks)

    def filter(self, capabilities: Any) -> SubscriptionFilter:
        """The filter to request: subscriptions that the server supports."""

        def changes(kind: str) -> Any:
            return True if self.lists and capabilities.has(f"{kind}.listChanged") else UNSET

        return SubscriptionFilter(
            tools_list_changed=changes("tools"),
            prompts_list_changed=changes("prompts"),
            resources_list_changed=changes("resources"),
            resource_subscriptions=list(self.uris) or UNSET,
            task_ids=list(self.tasks) or UNSET,
        )

    async def restart(self, conversation: Conversation, capabilities: Any, limit: float | None) -> None:
        """Open a listen request for the current subscriptions. Return when the server has acknowledged it.

        Raises:
            ProtocolError: the server refused it.
            RequestTimeout: no acknowledgement.
        """
        async with self._lock:  # one at a time: an acknowledgement belongs to the last request
            old, self._task = self._task, None
            wishes = self.filter(capabilities)
            try:
                if wishes != SubscriptionFilter():
                    loop = asyncio.get_running_loop()
                    ack = self._ack = loop.create_future()
                    self._task = loop.create_task(self._listen(conversation, wishes, ack))
                    await self._acknowledged(ack, limit)
            finally:
                if old is not None:
                    old.cancel()
                    await asyncio.wait([old])

    async def _acknowledged(self, ack: asyncio.Future[None], limit: float | None) -> None:
        try:
            async with asyncio.timeout(limit):
                await asyncio.shield(ack)
        except TimeoutError:
            raise RequestTimeout(
                f"the subscription was not acknowledged within {limit} s", limit="idle"
            ) from None

    def acknowledge(self) -> None:
        """Handle the acknowledgement of the server."""
        if self._broken:
            # Only now: earlier changes are not reported.
            self._broken = False
            self._missed()
        if self._ack is not None and not self._ack.done():
            self._ack.set_result(None)

    async def stop(self) -> None:
        """Close the listen stream."""
        self._lock = asyncio.Lock()  # the next connection may be on another event loop
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(
        self, conversation: Conversation, wishes: SubscriptionFilter, ack: asyncio.Future[None]
    ) -> None:
        attempts = 0
        while True:
            try:
                params = SubscriptionsListenRequestParams(wishes)
                await conversation.request("subscriptions/listen", params, _NO_LIMIT)
                if not ack.done():
                    ack.set_result(None)
                return  # a result ends the stream intentionally
            except ProtocolError as error:
                self._refused(ack, error)
                return
            except DovetailError as error:
                if conversation.gone.done():
                    self._refused(ack, error)
                    return  # listening restarts after the reconnect
                log.info("the listen stream broke: %s", error.message)
            # Reset the backoff after an acknowledgement.
            attempts = attempts + 1 if self._broken else 1
            self._broken = True
            limit = self._reconnect.max_attempts
            if not self._reconnect.enabled or (limit is not None and attempts > limit):
                return
            await self._clock.sleep(delay(self._reconnect, attempts))

    def _refused(self, ack: asyncio.Future[None], error: DovetailError) -> None:
        if not ack.done():
            ack.set_exception(error)
            ack.exception()  # the waiting caller may be gone
