"""The client's own side of a connection: making it, looking after it, and serving what the server says.

`ClientKeeper` is what `Life` asks for connections and what a `Conversation` hands questions and notifications to. It
remembers what must be restored after a reconnect: subscriptions, the log level, and which lists were read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from msgspec import UNSET, Raw, Struct

from ...core.admit import Admission
from ...core.channel import Call, Notice
from ...core.connection import ConnectionMachine
from ...drivers.clock import Clock
from ...errors import DovetailError, ProtocolError, RequestTimeout
from ...model import ListRootsResult, Result, SetLevelRequestParams, SubscribeRequestParams
from ...settings import Reconnect
from ..answering.answers import Answers
from ..answering.callbacks import call_back
from ..answering.question_tasks import METHODS as HOSTED
from ..answering.question_tasks import HostedTasks
from ..calling.cache import CHANGED_BY, ResponseCache
from ..conversation import Conversation
from ..listen import Listening
from .connect import Attempt, Established, Identity
from .keepalive import keep_alive
from .known_servers import Verdicts
from .openers import Opener
from .targets import Target

log = logging.getLogger("dovetail.client")

_LISTS = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


class Callbacks(Struct, kw_only=True):
    """What the application wants to hear of. Plain or async functions."""

    on_log: Callable[..., Any] | None = None
    on_list_changed: Callable[..., Any] | None = None
    on_resource_updated: Callable[..., Any] | None = None


class ClientKeeper:
    """Makes and keeps the connections of one client."""

    def __init__(
        self,
        target: Target,
        opener: Opener,
        identity: Identity,
        answers: Answers,
        admission: Admission,
        callbacks: Callbacks,
        clock: Clock,
        reconnect: Reconnect,
        verdicts: Verdicts,
        cache: ResponseCache | None,
        origin: str,
    ) -> None:
        self._target = target
        self._opener = opener
        self._identity = identity
        self._answers = answers
        self._admission = admission
        self._callbacks = callbacks
        self._clock = clock
        self._verdicts = verdicts
        self._cache = cache
        self._origin = origin
        self.listening = Listening(clock, reconnect, self._events_missed)
        self.listening.lists = callbacks.on_list_changed is not None
        self.log_level: str | None = None
        self.established: Established | None = None
        self.on_established: Callable[[Established], None] = _nothing
        self.on_lists_changed: Callable[[str], None] = _nothing
        """Told which list changed: tools, prompts or resources."""
        self.refresh: Callable[[bool], Awaitable[None]] | None = None
        """Forgets what the server said and reads the tools again, if they were read before or if told to."""
        self._connections = 0
        self._pinging: asyncio.Task[None] | None = None
        self._completed: dict[str, asyncio.Future[None]] = {}
        self._hosted = HostedTasks(identity.limits.tasks)

    # --- Keeper ---------------------------------------------------------------------------------------------------

    async def connect(self, machine: ConnectionMachine) -> Conversation:
        limit = self._identity.timeouts.connect
        attempt = Attempt(
            self._opener,
            self._identity,
            self,
            self._admission,
            self._clock,
            machine,
            key=self._target.key,
            verdicts=self._verdicts,
            label=self._target.label,
        )
        try:
            async with asyncio.timeout(limit):
                established = await attempt.run()
        except TimeoutError:
            more = attempt.why
            raise RequestTimeout(
                f"no connection to {self._target.label} within {limit} s{': ' + more if more else ''}",
                limit="connect",
            ) from None
        self.established = established
        self.on_established(established)
        self._connections += 1
        return established.conversation

    async def attend(self, conversation: Conversation) -> None:
        every = self._identity.keep_alive
        if every is not None and not conversation.endpoint.codec.revision.modern:
            work = keep_alive(conversation, self._clock, every)
            self._pinging = asyncio.get_running_loop().create_task(work)
        await self._restore(conversation)
        watch = getattr(conversation.link, "attend", None)
        if watch is not None:
            await watch()

    async def release(self, conversation: Conversation) -> None:
        pinging, self._pinging = self._pinging, None
        if pinging is not None:
            pinging.cancel()
            await asyncio.wait([pinging])
        await self.listening.stop()
        conversation.close()
        await conversation.answered()
        await self._hosted.close()
        if conversation.transport is not None:
            await self._opener.release(conversation.transport)

    async def _restore(self, conversation: Conversation) -> None:
        """What the last connection had, this one gets too. A failure here costs that part only."""
        established = self.established
        assert established is not None
        try:
            if established.revision.modern:
                if self.listening.wanted:
                    await self._listen(conversation, established)
            else:
                await self._restore_legacy(conversation)
            if self._connections > 1 and self.refresh is not None:
                await self.refresh(False)
        except DovetailError as error:
            log.warning("not everything could be restored: %s", error.message)

    async def _listen(self, conversation: Conversation, established: Established) -> None:
        limits = self._identity.timeouts
        await self.listening.restart(conversation, established.capabilities, limits.idle)

    async def _restore_legacy(self, conversation: Conversation) -> None:
        if self._connections < 2:
            return
        limits = self._identity.timeouts
        if self.log_level is not None:
            await conversation.request("logging/setLevel", SetLevelRequestParams(self.log_level), limits)  # pyright: ignore[reportArgumentType]
        for uri in list(self.listening.uris):
            await conversation.request("resources/subscribe", SubscribeRequestParams(uri), limits)

    def _events_missed(self) -> None:
        """A stream broke and is back: whatever it would have told may have happened."""
        for method in _LISTS:
            self._list_changed(method)
        for uri in list(self.listening.uris):
            self._resource_updated(uri)

    # --- Peer -----------------------------------------------------------------------------------------------------

    async def respond(self, call: Call, channel: Any) -> Struct | Raw:
        """Answer a legacy server's request."""
        if call.method == "ping":
            return Result()
        if call.method in HOSTED:
            return await self._hosted.respond(call)
        if call.method == "roots/list" and not self._answers.answers("roots/list"):
            return ListRootsResult([])  # declared by the dialect, and nothing to show
        work = self._answers.answer(call.method, call.params)
        if call.revision.tasks == "core" and getattr(call.params, "task", UNSET) is not UNSET:
            return self._hosted.create(call, work)
        return await work

    def take_note(self, notice: Notice) -> None:
        """Take note of a server's notification."""
        method, params = notice.method, notice.params
        if method == "notifications/message":
            self._tell(self._callbacks.on_log, params)
        elif method in _LISTS:
            self._list_changed(method)
        elif method == "notifications/resources/updated":
            self._resource_updated(params.uri)
        elif method == "notifications/subscriptions/acknowledged":
            self.listening.acknowledge(params.notifications)
        elif method == "notifications/elicitation/complete":
            waiter = self._completed.pop(params.elicitation_id, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _list_changed(self, method: str) -> None:
        if self._cache is not None:
            self._cache.forget(self._origin, *CHANGED_BY[method])
        self.on_lists_changed(_LISTS[method])
        self._tell(self._callbacks.on_list_changed, _LISTS[method])

    def _resource_updated(self, uri: str) -> None:
        if self._cache is not None:
            self._cache.forget_resource(self._origin, uri)
        self._tell(self._callbacks.on_resource_updated, uri)

    def _tell(self, callback: Callable[..., Any] | None, argument: Any) -> None:
        if callback is not None:
            call_back(callback, argument)

    # --- what 2025-11-25 calls URLElicitationRequired --------------------------------------------------------------

    async def settle_urls(self, error: ProtocolError, limit: float | None) -> bool:
        """Put the URLs an error names before the user; True when all are done and the call may be repeated."""
        data: Any = error.data
        entries: Any = cast("dict[str, Any]", data).get("elicitations") if isinstance(data, dict) else None
        if not isinstance(entries, list) or not entries or not self._answers.answers("elicitation/create"):
            return False
        waiters: list[asyncio.Future[None]] = []
        for entry in cast("list[Any]", entries)[:16]:
            waiter = await self._settle_url(entry)
            if waiter is None:
                return False
            waiters.append(waiter)
        try:
            async with asyncio.timeout(limit):
                await asyncio.gather(*waiters)
        except TimeoutError:
            return False
        return True

    async def _settle_url(self, entry: Any) -> asyncio.Future[None] | None:
        params = self._answers.read_url(entry)
        if params is None or params.elicitation_id is UNSET:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._completed[str(params.elicitation_id)] = waiter
        answer: Any = await self._answers.answer("elicitation/create", params)
        if answer.action != "accept":
            self._completed.pop(str(params.elicitation_id), None)
            return None
        return waiter


def _nothing(_: Any) -> None:
    return None
