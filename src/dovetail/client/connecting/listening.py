"""Hearing of changes: one `subscriptions/listen` in the modern era, sessions in the legacy one.

A modern server tells nothing unless asked. All wishes of a client go into one filter; when it changes, a new listen is
opened before the old one is closed, so nothing is missed in between. A stream that breaks is opened again with growing
pauses, and since events may have been lost, everything it watched counts as changed.
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
    """The one listen stream of a client."""

    def __init__(self, clock: Clock, reconnect: Reconnect, missed: Callable[[], None]) -> None:
        self.lists = False
        """Whether list changes are wanted."""
        self.uris: dict[str, None] = {}
        """The resources whose updates are wanted."""
        self.tasks: dict[str, None] = {}
        """The tasks whose states are wanted."""
        self._clock = clock
        self._reconnect = reconnect
        self._missed = missed
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._ack: asyncio.Future[None] | None = None
        self._broken = False
        """Nobody has told us anything since the stream broke."""

    @property
    def wanted(self) -> bool:
        return self.lists or bool(self.uris) or bool(self.tasks)

    def filter(self, capabilities: Any) -> SubscriptionFilter:
        """What to ask for: our wishes, as far as the server can fulfil them."""

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
        """Listen with the wishes of now; returns when the server has acknowledged them.

        Raises:
            ProtocolError: the server refuses to report anything.
            RequestTimeout: it does not acknowledge.
        """
        async with self._lock:  # one at a time: an acknowledgement belongs to the last listen
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
        """The server has registered the subscription."""
        if self._broken:
            # Not before: what happens until the server has registered us is told to nobody.
            self._broken = False
            self._missed()
        if self._ack is not None and not self._ack.done():
            self._ack.set_result(None)

    async def stop(self) -> None:
        """Hear no more."""
        self._lock = asyncio.Lock()  # the next connection may live on another event loop
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
                return  # a result is an intentional end
            except ProtocolError as error:
                self._refused(ack, error)
                return
            except DovetailError as error:
                if conversation.gone.done():
                    self._refused(ack, error)
                    return  # the client connects again, and listens again then
                log.info("the listen stream broke: %s", error.message)
            # What was acknowledged in between has begun anew: a long life has many breaks.
            attempts = attempts + 1 if self._broken else 1
            self._broken = True
            limit = self._reconnect.max_attempts
            if not self._reconnect.enabled or (limit is not None and attempts > limit):
                return
            await self._clock.sleep(delay(self._reconnect, attempts))

    def _refused(self, ack: asyncio.Future[None], error: DovetailError) -> None:
        if not ack.done():
            ack.set_exception(error)
            ack.exception()  # the one who waited may have given up
