"""Tasks that survive their worker: leases, heartbeats, and recovery of the tasks of dead workers.

A process that runs a task holds its lease and renews it with each heartbeat. Its writes are fenced, so a
worker that was presumed dead cannot overwrite its successor. Every process regularly scans the unfinished
tasks: a task whose lease is free has lost its worker. The task runs again if its author allows it
(``idempotentHint``, ``readOnlyHint``, or ``resume=True``; `ctx.step` results and received input are
retained). Otherwise it fails with the reason.

Cancellations and input responses that arrive in another process are published to the worker of the task.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from ..core.channel import Call
from ..core.principal import Principal
from ..core.task_machine import TERMINAL, TaskCaller, TaskMachine
from ..core.trace_context import trace_members
from ..drivers.shielding import run_to_completion
from ..errors import INTERNAL_ERROR, DovetailError, ProtocolError
from ..extensions.tasks.task_channel import PROGRESS
from ..extensions.tasks.task_jobs import Job
from ..extensions.tasks.task_notifications import publish, tell
from ..extensions.tasks.task_store import TaskStore, key_of
from ..model import CallToolRequestParams, ClientCapabilities, Error, ProgressNotificationParams
from ..model.meta import PROGRESS_TOKEN
from ..stores.base import Store, StoreError, StoreUnreadable
from ..wire.dialects.dialect import error_from_wire, wire_error
from .process_registry import LEASE_LIFETIME, TASK_HEARTBEAT_INTERVAL, LeaseHolders
from .stored_steps import StoredSteps
from .task_dispatch import TaskDispatch

if TYPE_CHECKING:
    from ..server.dispatcher import Dispatcher

HEARTBEATS_PER_TASK_SCAN: Final = 3
"""Heartbeats between two scans for tasks of dead workers."""


log = logging.getLogger("dovetail.server")

_WORKER_DIED: Final = "the worker process of this task has ended"


class Command(Struct, omit_defaults=True):
    """A command for the worker that runs a task."""

    cancel: bool = False
    reason: str | None = None
    answers: dict[str, Raw] | None = None
    refused: str | None = None
    """The key of an input request that the client rejected with this error."""
    error: Error | None = None


_read_command = msgspec.json.Decoder(Command).decode


class TaskControl(Protocol):
    """The operations of `TaskRunner` that `DurableTasks` needs."""

    def job(self, id: str) -> Job | None: ...
    def resume(self, machine: TaskMachine, call: Call, fence: int) -> None: ...
    def lost(self, id: str) -> None: ...
    async def cancel(self, task: TaskMachine, reason: str | None) -> None: ...
    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None: ...
    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None: ...


class DurableTasks:
    """The task leases of one process, its heartbeat, and the recovery of tasks of dead workers."""

    shared: ClassVar[bool] = True

    def __init__(self, dispatcher: Dispatcher, kept: TaskStore, worker: TaskControl) -> None:
        self._dispatcher = dispatcher
        self._tasks = kept
        self._store: Store = kept.store
        self._runner = worker
        self._token = secrets.token_hex(8)
        self._leases: dict[str, tuple[str, Callable[[], None]]] = {}
        """Task id: its key, and the function that ends the subscription to its commands."""
        self._dispatch = TaskDispatch(self._store, dispatcher.name, self._token)
        self._registry = LeaseHolders(kept)
        self._relays: set[asyncio.Task[None]] = set()
        self._executing: set[asyncio.Task[None]] = set()
        self._heartbeat: asyncio.Task[None] | None = None

    @property
    def _lease_owner(self) -> str:
        """Return the lease owner of this process. Processes forked from one server have different owners."""
        return f"{self._token}-{os.getpid()}"

    # --- leases
    # -------------------------------------------------------------------------------------------------

    async def acquire(self, job: Job) -> None:
        """Acquire the lease of a task that starts in this process."""
        machine = job.machine
        key = key_of(machine)
        job.fence = await self._store.lease(key, self._lease_owner, LEASE_LIFETIME)
        await self._tasks.note_work(machine)
        self._subscribe(machine.id, key)

    @property
    def has_workers(self) -> bool:
        """Return whether new tasks run in dedicated worker processes."""
        return self._dispatch.has_workers

    async def dispatch(self, job: Job) -> None:
        """Dispatch a new task to the workers and forward its progress to its session."""
        await self._tasks.note_work(job.machine)
        await self._dispatch.add(job.machine.id)
        if job.machine.design == "core" and job.call.session is not None:
            relay = asyncio.get_running_loop().create_task(self._relay(job))
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)

    async def _relay(self, job: Job) -> None:
        previous = (job.machine.status, job.machine.message, job.machine.progress)
        async with self.follow(job.machine, job.call) as seen:
            while not seen.machine.ended:
                await seen.changed()
                machine = seen.machine
                now = (machine.status, machine.message, machine.progress)
                if now[2] != previous[2] and now[2] is not None and machine.progress_token is not None:
                    total = UNSET if machine.total is None else machine.total
                    tell(
                        seen,
                        PROGRESS,
                        ProgressNotificationParams(machine.progress_token, now[2], total=total),
                    )
                if now[:2] != previous[:2]:
                    publish(self._dispatcher, seen)
                previous = now

    def _subscribe(self, id: str, key: str) -> None:
        def take(message: bytes) -> None:
            task = asyncio.get_running_loop().create_task(self._execute(id, _read_command(message)))
            self._executing.add(task)
            task.add_done_callback(self._executing.discard)

        self._leases[id] = (key, self._store.subscribe(_command_topic(id), take))

    async def _execute(self, id: str, command: Command) -> None:
        job, worker = self._runner.job(id), self._runner
        if job is None:
            return
        try:
            if command.cancel:
                await worker.cancel(job.machine, command.reason)
            if command.answers is not None:
                await worker.answer(job.machine, command.answers, job.call)
            if command.refused is not None and command.error is not None:
                codec, error = job.call.codec, command.error
                refusal = error_from_wire(
                    error.code, error.message, error.data, codec.revision, codec.dialect
                )
                await worker.refuse_answer(job, command.refused, refusal)
        except DovetailError as error:
            log.info("command of another process failed task=%s: %s", id, error.message)

    async def release(self, job: Job) -> None:
        """Release the lease: the task has ended, or another worker shall run it."""
        # A lease that is not released would block other workers until it expires.
        await run_to_completion(self._release(job))

    async def _release(self, job: Job) -> None:
        machine = job.machine
        key, stop = self._leases.pop(machine.id, (None, None))
        if key is None or stop is None:
            return
        stop()
        try:
            if job.kept[0] in TERMINAL and not job.abandoned:
                # If the store did not accept the final state, the scan for tasks of dead workers finds it.
                await self._tasks.end_work(machine.id)
            await self._store.lease(key, self._lease_owner, 0)
            await self._store.publish(_change_topic(machine.id), b"")
        except StoreError as error:
            log.warning("lease not released task=%s: %s", machine.id, error.message)

    async def publish_change(self, id: str) -> None:
        """Notify processes that wait for this task."""
        await self._store.publish(_change_topic(id), b"")

    # --- heartbeat
    # ----------------------------------------------------------------------------------------------

    async def heartbeat(self) -> None:
        """Renew leases and recover tasks of dead workers, until cancelled."""
        self._heartbeat = asyncio.current_task()
        workers_gone = self._dispatch.workers_gone = asyncio.Event()  # belongs to the running event loop
        for turn in itertools.count():
            try:
                await self._dispatch.refresh()
                await self._registry.register(self._lease_owner)
                await self._renew_leases()
                if turn % HEARTBEATS_PER_TASK_SCAN == 0 or self._dispatch.is_worker or workers_gone.is_set():
                    workers_gone.clear()
                    await self._recover_tasks()
                await self._wait(workers_gone)
            except StoreError as error:
                log.warning("task heartbeat failed: %s", error.message)
                await asyncio.sleep(TASK_HEARTBEAT_INTERVAL)

    async def _wait(self, workers_gone: asyncio.Event) -> None:
        """Wait for the next heartbeat. Return early if a worker has died."""
        for _ in range(HEARTBEATS_PER_TASK_SCAN):
            try:
                async with asyncio.timeout(TASK_HEARTBEAT_INTERVAL / HEARTBEATS_PER_TASK_SCAN):
                    await workers_gone.wait()
                    return
            except TimeoutError:
                if await self._registry.release_dead():
                    workers_gone.set()

    async def stop_heartbeat(self) -> None:
        """Stop the heartbeat: no further tasks are recovered."""
        watching, self._heartbeat = self._heartbeat, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])

    async def serve(self, max_concurrent: int) -> None:
        """Run dispatched tasks as a worker, until cancelled."""
        await self._dispatch.work(self._run_dispatched, max_concurrent)

    async def close(self) -> None:
        for relay in tuple(self._relays):
            relay.cancel()
        await self._dispatch.close()

    async def _run_dispatched(self, id: str) -> None:
        """Run a dispatched task. Return when it has ended, or another process runs it."""
        key = await self._tasks.work_key(id)
        if key is None or id in self._leases:
            return
        fence = await self._store.lease(key, self._lease_owner, LEASE_LIFETIME)
        if fence and id not in self._leases:
            await self._recover(id, key, fence)
        job = self._runner.job(id)
        while job is not None and self._runner.job(id) is job:
            await job.changed()

    async def _renew_leases(self) -> None:
        for id, (key, _) in tuple(self._leases.items()):
            number = await self._store.lease(key, self._lease_owner, LEASE_LIFETIME)
            job = self._runner.job(id)
            if job is None or id not in self._leases or number == job.fence:
                continue
            if number and await self._is_unchanged(job):
                # The lease had expired after a clock jump, and no process acquired it.
                job.fence = number
            else:
                self._runner.lost(id)

    async def _is_unchanged(self, job: Job) -> bool:
        kept = await self._tasks.read(key_of(job.machine))
        return kept is not None and (kept.status, kept.updated) == job.kept

    async def _recover_tasks(self) -> None:
        for id, key in await self._tasks.unfinished():
            if id in self._leases or await self._awaits_worker(key):
                continue
            fence = await self._store.lease(key, self._lease_owner, LEASE_LIFETIME)
            if fence and id not in self._leases:
                try:
                    await self._recover(id, key, fence)
                except StoreUnreadable:
                    await self._store.lease(key, self._lease_owner, 0)  # another process can read it

    async def _awaits_worker(self, key: str) -> bool:
        """Return whether a dispatched task has not started, so that a worker process will run it."""
        if self._dispatch.is_worker or not self._dispatch.has_workers:
            return False
        try:
            machine = await self._tasks.read(key)
        except StoreUnreadable:
            return True  # written by a newer version: leave it to that version
        return machine is not None and machine.queued and machine.status == "pending"

    async def _recover(self, id: str, key: str, fence: int) -> None:
        machine = await self._tasks.read(key)
        if machine is None or machine.ended:
            await self._tasks.end_work(id)
            await self._store.lease(key, self._lease_owner, 0)
            return
        call = self._rebuild_call(machine)
        if call is not None and (machine.status == "pending" or self.may_run_again(machine)):
            try:
                self._runner.resume(machine, call, fence)
            except ProtocolError:
                # task limit reached: another process recovers it
                await self._store.lease(key, self._lease_owner, 0)
                return
            self._subscribe(id, key)
            log.info("task recovered task=%s", id)
            return
        codec = self._dispatcher.admission.codecs.get(machine.caller.revision) if machine.caller else None
        error: DovetailError = ProtocolError("task_failed", _WORKER_DIED, data={"taskId": id})
        if codec is not None:
            code, message, data = wire_error(error, codec.revision, codec.dialect)
        else:
            code, message, data = INTERNAL_ERROR, _WORKER_DIED, UNSET
        machine.fail(Error(code, message, data=data), self._dispatcher.clock())
        await self._tasks.put(machine, fence)
        await self._tasks.end_work(id)
        await self._store.lease(key, self._lease_owner, 0)
        await self.publish_change(id)

    def may_run_again(self, machine: TaskMachine) -> bool:
        tool = self._dispatcher.registry.tools.entries.get(machine.name or "")
        if tool is None or tool.asks_first:
            return False  # the results of its input requests before the task are not stored
        notes = tool.definition.annotations or {}
        return bool(tool.resume or notes.get("idempotentHint") or notes.get("readOnlyHint"))

    def steps(self, machine: TaskMachine) -> StoredSteps | None:
        """Return the stored steps of a task that may run again."""
        if not self.may_run_again(machine):
            return None
        ttl = None if machine.ttl is None else machine.ttl / 1000
        # The author declared that the handler can be repeated.
        return StoredSteps(self._store, machine.id, ttl, again=True)

    @staticmethod
    def caller(call: Call) -> TaskCaller:
        """Return the data to rebuild ``call`` in another process."""
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

    def _rebuild_call(self, machine: TaskMachine) -> Call | None:
        """Rebuild the call of a task from its stored caller."""
        caller = machine.caller
        codec = None if caller is None else self._dispatcher.admission.codecs.get(caller.revision)
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

    # --- tasks in other processes
    # -------------------------------------------------------------------------------

    async def cancel(self, task: TaskMachine, reason: str | None) -> None:
        """Cancel a task of another process: through its worker or, without one, directly.

        Raises:
            ProtocolError: ``task_already_completed``.
        """
        key = key_of(task)
        fence = await self._store.lease(key, self._lease_owner, LEASE_LIFETIME)
        if not fence:
            await self._send_command(task, Command(cancel=True, reason=reason))
            return
        try:
            fresh = await self._tasks.read(key)
            if fresh is not None:
                fresh.cancel(self._dispatcher.clock(), reason)
                await self._tasks.put(fresh, fence)
            await self._tasks.end_work(task.id)
        finally:
            await self._store.lease(key, self._lease_owner, 0)
            await self.publish_change(task.id)

    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None:
        """Send input responses to the worker of ``task``. Raises: RemoteProtocolError: one is not valid."""
        if task.respond(responses, call.codec, self._dispatcher.clock()):
            await self._send_command(task, Command(answers=dict(responses)))

    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None:
        """Send a rejected input request to the worker of the task."""
        code, message, data = wire_error(error, job.call.codec.revision, job.call.codec.dialect)
        await self._send_command(job.machine, Command(refused=key, error=Error(code, message, data=data)))

    async def _send_command(self, task: TaskMachine, command: Command) -> None:
        """Send ``command`` to the worker of ``task``, if it has one.

        Return at the next change of the task, or after `TASK_HEARTBEAT_INTERVAL`.
        """
        async with self.changes(task.id) as changed:
            await self._store.publish(_command_topic(task.id), msgspec.json.encode(command))
            try:
                async with asyncio.timeout(TASK_HEARTBEAT_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                pass

    @asynccontextmanager
    async def changes(self, id: str) -> AsyncGenerator[asyncio.Event, None]:
        """Yield an event that is set whenever the task changes in another process."""
        changed = asyncio.Event()
        stop = self._store.subscribe(_change_topic(id), lambda _: changed.set())
        try:
            yield changed
        finally:
            stop()

    @asynccontextmanager
    async def follow(self, task: TaskMachine, call: Call) -> AsyncGenerator[Job, None]:
        """Yield a job that mirrors a task running in another process."""
        job = Job(task, call)
        async with self.changes(task.id) as changed:
            following = asyncio.create_task(self._poll(job, changed))
            try:
                yield job
            finally:
                following.cancel()
                await asyncio.wait([following])

    async def _poll(self, job: Job, changed: asyncio.Event) -> None:
        while not job.machine.ended:
            try:
                async with asyncio.timeout(TASK_HEARTBEAT_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                pass  # poll anyway: its worker may be dead
            changed.clear()
            fresh = await self._tasks.read(key_of(job.machine))
            if fresh is None:
                job.machine.fail(Error(INTERNAL_ERROR, "the task has expired"), self._dispatcher.clock())
            else:
                job.machine = fresh
            job.wake()


def _command_topic(id: str) -> str:
    return f"task-commands/{id}"


def _change_topic(id: str) -> str:
    return f"task-news/{id}"
