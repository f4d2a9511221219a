"""Connection lifecycle of a client: one background task that connects, monitors, backs off and reconnects.

Only this task owns the connection, so a client can be opened and closed in different tasks, any number of
times. Callers wait on the future ``ready``: it has a conversation, or the reason for the failure.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from ..core.connection_states import ConnectionMachine
from ..errors import DovetailError, StateError, TransportError
from ..settings import Reconnect
from .client_config import ClientConfig
from .conversation import Conversation
from .server_requests.callbacks import call_back

if TYPE_CHECKING:
    from .connecting.client_connection import Connections

DRAIN_POLL: Final = 0.01
"""Polling interval in seconds while a closing client waits for its calls."""

log = logging.getLogger("dovetail.client")


class ConnectionLifecycle:
    """Keeps one conversation alive from `open` to `close`."""

    def __init__(self, config: ClientConfig, connections: Connections) -> None:
        self._connections = connections
        self._reconnect = config.reconnect
        self._clock = config.clock
        self._on_state, self._events = config.on_state, config.events
        self._before = "starting"
        # Clients of the erlmcp dialect also retry when the first attempt fails.
        self._keep_trying = bool(config.dialect.versions)
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Conversation] | None = None
        self._queued = 0
        self._was_ready = False
        self._closing = False
        self.machine = ConnectionMachine(self._moved)
        self.conversation: Conversation | None = None
        """The usable conversation; None without one, and while draining."""
        self._kept: Conversation | None = None
        self.failure: DovetailError | None = None
        """Why the last connection ended or failed."""
        self.lifespans: list[Callable[[], AbstractAsyncContextManager[Any]]] = []
        """Entered before the first connection and left after the last one."""

    def _moved(self, after: str) -> None:
        before, self._before = self._before, after
        if self._on_state is not None:
            call_back(self._on_state, after)
        if self._events is not None:
            lost = self.failure is not None and after in ("backoff", "failed")
            self._events.moved(before, after, self.failure.message if lost and self.failure else None)

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def open(self) -> Conversation:
        """Start connecting, or join a running attempt. Return when the connection is ready.

        Raises:
            DovetailError: it failed. Another `open` tries again.
        """
        self._check_loop()
        if self._closing and self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
        if not self.running:
            self._begin()
        return await self._next_ready()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self.machine.state != "starting":
            self._before = "starting"
            self.machine = ConnectionMachine(self._moved)  # a closed state machine cannot be reused
        self._closing = self._was_ready = False
        self.failure = None
        self._ready = loop.create_future()
        self._task = loop.create_task(self._run(), name="dovetail client")

    async def recovered(self, *, accepted: bool = False) -> Conversation:
        """Return the conversation, if needed after the running reconnect.

        ``accepted``: the call was accepted before and does not count for `Reconnect.queue`.

        Raises:
            StateError: not connected, and the queue is full.
        """
        conversation = self.conversation
        if conversation is not None and not conversation.gone.done():
            return conversation
        room = accepted or self._queued < self._reconnect.queue
        if self.running and not self._closing and self.machine.state != "paused" and room:
            self._queued += 1
            try:
                return await self._next_ready()
            finally:
                self._queued -= 1
        why = f": {self.failure.message}" if self.failure is not None else ""
        hint = ": use `async with Client(…)`" if self.machine.state == "starting" else ""
        raise StateError(f"the client is not connected (state {self.machine.state}){why}{hint}")

    def pause(self) -> None:
        """Block new calls until `resume`. Running calls continue.

        Raises:
            StateError: the connection is not ready.
        """
        self.machine.advance("pause")
        self.conversation = None

    def resume(self) -> None:
        """End `pause`.

        Raises:
            StateError: the connection is not paused.
        """
        self.machine.advance("resume")
        self.conversation = self._kept

    async def close(self, drain: float = 0.0) -> None:
        """End it. Returns when everything is released; a second call waits for the first.

        ``drain`` gives calls in flight that many seconds to finish.
        """
        self._check_loop()
        self._closing = True
        self.conversation = None
        task = self._task
        if task is not None and not task.done():
            self.machine.try_advance("drain")
            if drain > 0:
                await self._drained(drain)
            task.cancel()
        if task is not None and not task.done() and task is not asyncio.current_task():
            # The caller may be cancelled here; the task still ends, and the next caller waits for it.
            await asyncio.wait([task])
        self.machine.try_advance("close")

    def _check_loop(self) -> None:
        """Bind the client to this event loop. It may change after a close, or when the old loop is closed."""
        task = self._task
        if task is None or task.done() or task.get_loop() is asyncio.get_running_loop():
            return
        if not task.get_loop().is_closed():
            raise StateError("this client was opened on another event loop: use it and close it there")
        self._abandon()

    def _abandon(self) -> None:
        """Reset the state after the event loop was closed: nothing on it can be ended properly."""
        conversation, self._kept, self.conversation = self._kept, None, None
        self._task = self._ready = None
        if (
            conversation is not None
            and conversation.link is not None
            and conversation.link.process is not None
        ):
            conversation.link.process.kill()
        self.machine.try_advance("close")

    async def _drained(self, drain: float) -> None:
        until = self._clock.time() + drain
        while self._kept is not None and self._kept.asked and self._clock.time() < until:
            await self._clock.sleep(DRAIN_POLL)

    async def _next_ready(self) -> Conversation:
        if self._ready is None:
            raise StateError("the client is not connected")
        while True:
            conversation = await asyncio.shield(self._ready)
            if not conversation.gone.done():
                return conversation
            self._over()  # it ended in this iteration of the loop: wait for the next conversation

    # --- background task
    # ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._live_inside()
        except asyncio.CancelledError:
            self.failure = None
        finally:
            await self._let_go()
            self._settle(self.failure or StateError("the client was closed"))
            if self.failure is None and not self._closing:
                self.machine.try_advance("close")  # cancelled by the end of its event loop, not by `close`

    async def _live_inside(self) -> None:
        """Run `_live` inside the lifespans of the extensions."""
        if not self.lifespans:
            return await self._live()
        try:
            async with AsyncExitStack() as stack:
                for lifespan in self.lifespans:
                    await stack.enter_async_context(lifespan())
                try:
                    await self._live()
                except asyncio.CancelledError:
                    self.failure = None  # the client was closed: lifespans end normally
                    if (task := asyncio.current_task()) is not None:
                        task.uncancel()
                await self._let_go()
        except DovetailError as error:
            self.failure = error
        except Exception as error:
            log.exception("extension lifespan failed")
            self.failure = DovetailError(
                f"the lifespan of an extension failed: {type(error).__name__}: {error}"
            )
            self.failure.__cause__ = error

    async def _live(self) -> None:
        attempts = 0
        while True:
            try:
                conversation = await self._connections.connect(self.machine)
            except DovetailError as error:
                self.failure = error
            except Exception as error:
                log.exception("connecting failed unexpectedly")
                self.failure = DovetailError(f"connecting failed: {type(error).__name__}: {error}")
                self.failure.__cause__ = error
            else:
                attempts = 0
                await self._use(conversation)
            attempts += 1
            if not self._goes_on(attempts):
                self.machine.try_advance("fail")
                return
            self.machine.try_advance("lost")  # an established connection reported it already
            self._renew()
            await self._clock.sleep(delay(self._reconnect, attempts))
            self.machine.advance("retry")

    async def _use(self, conversation: Conversation) -> None:
        """Provide the conversation to callers. Return when it has ended."""
        self.conversation = self._kept = conversation
        self._was_ready = True
        self.failure = None
        self.machine.advance("established")
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(conversation)
        if conversation.gone.done():
            self._lost(conversation.gone.result())
        conversation.on_gone = self._lost
        try:
            await self._connections.attend(conversation)
        except Exception:
            log.exception("connection setup failed, using the connection anyway")
        reason = await asyncio.shield(conversation.gone)
        self.failure = reason
        await self._let_go()
        log.info("connection lost reason=%s", reason.message)

    def _lost(self, reason: TransportError) -> None:
        """Handle the end of the connection: the client is no longer ready."""
        if self._kept is not None:  # otherwise the client ended it
            self.failure = reason
            if self.machine.state in ("ready", "paused"):
                self.machine.advance("lost" if self._goes_on(1) else "fail")
        self._over()

    def _over(self) -> None:
        self.conversation = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()

    def _goes_on(self, attempts: int) -> bool:
        if not self._reconnect.enabled or not (self._was_ready or self._keep_trying):
            return False
        limit = self._reconnect.max_attempts
        return limit is None or attempts <= limit

    def _renew(self) -> None:
        """Make callers wait for the next conversation."""
        if not self._was_ready and self.failure is not None:
            self._settle(self.failure)  # the opener gets the reason
        self._over()

    def _settle(self, error: DovetailError) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # mark as retrieved: there may be no waiter

    async def _let_go(self) -> None:
        self.conversation = None
        conversation, self._kept = self._kept, None
        if conversation is not None:
            await self._connections.release(conversation)


def delay(
    reconnect: Reconnect, attempt: int, uniform: Callable[[float, float], float] = random.uniform
) -> float:
    """Seconds to wait before the given attempt (1: the first after the loss): doubling, bounded, jittered."""
    base = min(reconnect.max_delay, reconnect.initial_delay * 2 ** min(max(attempt, 1) - 1, 30))
    return max(0.0, base * (1 + uniform(-reconnect.jitter, reconnect.jitter)))
