"""`TaskRunner`: runs calls as tasks, from creation to deletion.

It combines the state machine (`core.task_machine`), a store that saves every state before it is reported, and an
executor. A task that runs in this process is a `Job`; all others are read from the store. Access is decided by the key
of a task, which contains its principal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ...core.channel import Call
from ...core.principal import key_of
from ...core.task_machine import TaskDesign, TaskMachine
from ...core.task_views import TASK_VIEWS
from ...drivers.middleware_chain import Next, Request
from ...drivers.run import mask
from ...drivers.shielding import run_to_completion
from ...errors import NAME_ECHO, DovetailError, ProtocolError
from ...model import CallToolResult, Error, InputRequest, ProgressNotificationParams
from ...server.input_requests.client_requests import LegacyAsking, asking_for
from ...server.input_requests.input_required import InputRejected
from ...settings import TaskOptions
from ...stores.base import StoreError, StoreFull
from ...wire.dialects.dialect import wire_error
from ...wire.methods import METHODS
from .owner_index import GENERATED
from .task_channel import DetachableAsking, TaskAsking, TaskChannel
from .task_dependencies import Dependencies
from .task_jobs import Executor, InProcessExecutor, Job
from .task_notifications import publish, say, tell
from .task_options import TaskRequest, task_for
from .task_quotas import TaskQuotas
from .task_sharing import TaskSharing, UnsharedTasks
from .task_store import LEGACY, MODERN, TaskStore

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher

TASK_NOTES: Final = 1.0
"""The delay after which other workers can see a progress message of a task, in seconds."""

log = logging.getLogger("dovetail.server")


class TaskRunner:
    """The tasks of one server."""

    def __init__(self, dispatcher: Dispatcher, options: TaskOptions) -> None:
        self._dispatcher, self._options = dispatcher, options
        self._kept = TaskStore(dispatcher)
        self.sharing: TaskSharing = UnsharedTasks(self._kept)
        """With a store, other workers can resume tasks."""
        if dispatcher.lifecycle.store is not None:
            from ...cluster.durable_tasks import DurableTasks  # loaded with the first server that has a store

            self.sharing = DurableTasks(dispatcher, self._kept, self)
        self._executor: Executor = InProcessExecutor(dispatcher.limits.max_tasks)
        self._jobs: dict[str, Job] = {}
        self._roster = TaskQuotas(dispatcher, self._kept)
        self._dependencies = Dependencies(self._load, self.job, self.sharing.follow)

    # --- starting -----------------------------------------------------------------------------------------

    async def begin(
        self,
        request: Request,
        face: TaskDesign,
        wish: TaskRequest,
        chain: Next,
        asking: Call,
        *,
        asks_first: bool,
    ) -> Struct | Raw:
        """Run the ``tools/call`` in ``request`` through ``chain`` as a task.

        The call becomes a task when the chain admits it or, with ``asks_first``, when its handler calls
        ``continue_as_task``. Then the task is returned; it is readable before that. If the chain ends the call earlier,
        its result is returned.

        Raises:
            DovetailError: the chain refused the call; or ``too_many_tasks``, ``task_already_exists``,
                ``task_dependency_failed``.
        """
        call, channel = request.call, request.channel
        job = self._job(call, face, wish)
        machine = job.machine
        machine.depends_on = await self._depends_on(call, wish)
        # erlmcp cannot send input requests through a task: they are requests on the connection, which is in this
        # process.
        if face != "erlmcp" and not asks_first and self.sharing.has_workers:
            machine.queued = True
            return await chain(replace(request, run=partial(self._hand_over, job)))
        say, detach = partial(self._say, job), partial(self._detach, job)
        job.channel = TaskChannel(machine.id, say, partial(tell, job), channel, detach)
        before = asking_for(self._dispatcher, asking, channel)
        here = face == "erlmcp"
        after = LegacyAsking(self._dispatcher, job.call, channel) if here else self._asking(job)
        job.channel.asking = DetachableAsking(before, after, remembers=asks_first)
        job.run = partial(
            chain,
            replace(request, call=job.call, channel=job.channel, becomes_task=not asks_first, task=job),
        )
        first = job.first = asyncio.get_running_loop().create_future()
        self._executor.start(machine.id, partial(self._run, job), limited=False)
        try:
            return await first
        except asyncio.CancelledError:
            job.call.cancelled = True
            self._executor.cancel(machine.id)
            if job.detaching is not None:  # the stored task is removed first
                await run_to_completion(job.detaching.wait())
            raise

    async def _hand_over(self, job: Job, request: Request) -> Struct:
        """Store a task for other workers, whose middleware runs around the work."""
        call = request.call
        job.call.params, job.machine.name = call.params, call.params.name
        arguments = call.params.arguments
        job.machine.parameters = arguments if arguments is UNSET else Raw(bytes(arguments))
        self._note_caller(job)
        await self._remember(job)
        return TASK_VIEWS[job.machine.design].created(job.machine)

    def _job(self, call: Call, face: TaskDesign, wish: TaskRequest) -> Job:
        machine = task_for(
            call, face, wish, self._options, self._dispatcher.clock(), self.sharing.caller(call)
        )
        return Job(machine, replace(call, cancelled=False, batch=None, source=None))

    def _note_caller(self, job: Job) -> None:
        """Store the caller of the task, so that another worker can resume it."""
        carrier = self._dispatcher.admission.meta_provider
        if carrier is not None:
            job.call.meta = {**job.call.meta, **carrier.request_meta()}
        job.machine.caller = self.sharing.caller(job.call)

    async def _depends_on(self, call: Call, wish: TaskRequest) -> list[str]:
        try:
            return [(await self.find(call, id)).id for id in wish.depends_on]
        except ProtocolError as error:
            raise ProtocolError("task_dependency_failed", error.message, data=error.data) from None

    def _asking(self, job: Job) -> TaskAsking:
        machine = job.machine
        steps = self.sharing.steps(machine)
        ask = partial(self._ask, job)
        return TaskAsking(
            self._dispatcher, job.call, job.channel, ask, lambda key: key in machine.input_keys, steps
        )

    async def _detach(self, job: Job) -> None:
        """Turn the call into a task: the client gets it, and the work starts."""
        self._note_caller(job)
        job.detaching = asyncio.Event()
        try:
            await self._remember(job)
        finally:
            job.detaching.set()
        self._create(job)
        await asyncio.sleep(0)  # let the call send its reply first: the client needs the id
        await self._start(job)

    def _create(self, job: Job) -> None:
        """Answer the call with its task."""
        first, job.first = job.first, None
        if first is not None and not first.done():
            first.set_result(TASK_VIEWS[job.machine.design].created(job.machine))
        job.begun()

    async def _start(self, job: Job) -> None:
        """Start the work of a task after its dependencies have completed."""
        machine = job.machine
        if machine.depends_on:
            await self._dependencies.wait(job)
        begins = machine.status == "pending"
        if begins:
            machine.start(self._dispatcher.clock())
        await self._save(job)
        if begins and machine.design == "erlmcp":
            # erlmcp's documents: the server sends every change of the status. Official peers never see "pending".
            publish(self._dispatcher, job)
        if job.timer is not None and machine.time_limit is not None:
            job.timer.reschedule(asyncio.get_running_loop().time() + machine.time_limit)

    async def _remember(self, job: Job, begin: Callable[[], None] = lambda: None) -> None:
        """Store a new task, then call ``begin``: both or neither."""
        if not job.machine.queued:
            self._jobs[job.machine.id] = job
        try:
            await run_to_completion(self._keep_new(job))
            begin()
        except BaseException:
            await run_to_completion(self._forget(job))
            raise

    async def _keep_new(self, job: Job) -> None:
        machine, session = job.machine, job.call.session
        await self._roster.admit(job, partial(self._take_on, job))
        if session is not None:
            mine = session.tasks = session.tasks or {}
            mine[machine.id] = (machine.expires, machine.label)
            if machine.principal is None and session.save is not None:
                await session.save()

    async def _take_on(self, job: Job) -> None:
        """Store everything of a new task. If the store is full, delete a finished task and retry."""
        await self._save(job)
        await (self.sharing.dispatch(job) if job.machine.queued else self.sharing.acquire(job))

    async def _forget(self, job: Job) -> None:
        self._jobs.pop(job.machine.id, None)
        with suppress(StoreError):  # the recovery of orphaned tasks removes the rest
            await self._kept.forget(job.machine)
        await self._let_go(job)

    # --- running ------------------------------------------------------------------------------------------

    async def _run(self, job: Job) -> None:
        """Run the work to its end. Raises nothing but CancelledError."""
        machine = job.machine
        timer = job.timer = asyncio.timeout(None)
        try:
            async with timer:
                if job.first is None:  # another process has started it
                    await self._start(job)
                found = await job.run()
            job.timer = None
            codec = job.call.codec
            result = codec.decode_result(METHODS["tools/call"], found) if isinstance(found, Raw) else found
            await self._done(job, result)
        except TimeoutError:
            late = ProtocolError("task_timeout", data={"taskId": machine.id})
            await self._failed(job, late if timer.expired() else mask("tools/call"))
        except DovetailError as error:
            await self._failed(job, error)
        except asyncio.CancelledError:
            if not self._left_to_others(job):
                await self._failed(job, ProtocolError("task_cancelled", "the server stopped"))
            raise
        except Exception:  # noqa: BLE001  the net below the server's own boundary, and below the store
            await self._failed(job, mask("tools/call"))
        finally:
            self._jobs.pop(machine.id, None)
            if job.keeping is not None:
                job.keeping.cancel()
            job.wake()
            await self._let_go(job)

    async def _let_go(self, job: Job) -> None:
        await self.sharing.release(job)

    def _left_to_others(self, job: Job) -> bool:
        """Whether another worker runs the task, or will after this one has stopped."""
        if job.machine.ended or job.first is not None:
            return False
        return job.abandoned or self.sharing.may_run_again(job.machine)

    async def _done(self, job: Job, result: Struct | Raw) -> None:
        if job.first is not None:
            if job.machine.design == "extension":
                if not job.first.done():
                    job.first.set_result(result)
                return
            # The client required a task: it gets a finished one.
            await self._detach(job)
        try:
            written = job.call.codec.prepare(job.related(result))
        except DovetailError as error:
            await self._failed(job, error)
            return
        is_error = isinstance(result, CallToolResult) and result.is_error is True
        await run_to_completion(self._complete(job, written, is_error))

    async def _complete(self, job: Job, written: Raw, is_error: bool) -> None:
        machine, now = job.machine, self._dispatcher.clock()
        if machine.ended:
            return
        ended = replace(machine)
        ended.complete(written, now, is_error=is_error)
        try:
            async with job.lock:
                kept = await self._kept.put(ended, job.fence)
                machine.byte_quota_keys = ended.byte_quota_keys
                if kept and not machine.ended:
                    machine.complete(written, now, is_error=is_error)
        except StoreFull:
            await self._failed(job, ProtocolError("tool_result_too_large", "the store is full"))
            return
        if kept:
            await self._tell_change(job)
        else:
            self.lost(machine.id)  # another worker's result counts

    async def _failed(self, job: Job, error: DovetailError) -> None:
        if job.first is not None and not job.first.done():
            job.first.set_exception(error)
        if job.first is not None or job.machine.ended:
            return
        codec = job.call.codec
        code, message, data = wire_error(error, codec.revision, codec.dialect)
        job.machine.fail(Error(code, message, data=data), self._dispatcher.clock())
        await run_to_completion(self._tell_change(job))

    # --- input requests -----------------------------------------------------------------------------------

    async def _ask(self, job: Job, questions: dict[str, InputRequest]) -> dict[str, asyncio.Future[Raw]]:
        loop = asyncio.get_running_loop()
        job.machine.request_input(questions, self._dispatcher.clock())
        waiting: dict[str, asyncio.Future[Raw]] = {key: loop.create_future() for key in questions}
        job.answers |= waiting
        for key, future in waiting.items():
            future.add_done_callback(lambda _, key=key: self._unwanted(job, key))
        await self._tell_change(job)
        return waiting

    def _unwanted(self, job: Job, key: str) -> None:
        """No handler waits for this answer any more: it has arrived, or the handler has continued without it."""
        job.answers.pop(key, None)
        job.taken.discard(key)
        job.machine.withdraw([key], self._dispatcher.clock())

    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None:
        """Pass the client's answers to the waiting handler; unknown keys are ignored.

        Raises:
            RemoteProtocolError: an answer does not fit its request; none was used.
        """
        job = self._jobs.get(task.id)
        if job is None:
            await self.sharing.answer(task, responses, call)
            return
        taken = job.machine.respond(responses, call.codec, self._dispatcher.clock())
        for key in taken:
            raw, future = job.machine.take_response(key), job.answers.get(key)
            if raw is not None and future is not None and not future.done():
                future.set_result(Raw(bytes(raw)))
        if taken:
            await self._tell_change(job)

    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None:
        """The client answered an input request with an error; raise it in the handler."""
        if job.machine.id not in self._jobs:
            await self.sharing.refuse_answer(job, key, error)
            return
        future = job.answers.get(key)
        if future is not None and not future.done():
            future.set_exception(InputRejected(error.kind, error.message, data=getattr(error, "data", UNSET)))
            job.machine.withdraw([key], self._dispatcher.clock())
            await self._tell_change(job)

    # --- reading ------------------------------------------------------------------------------------------

    def job(self, id: str) -> Job | None:
        """The job of a task that runs in this process."""
        return self._jobs.get(id)

    async def find(self, call: Call, id: str) -> TaskMachine:
        """The task ``id``, if the caller of ``call`` may see it.

        Raises:
            ProtocolError: ``task_not_found``: the task was deleted, belongs to another caller, or has another design.
        """
        known = id if GENERATED.fullmatch(id) else await self._roster.called(call, id)
        machine = None if known is None else await self._load(key_of(call.principal), known)
        if machine is None or machine.design not in (MODERN if call.revision.modern else LEGACY):
            raise ProtocolError("task_not_found", data={"taskId": id[:NAME_ECHO]})
        return machine

    async def known(self, call: Call, ids: list[str]) -> list[TaskMachine]:
        """The tasks with ``ids`` that the caller may see."""
        found = [await self._load(key_of(call.principal), id) for id in ids]
        return [machine for machine in found if machine is not None and machine.design == "extension"]

    async def page(self, call: Call, after: str, size: int) -> list[TaskMachine]:
        """Tasks of the caller in the order of their creation: of its principal or, without one, of its session."""
        if call.principal is None:
            found: list[TaskMachine] = []
            for id in sorted(id for id in self._roster.living(call.session) if id > after):
                if len(found) < size and (task := await self._load(None, id)) is not None:
                    found.append(task)
            return found
        return await self._kept.scan(call.principal.key, after, size)

    async def _load(self, principal: str | None, id: str) -> TaskMachine | None:
        job = self._jobs.get(id)
        if job is not None:
            machine = job.machine if job.machine.principal == principal else None
        else:
            machine = await self._kept.load(principal, id)
        return None if machine is None or machine.expired(self._dispatcher.clock()) else machine

    # --- ending -------------------------------------------------------------------------------------------

    async def cancel(self, task: TaskMachine, reason: str | None) -> None:
        """Stop the work; the state becomes cancelled immediately, even if the work continues.

        Raises:
            ProtocolError: of kind ``task_already_completed``.
        """
        job = self._jobs.get(task.id)
        async with job.lock if job is not None else nullcontext():
            pass  # another final state is being stored already
        task.cancel(self._dispatcher.clock(), reason)
        if job is None:
            await self.sharing.cancel(task, reason)
            return
        job.call.cancelled = True
        await self._tell_change(job)
        self._executor.cancel(task.id)

    async def finish(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the running tasks."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._jobs:
                    await next(iter(self._jobs.values())).changed()

    async def close(self) -> None:
        """Cancel all work: running tasks fail."""
        await self.sharing.stop_heartbeat()  # or it would resume the tasks that were just released
        await self._executor.close()
        self._jobs.clear()
        await self.sharing.close()

    # --- publishing ---------------------------------------------------------------------------------------

    def _say(self, job: Job, params: ProgressNotificationParams) -> None:
        say(self._dispatcher, job, params)
        if self.sharing.shared and (job.keeping is None or job.keeping.done()):
            job.keeping = asyncio.get_running_loop().create_task(self._keep_notes(job))

    async def _keep_notes(self, job: Job) -> None:
        """Store progress messages for other workers, at a limited rate."""
        await asyncio.sleep(TASK_NOTES)
        try:
            if not job.machine.ended and job.first is None:
                await self._save(job)
        except StoreError as error:
            log.info("progress message of task %s was not stored: %s", job.machine.id, error.message)

    async def _tell_change(self, job: Job) -> None:
        try:
            await self._save(job)
        except StoreFull as error:
            # The task continues and this process reports the state; it would be lost after a restart.
            log.warning("task %s could not be stored: %s", job.machine.id, error)
        except Exception:  # noqa: BLE001  if the store fails, waiting callers must still get a response
            mask(f"storing task {job.machine.id}")
        if job.abandoned:
            return
        if job.machine.ended:
            self._roster.ended.add(job.machine)
        publish(self._dispatcher, job)
        job.wake()

    async def _save(self, job: Job) -> None:
        async with job.lock:
            state = (job.machine.status, job.machine.updated)
            kept = await self._kept.put(job.machine, job.fence)
        job.kept = state if kept else job.kept
        if not kept:
            self.lost(job.machine.id)
        else:
            await self.sharing.publish_change(job.machine.id)

    # --- other workers ------------------------------------------------------------------------------------

    def resume(self, machine: TaskMachine, call: Call, fence: int) -> None:
        """Run a task again whose worker has died. This worker has its lease.

        Raises:
            ProtocolError: of kind ``too_many_tasks``.
        """
        machine.restart(self._dispatcher.clock())
        job = Job(machine, call)
        job.fence = fence
        job.channel = TaskChannel(job.machine.id, partial(self._say, job), partial(tell, job))
        job.channel.asking = self._asking(job)
        job.run = partial(self._dispatcher.pipeline.resume, call, job.channel, job)
        self._jobs[machine.id] = job
        try:
            self._executor.start(machine.id, partial(self._run, job))
        except ProtocolError:
            del self._jobs[machine.id]
            raise

    def lost(self, id: str) -> None:
        """Another worker has resumed the task: stop without a report."""
        job = self._jobs.pop(id, None)
        if job is not None:
            job.abandoned = job.call.cancelled = True
            self._executor.cancel(id)
