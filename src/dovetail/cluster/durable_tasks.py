"""Tasks that outlive their worker: leases, signs of life, and taking up what the dead left.

Every process of a server with a store does the same. While it works on a task it holds the task's lease and renews it;
what it writes is fenced, so a worker that was thought dead cannot overwrite its successor. Every few seconds it looks
through the tasks that have not ended: one whose lease is free has lost its worker. Such a task runs again if its author
says that this does no harm (``idempotentHint``, ``readOnlyHint``) or that the handler knows how (``resume=True``; its
`ctx.step` results and the answers it got are kept); otherwise it has failed, with the reason.

Cancellations and answers that arrive elsewhere are handed to the worker by the store's news.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from ..core.channel import Call
from ..core.principal import Principal
from ..core.task_machine import TERMINAL, TaskCaller, TaskMachine
from ..core.trace_context import trace_members
from ..errors import INTERNAL_ERROR, DovetailError, ProtocolError
from ..model import CallToolRequestParams, ClientCapabilities, Error, ProgressNotificationParams
from ..model.meta import PROGRESS_TOKEN
from ..server.tasks.task_channel import PROGRESS
from ..server.tasks.task_jobs import Job
from ..server.tasks.task_notifications import publish, tell
from ..server.tasks.task_store import KeptTasks, key_of
from ..stores.base import Store, StoreError, StoreUnreadable
from ..wire.dialects.dialect import error_from_wire, wire_error
from .process_registry import LEASE_LIFETIME, TASK_HEARTBEAT_INTERVAL, Holders
from .stored_steps import Steps
from .task_dispatch import TaskDispatch

if TYPE_CHECKING:
    from ..server.server import Server

HEARTBEATS_PER_TASK_SCAN: Final = 3
"""Heartbeats between two scans for tasks of dead workers."""


log = logging.getLogger("dovetail.server")

_GONE: Final = "the worker that ran it is gone"


class Command(Struct, omit_defaults=True):
    """What a worker is told about a task it holds."""

    cancel: bool = False
    reason: str | None = None
    answers: dict[str, Raw] | None = None
    refused: str | None = None
    """The key of a question the client answered with this error."""
    error: Error | None = None


_read_command = msgspec.json.Decoder(Command).decode


class Worker(Protocol):
    """What `Tasks` does for us."""

    def job(self, id: str) -> Job | None: ...
    def resume(self, machine: TaskMachine, call: Call, fence: int) -> None: ...
    def lost(self, id: str) -> None: ...
    async def cancel(self, task: TaskMachine, reason: str | None) -> None: ...
    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None: ...
    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None: ...


class DurableTasks:
    """The leases of one process on tasks, and its look for those of the dead."""

    def __init__(self, server: Server, kept: KeptTasks, worker: Worker) -> None:
        self._server = server
        self._kept = kept
        self._store: Store = kept.store
        self._worker = worker
        self._token = secrets.token_hex(8)
        self._held: dict[str, tuple[str, Callable[[], None]]] = {}
        """Task → its key, and how to stop listening for commands."""
        self._spreading = TaskDispatch(self._store, server.name, self._token)
        self._holders = Holders(kept)
        self._relays: set[asyncio.Task[None]] = set()
        self._obeying: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    @property
    def _me(self) -> str:
        """Whose our leases are: this process's alone, not those of its siblings that were forked from one server."""
        return f"{self._token}-{os.getpid()}"

    # --- holding ------------------------------------------------------------------------------------------------

    async def hold(self, job: Job) -> None:
        """Take the lease of a task that begins here."""
        machine = job.machine
        key = key_of(machine)
        job.fence = await self._store.lease(key, self._me, LEASE_LIFETIME)
        await self._kept.note_work(machine)
        self._listen(machine.id, key)

    @property
    def has_workers(self) -> bool:
        """Whether tasks that begin here run elsewhere."""
        return self._spreading.present

    async def hand_over(self, job: Job) -> None:
        """Leave a task that begins here to the workers, and tell its session what becomes of it."""
        await self._kept.note_work(job.machine)
        await self._spreading.add(job.machine.id)
        if job.machine.design == "core" and job.call.session is not None:
            relay = asyncio.get_running_loop().create_task(self._relay(job))
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)

    async def _relay(self, job: Job) -> None:
        told = (job.machine.status, job.machine.message, job.machine.progress)
        async with self.followed(job.machine, job.call) as seen:
            while not seen.machine.ended:
                await seen.changed()
                machine = seen.machine
                now = (machine.status, machine.message, machine.progress)
                if now[2] != told[2] and now[2] is not None and machine.progress_token is not None:
                    total = UNSET if machine.total is None else machine.total
                    tell(
                        seen,
                        PROGRESS,
                        ProgressNotificationParams(machine.progress_token, now[2], total=total),
                    )
                if now[:2] != told[:2]:
                    publish(self._server, seen)
                told = now

    def _listen(self, id: str, key: str) -> None:
        def take(message: bytes) -> None:
            task = asyncio.get_running_loop().create_task(self._obey(id, _read_command(message)))
            self._obeying.add(task)
            task.add_done_callback(self._obeying.discard)

        self._held[id] = (key, self._store.subscribe(_commands(id), take))

    async def _obey(self, id: str, command: Command) -> None:
        job, worker = self._worker.job(id), self._worker
        if job is None:
            return
        try:
            if command.cancel:
                await worker.cancel(job.machine, command.reason)
            if command.answers is not None:
                await worker.answer(job.machine, command.answers, job.call)
            if command.refused is not None and command.error is not None:
                codec, error = job.call.codec, command.error
                told = error_from_wire(error.code, error.message, error.data, codec.revision, codec.dialect)
                await worker.refuse_answer(job, command.refused, told)
        except DovetailError as error:
            log.info("what another worker wanted of task %s was not done: %s", id, error.message)

    async def let_go(self, job: Job) -> None:
        """The work has ended, or is left for another worker."""
        machine = job.machine
        key, stop = self._held.pop(machine.id, (None, None))
        if key is None or stop is None:
            return
        stop()
        try:
            if job.kept[0] in TERMINAL and not job.abandoned:
                # One whose end the store has not taken is found by whoever looks for those of the dead.
                await self._kept.end_work(machine.id)
            await self._store.lease(key, self._me, 0)
            await self._store.publish(_news(machine.id), b"")
        except StoreError as error:
            log.warning("the lease of task %s was not given back: %s", machine.id, error.message)

    async def changed(self, id: str) -> None:
        """Tell those who wait on other workers to look again."""
        await self._store.publish(_news(id), b"")

    # --- signs of life ------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Renew what is held and look for what the dead left, until cancelled."""
        self._watching = asyncio.current_task()
        deserted = self._spreading.deserted = asyncio.Event()  # of the loop that runs now
        for turn in itertools.count():
            try:
                await self._spreading.look()
                await self._holders.sign(self._me)
                await self._renew()
                if turn % HEARTBEATS_PER_TASK_SCAN == 0 or self._spreading.working or deserted.is_set():
                    deserted.clear()
                    await self._look()
                await self._pause(deserted)
            except StoreError as error:
                log.warning("tasks could not be looked after: %s", error.message)
                await asyncio.sleep(TASK_HEARTBEAT_INTERVAL)

    async def _pause(self, deserted: asyncio.Event) -> None:
        """Wait for the next turn; it comes early when somebody has died."""
        for _ in range(HEARTBEATS_PER_TASK_SCAN):
            try:
                async with asyncio.timeout(TASK_HEARTBEAT_INTERVAL / HEARTBEATS_PER_TASK_SCAN):
                    await deserted.wait()
                    return
            except TimeoutError:
                if await self._holders.bury():
                    deserted.set()

    async def rest(self) -> None:
        """Take nothing up any more."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])

    async def serve(self, at_once: int) -> None:
        """Be a worker, until cancelled."""
        await self._spreading.work(self._run, at_once)

    async def close(self) -> None:
        for relay in tuple(self._relays):
            relay.cancel()
        await self._spreading.close()

    async def _run(self, id: str) -> None:
        """Run a task that was handed over, and return when it has ended or somebody else has it."""
        key = await self._kept.work_key(id)
        if key is None or id in self._held:
            return
        fence = await self._store.lease(key, self._me, LEASE_LIFETIME)
        if fence and id not in self._held:
            await self._take_up(id, key, fence)
        job = self._worker.job(id)
        while job is not None and self._worker.job(id) is job:
            await job.changed()

    async def _renew(self) -> None:
        for id, (key, _) in tuple(self._held.items()):
            number = await self._store.lease(key, self._me, LEASE_LIFETIME)
            job = self._worker.job(id)
            if job is None or id not in self._held or number == job.fence:
                continue
            if number and await self._untouched(job):
                job.fence = (
                    number  # it had run out, as after a jump of the clock, and nobody took it meanwhile
                )
            else:
                self._worker.lost(id)

    async def _untouched(self, job: Job) -> bool:
        kept = await self._kept.read(key_of(job.machine))
        return kept is not None and (kept.status, kept.updated) == job.kept

    async def _look(self) -> None:
        for id, key in await self._kept.unfinished():
            if id in self._held or await self._awaits_worker(key):
                continue
            fence = await self._store.lease(key, self._me, LEASE_LIFETIME)
            if fence and id not in self._held:
                try:
                    await self._take_up(id, key, fence)
                except StoreUnreadable:
                    await self._store.lease(key, self._me, 0)  # for a process that can read it

    async def _awaits_worker(self, key: str) -> bool:
        """Whether a task was handed over and nobody has begun it: that is for workers, while there are any."""
        if self._spreading.working or not self._spreading.present:
            return False
        try:
            machine = await self._kept.read(key)
        except StoreUnreadable:
            return True  # of a newer version: not for us
        return machine is not None and machine.queued and machine.status == "pending"

    async def _take_up(self, id: str, key: str, fence: int) -> None:
        machine = await self._kept.read(key)
        if machine is None or machine.ended:
            await self._kept.end_work(id)
            await self._store.lease(key, self._me, 0)
            return
        call = self._call(machine)
        if call is not None and (machine.status == "pending" or self.may_run_again(machine)):
            try:
                self._worker.resume(machine, call, fence)
            except ProtocolError:
                await self._store.lease(key, self._me, 0)  # full: somebody with room takes it
                return
            self._listen(id, key)
            log.info("task %s is taken up again", id)
            return
        codec = self._server.admission.codecs.get(machine.caller.revision) if machine.caller else None
        error: DovetailError = ProtocolError("task_failed", _GONE, data={"taskId": id})
        if codec is not None:
            code, message, data = wire_error(error, codec.revision, codec.dialect)
        else:
            code, message, data = INTERNAL_ERROR, _GONE, UNSET
        machine.fail(Error(code, message, data=data), self._server.clock())
        await self._kept.put(machine, fence)
        await self._kept.end_work(id)
        await self._store.lease(key, self._me, 0)
        await self.changed(id)

    def may_run_again(self, machine: TaskMachine) -> bool:
        tool = self._server.register.tools.entries.get(machine.name or "")
        if tool is None or tool.asks_first:
            return False  # of the latter, what was done before the task began is not kept
        notes = tool.definition.annotations or {}
        return bool(tool.resume or notes.get("idempotentHint") or notes.get("readOnlyHint"))

    def steps(self, machine: TaskMachine) -> Steps | None:
        """What the handler of a task that may run again has done already."""
        if not self.may_run_again(machine):
            return None
        ttl = None if machine.ttl is None else machine.ttl / 1000
        return Steps(self._store, machine.id, ttl, again=True)  # its author says that the handler knows how

    @staticmethod
    def caller(call: Call) -> TaskCaller:
        """What has to be known to make ``call`` again."""
        principal = call.principal
        return TaskCaller(
            revision=call.revision.name,
            capabilities=dict(call.capabilities),
            client_info=None if call.client_info is None else dict(call.client_info),
            subject=None if principal is None else principal.subject,
            issuer=None if principal is None else principal.issuer,
            scopes=[] if principal is None else sorted(principal.scopes),
            client_id=None if principal is None else principal.client_id,
            trace=trace_members(call.meta),
        )

    def _call(self, machine: TaskMachine) -> Call | None:
        """The call a task was made of, as far as it was kept."""
        caller = machine.caller
        codec = None if caller is None else self._server.admission.codecs.get(caller.revision)
        if caller is None or codec is None:
            return None
        principal = None
        if caller.subject is not None:
            principal = Principal(
                caller.subject, caller.issuer, frozenset(caller.scopes), client_id=caller.client_id
            )
        return Call(
            id=machine.id,
            method=machine.method,
            params=CallToolRequestParams(machine.name or "", arguments=machine.parameters),
            revision=codec.revision,
            codec=codec,
            capabilities=ClientCapabilities(caller.capabilities),
            meta={PROGRESS_TOKEN: machine.progress_token or machine.id, **caller.trace},
            client_info=caller.client_info,
            principal=principal,
        )

    # --- elsewhere ----------------------------------------------------------------------------------------------

    async def cancel(self, task: TaskMachine, reason: str | None) -> None:
        """Have a task that does not run here cancelled: by its worker or, if nobody has it, at once.

        Raises:
            ProtocolError: ``task_already_completed``.
        """
        key = key_of(task)
        fence = await self._store.lease(key, self._me, LEASE_LIFETIME)
        if not fence:
            await self._tell(task, Command(cancel=True, reason=reason))
            return
        try:
            fresh = await self._kept.read(key)
            if fresh is not None:
                fresh.cancel(self._server.clock(), reason)
                await self._kept.put(fresh, fence)
            await self._kept.end_work(task.id)
        finally:
            await self._store.lease(key, self._me, 0)
            await self.changed(task.id)

    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw]) -> None:
        """Hand answers to the worker of ``task``."""
        await self._tell(task, Command(answers=dict(responses)))

    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None:
        """Tell the worker that a question was answered with an error."""
        code, message, data = wire_error(error, job.call.codec.revision, job.call.codec.dialect)
        await self._tell(job.machine, Command(refused=key, error=Error(code, message, data=data)))

    async def _tell(self, task: TaskMachine, command: Command) -> None:
        """Hand ``command`` to the worker of ``task``, if there is one.

        Returns when the worker has most likely done it: at its next news, or after a look's time.
        """
        async with self.news(task.id) as changed:
            await self._store.publish(_commands(task.id), msgspec.json.encode(command))
            try:
                async with asyncio.timeout(TASK_HEARTBEAT_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                pass

    @asynccontextmanager
    async def news(self, id: str) -> AsyncGenerator[asyncio.Event, None]:
        """An event that is set whenever the task changes on another worker."""
        changed = asyncio.Event()
        stop = self._store.subscribe(_news(id), lambda _: changed.set())
        try:
            yield changed
        finally:
            stop()

    @asynccontextmanager
    async def followed(self, task: TaskMachine, call: Call) -> AsyncGenerator[Job, None]:
        """A task that runs elsewhere, as a job whose state follows what happens there."""
        job = Job(task, call)
        async with self.news(task.id) as changed:
            following = asyncio.create_task(self._follow(job, changed))
            try:
                yield job
            finally:
                following.cancel()
                await asyncio.wait([following])

    async def _follow(self, job: Job, changed: asyncio.Event) -> None:
        while not job.machine.ended:
            try:
                async with asyncio.timeout(TASK_HEARTBEAT_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                pass  # look all the same: its worker may be dead
            changed.clear()
            fresh = await self._kept.read(key_of(job.machine))
            if fresh is None:
                job.machine.fail(Error(INTERNAL_ERROR, "the task has expired"), self._server.clock())
            else:
                job.machine = fresh
            job.wake()


def _commands(id: str) -> str:
    return f"task-commands/{id}"


def _news(id: str) -> str:
    return f"task-news/{id}"
