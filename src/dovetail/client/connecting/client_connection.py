"""`Connections`: creates connections, restores state after a reconnect, and dispatches server messages.

The lifecycle (`reconnect`) requests connections; a `Conversation` passes server requests and notifications
here. Subscriptions and the log level are restored after a reconnect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ... import model as m
from ...core.admit import Admission
from ...core.channel import Call, Notice
from ...core.connection_states import ConnectionMachine
from ...core.task_machine import TERMINAL
from ...drivers.clock import Clock
from ...drivers.middleware_chain import compose_notifications
from ...drivers.requests import OutgoingRequest
from ...errors import DovetailError, ProtocolError, RequestTimeout, TransportError
from ...model.meta import LOG_LEVEL
from ...settings import Timeouts
from ...wire.dialects.dialect import VENDOR
from ...wire.methods import Method
from ...wire.revisions import REVISIONS
from ..calling.cache import CHANGED_BY
from ..client_config import Callback, ClientConfig
from ..conversation import Conversation
from ..server_requests.callbacks import Answers, call_back, with_metadata
from ..server_requests.server_request_tasks import TASK_METHODS, ServerRequestTasks
from .connect import Attempt, Established
from .connectors import opener_for
from .listening import Listening

URL_ELICITATIONS: Final = 16
"""Entries of one URLElicitationRequired error that are shown to the user."""

log = logging.getLogger("dovetail.client")

TASK_STATUS_NOTIFICATIONS = frozenset({"notifications/tasks/status", "notifications/tasks"})


class Connections:
    """Creates and maintains the connections of one client, one at a time."""

    def __init__(self, config: ClientConfig, answers: Answers) -> None:
        self.config = config
        self.answers = answers
        self.opener = opener_for(config)
        self.admission = Admission("client", REVISIONS, config.dialect)
        self.listening = Listening(config.clock, config.reconnect, self._events_missed)
        self.listening.lists = config.on_list_changed is not None
        self.log_level: m.LoggingLevel | None = None
        self.established: Established | None = None
        """The last connection."""
        self.list_changed: Callable[[str], None] = lambda kind: None
        """Called with the changed list: tools, prompts or resources."""
        self.came_late: Callable[[str, Raw], None] = lambda method, result: None
        """Called with a response that may contain a task and that no caller waits for."""
        self.refresh: Callable[[], Awaitable[None]] | None = None
        """Called when the server may have been replaced."""
        self._heard: dict[str, Callback] = {}
        """Handlers of extension notifications."""
        self._made = 0
        self._pinging: asyncio.Task[None] | None = None
        self._completed: dict[str, list[asyncio.Future[None]]] = {}
        """Calls that wait for a URL elicitation, by its id."""
        self._question_tasks = ServerRequestTasks(config.limits.max_tasks)
        updated = config.on_resource_updated
        self._on_resource_updated = None if updated is None else with_metadata(updated)
        if config.middleware:
            vars(self)["receive_notification"] = compose_notifications(
                config.middleware, self.receive_notification
            )

    # --- used by the lifecycle
    # ------------------------------------------------------------------------------------------------

    async def connect(self, machine: ConnectionMachine) -> Conversation:
        limit = self.config.timeouts.connect
        attempt = Attempt(self, machine)
        try:
            try:
                async with asyncio.timeout(limit) as deadline:
                    self.established = await attempt.run(deadline)
            except TimeoutError:
                known = attempt.so_far()
                text = f"no connection to {self.config.target.label} within {limit} s{known and f': {known}'}"
                raise RequestTimeout(text, limit="connect") from None
        except BaseException:
            await attempt.discard()  # outside of the time limit, which would replace the original error
            raise
        self._made += 1
        self.log_from(self.log_level)
        return self.established.conversation

    @property
    def creates_tasks(self) -> bool:
        """Whether the server creates tasks with erlmcp's ``tasks/create``."""
        established = self.established
        return established is not None and established.capabilities.has("tasks.create")

    async def hear_of_task(self, id: str) -> None:
        """Subscribe to task states of a modern server, if a callback is set."""
        established = self.established
        if self.config.on_task is None or established is None or not established.revision.modern:
            return
        self.listening.tasks[id] = None
        conversation, limit = established.conversation, self.config.timeouts.idle
        await self.listening.restart(conversation, established.capabilities, limit)

    def log_from(self, level: m.LoggingLevel | None) -> None:
        """Store the log level; a modern server gets it with every request."""
        self.log_level = level
        if level is not None and self.established is not None and self.established.revision.modern:
            endpoint = self.established.conversation.endpoint
            endpoint.meta = {**endpoint.meta, LOG_LEVEL: level}

    async def attend(self, conversation: Conversation) -> None:
        interval = self.config.ping_interval
        if interval is not None and not conversation.endpoint.codec.revision.modern:
            work = ping_regularly(conversation, self.config.clock, interval)
            self._pinging = asyncio.get_running_loop().create_task(work)
        await self._restore(conversation)
        if conversation.attend is not None:
            await conversation.attend(self._anew)

    async def release(self, conversation: Conversation) -> None:
        pinging, self._pinging = self._pinging, None
        if pinging is not None:
            pinging.cancel()
            await asyncio.wait([pinging])
        await self.listening.stop()
        conversation.close()
        await conversation.answered()
        await self._question_tasks.close()
        if conversation.link is not None:
            await self.opener.release(conversation.link)

    async def unsubscribe_all(self, limit: float) -> None:
        """Unsubscribe from all resources within ``limit`` seconds.

        The subscriptions are kept for the next `open`.
        """
        established = self.established
        if established is None or not self.listening.uris:
            return
        if established.revision.modern:
            await self.listening.stop()
            return
        limits = Timeouts(connect=limit, idle=None, total=limit)
        request = established.conversation.request
        asked = [
            request("resources/unsubscribe", m.UnsubscribeRequestParams(uri), limits)
            for uri in self.listening.uris
        ]
        for error in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(error, Exception):
                log.debug("unsubscribing failed reason=%s", error)

    async def _restore(self, conversation: Conversation) -> None:
        """Restore the state of the previous connection. A failure affects only that part."""
        established = self.established
        assert established is not None
        limits = self.config.timeouts
        try:
            if not established.revision.modern:
                await self._restore_legacy(conversation, limits)
            elif self.listening.wanted:
                await self.listening.restart(conversation, established.capabilities, limits.idle)
            if self._made > 1:
                if conversation.attend is None or established.revision.modern:
                    self._events_missed()
                if self.refresh is not None:
                    await self.refresh()
        except DovetailError as error:
            log.warning("not everything could be restored: %s", error.message)

    async def _restore_legacy(self, conversation: Conversation, limits: Timeouts) -> None:
        if self._made < 2:
            return
        if self.log_level is not None:
            await conversation.request("logging/setLevel", m.SetLevelRequestParams(self.log_level), limits)
        for uri in list(self.listening.uris):
            await conversation.request("resources/subscribe", m.SubscribeRequestParams(uri), limits)

    def _anew(self) -> None:
        """Handle the open general stream of a legacy session: earlier changes were not received."""
        if self._made > 1 or self.listening.uris:
            self._events_missed()

    def _events_missed(self) -> None:
        """Handle a restored stream: events may have been missed."""
        for method in CHANGED_BY:
            self._list_changed(method)
        for uri in list(self.listening.uris):
            self._resource_updated(uri)

    # --- server messages
    # ------------------------------------------------------------------------------------------------------

    async def respond(self, call: Call, channel: Any) -> Struct | Raw:
        """Answer a request of a legacy server."""
        if call.method == "ping":
            return m.Result()
        if call.method in TASK_METHODS:
            return await self._question_tasks.respond(call)
        if call.method == "roots/list" and not self.answers.answers("roots/list"):
            return m.ListRootsResult([])  # declared by the dialect
        work = self._answer(call, channel.asked_about.get(call))
        if call.revision.tasks == "core" and _asks_for_task(call.params):
            return self._question_tasks.create(call, work)
        return await work

    async def _answer(self, call: Call, about: OutgoingRequest | None) -> Struct:
        try:
            return await self.answers.answer(call.method, call.params)
        except Exception as error:
            if about is not None:
                about.failed = error
            raise

    def hear(self, row: Method, handler: Callback) -> None:
        """Handle an extension notification."""
        offers = self.admission.methods
        offers.custom[row.name] = row
        self.admission.set_capabilities(offers.capabilities)
        self._heard[row.name] = handler

    def receive_notification(self, notice: Notice) -> None:
        """Handle a notification of the server."""
        method, params = notice.method, notice.params
        if method == "notifications/message":
            self._tell(self.config.on_log, params)
        elif method in CHANGED_BY:
            self._list_changed(method)
        elif method == "notifications/resources/updated":
            self._resource_updated(params.uri, params.meta)
        elif method in TASK_STATUS_NOTIFICATIONS:
            if params.status in TERMINAL:
                self.listening.tasks.pop(params.task_id, None)
            self._tell(self.config.on_task, params)
        elif method == "notifications/subscriptions/acknowledged":
            self.listening.acknowledge()
        elif method == "notifications/elicitation/complete":
            for waiter in self._completed.pop(params.elicitation_id, ()):
                if not waiter.done():
                    waiter.set_result(None)
        elif method in self._heard:
            self._tell(self._heard[method], params)

    def _list_changed(self, method: str) -> None:
        if self.config.cache is not None:
            self.config.cache.forget(self.config.origin, *CHANGED_BY[method])
        _, kind, _ = method.split("/")
        self.list_changed(kind)
        self._tell(self.config.on_list_changed, kind)

    def _resource_updated(self, uri: str, meta: Mapping[str, Any] | UnsetType = UNSET) -> None:
        if self.config.cache is not None:
            self.config.cache.forget_resource(self.config.origin, uri)
        metadata = None if meta is UNSET else meta.get(VENDOR + "metadata")
        self._tell(self._on_resource_updated, uri, metadata)

    def _tell(self, callback: Callback | None, *news: Any) -> None:
        if callback is not None and not call_back(callback, *news) and self.established is not None:
            counts = self.established.conversation.endpoint.violations
            counts["notification_queue_full"] = counts.get("notification_queue_full", 0) + 1

    # --- URLElicitationRequired of 2025-11-25
    # ----------------------------------------------------------------------------------

    async def settle_urls(self, error: ProtocolError, limit: float | None) -> bool:
        """Show the URLs of an error to the user. Return True if all are completed and the call may be
        repeated.
        """
        data: Any = error.data
        entries: Any = cast("dict[str, Any]", data).get("elicitations") if isinstance(data, dict) else None
        if not isinstance(entries, list) or not entries or not self.answers.answers("elicitation/create"):
            return False
        if self.established is None:
            return False
        gone = self.established.conversation.gone
        waiters: dict[str, asyncio.Future[None]] = {}
        try:
            for entry in cast("list[Any]", entries)[:URL_ELICITATIONS]:
                if not await self._settle_url(entry, waiters):
                    return False
            async with asyncio.timeout(limit):
                every = asyncio.gather(*waiters.values())
                await asyncio.wait([every, gone], return_when=asyncio.FIRST_COMPLETED)
                return every.done()
        except TimeoutError:
            return False
        finally:
            # A server may never report completion.
            for id, waiter in waiters.items():
                waiter.cancel()
                left = self._completed.get(id, [])
                if waiter in left:
                    left.remove(waiter)
                if not left:
                    self._completed.pop(id, None)

    async def _settle_url(self, entry: Any, waiters: dict[str, asyncio.Future[None]]) -> bool:
        """Show one URL to the user and add a future for its completion to ``waiters``. Return whether it is
        accepted.
        """
        try:
            params = msgspec.convert(entry, m.ElicitRequestParams)
        except (msgspec.ValidationError, ValueError):
            return False
        if params.mode != "url" or params.elicitation_id is UNSET:
            return False
        # Before the user is asked: the notification may arrive first.
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._completed.setdefault(params.elicitation_id, []).append(waiter)
        waiters[params.elicitation_id] = waiter
        answer: Any = await self.answers.answer("elicitation/create", params)
        return answer.action == "accept"


async def ping_regularly(conversation: Conversation, clock: Clock, interval: float) -> None:
    """Ping until the connection ends (heartbeat). Without a response within ``interval`` seconds it is
    closed.

    A silent disconnect is thereby noticed before the next call. Modern servers have no ping.
    """
    limits = Timeouts(idle=None, total=interval)
    while not conversation.gone.done():
        await clock.sleep(interval)
        try:
            await conversation.request("ping", m.RequestParams(), limits)
        except RequestTimeout:
            text = f"the server did not answer a ping within {interval:g} s"
            conversation.lost(TransportError(text, cause="idle"))
        except ProtocolError:
            pass  # ping is unknown to the server, but it responded
        except TransportError:
            return


def _asks_for_task(params: Any) -> bool:
    return (
        isinstance(params, m.CreateMessageRequestParams | m.ElicitRequestParams) and params.task is not UNSET
    )
