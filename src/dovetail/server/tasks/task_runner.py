"""Running calls as tasks: they begin, ask, report, end and are forgotten.

`Tasks` joins three things: the state machine (`core.task_machine`), a store that remembers every state before
anybody is told of it, and an executor that does the work. A task that runs in this process is a `Job`; all
others are what the store has. Who may see a task is decided by its key: it has the principal in it.
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
from ...stores.base import StoreError, StoreFull
from ...wire.dialects.dialect import wire_error
from ...wire.methods import METHODS
from ..input_requests.client_requests import InputRejected, LegacyAsking, asking_for
from .owner_index import GENERATED
from .task_channel import DetachableAsking, TaskAsking, TaskChannel
from .task_dependencies import Dependencies
from .task_jobs import Executor, InProcessExecutor, Job
from .task_notifications import publish, say, tell
from .task_options import Wish, task_for
from .task_quotas import Roster
from .task_store import LEGACY, MODERN, KeptTasks

if TYPE_CHECKING:
    from ...cluster.durable_tasks import DurableTasks
    from ..dispatcher import Dispatcher

TASK_NOTES: Final = 1.0
"""Seconds after which other workers can see what a task says of itself."""

log = logging.getLogger("dovetail.server")

_NO_WISH: Final = Wish()


class Tasks:
    """The tasks of one server."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._kept = KeptTasks(dispatcher)
        self.durable: DurableTasks | None = None
        """Present where tasks outlive their worker."""
        if dispatcher.lifecycle.store is not None:
            from ...cluster.durable_tasks import DurableTasks  # a server without a store does without it

            self.durable = DurableTasks(dispatcher, self._kept, self)
        self._executor: Executor = InProcessExecutor(dispatcher.limits.max_tasks)
        self._jobs: dict[str, Job] = {}
        self._roster = Roster(dispatcher, self._kept)
        follow = None if self.durable is None else self.durable.follow
        self._dependencies = Dependencies(self._load, self.job, follow)

    # --- beginning ----------------------------------------------------------------------------------------

    async def begin(
        self, request: Request, face: TaskDesign, wish: Wish, chain: Next, asking: Call, *, asks_first: bool
    ) -> Struct | Raw:
        """Run the ``tools/call`` in ``request`` through ``chain`` as a task.

        The call becomes a task when the chain lets it through (with ``asks_first``: when its handler says so). The
        created task is returned then, and can be read before that. What ends the chain earlier is returned as it is.

        Raises:
            DovetailError: the chain refused the call; or ``too_many_tasks``, ``task_already_exists``,
                ``task_dependency_failed``.
        """
        call, channel = request.call, request.channel
        job = self._job(call, face, wish)
        machine = job.machine
        machine.depends_on = await self._depends_on(call, wish)
        # erlmcp has no way to ask through a task: questions are requests on the connection, which is here.
        if face != "erlmcp" and not asks_first and self.durable is not None and self.durable.has_workers:
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
            if job.detaching is not None:  # what was written of the task is removed first
                await run_to_completion(job.detaching.wait())
            raise

    async def _hand_over(self, job: Job, request: Request) -> Struct:
        """Leave a task to the workers, whose chain runs around the work."""
        call = request.call
        job.call.params, job.machine.name = call.params, call.params.name
        arguments = call.params.arguments
        job.machine.parameters = arguments if arguments is UNSET else Raw(bytes(arguments))
        self._note_caller(job)
        await self._remember(job)
        return TASK_VIEWS[job.machine.design].created(job.machine)

    def _job(self, call: Call, face: TaskDesign, wish: Wish) -> Job:
        caller = None if self.durable is None else self.durable.caller(call)
        machine = task_for(
            call, face, wish, self._dispatcher.settings.tasks, self._dispatcher.clock(), caller
        )
        return Job(machine, replace(call, cancelled=False, batch=None, source=None))

    def _note_caller(self, job: Job) -> None:
        """Keep with the task on whose behalf it runs: other workers go on from there."""
        carrier, durable = self._dispatcher.admission.meta_provider, self.durable
        if carrier is not None:
            job.call.meta = {**job.call.meta, **carrier.request_meta()}
        if durable is not None:
            job.machine.caller = durable.caller(job.call)

    async def _depends_on(self, call: Call, wish: Wish) -> list[str]:
        try:
            return [(await self.find(call, id)).id for id in wish.depends_on]
        except ProtocolError as error:
            raise ProtocolError("task_dependency_failed", error.message, data=error.data) from None

    def _asking(self, job: Job) -> TaskAsking:
        machine = job.machine
        steps = None if self.durable is None else self.durable.steps(machine)
        ask = partial(self._ask, job)
        return TaskAsking(
            self._dispatcher, job.call, job.channel, ask, lambda key: key in machine.input_keys, steps
        )

    async def _detach(self, job: Job) -> None:
        """The call is a task from here on: the client gets it, and the work begins."""
        self._note_caller(job)
        job.detaching = asyncio.Event()
        try:
            await self._remember(job)
        finally:
            job.detaching.set()
        self._create(job)
        await asyncio.sleep(0)  # the call sends its reply first: a client does not know the task before
        await self._start(job)

    def _create(self, job: Job) -> None:
        """Answer the call with its task."""
        first, job.first = job.first, None
        if first is not None and not first.done():
            first.set_result(TASK_VIEWS[job.machine.design].created(job.machine))
        job.begun()

    async def _start(self, job: Job) -> None:
        """Begin the work of a task, when those it depends on have ended."""
        machine = job.machine
        if machine.depends_on:
            await self._dependencies.wait(job)
        begins = machine.status == "pending"
        if begins:
            machine.start(self._dispatcher.clock())
        await self._save(job)
        if begins and machine.design == "erlmcp":
            # Its documents: the server sends the status whenever it changes. Official peers never see pending.
            publish(self._dispatcher, job)
        if job.timer is not None and machine.time_limit is not None:
            job.timer.reschedule(asyncio.get_running_loop().time() + machine.time_limit)

    async def _remember(self, job: Job, begin: Callable[[], None] = lambda: None) -> None:
        """Keep a new task, then ``begin``: both, or neither."""
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
        """Write all that is kept of a new task; again, where there was no room for a part of it."""
        await self._save(job)
        if self.durable is not None:
            await (self.durable.dispatch(job) if job.machine.queued else self.durable.acquire(job))

    async def _forget(self, job: Job) -> None:
        self._jobs.pop(job.machine.id, None)
        with suppress(StoreError):  # whoever looks after tasks that have lost their worker finds what is left
            await self._kept.forget(job.machine)
        await self._let_go(job)

    # --- working ------------------------------------------------------------------------------------------

    async def _run(self, job: Job) -> None:
        """The work from its start to its end. Raises nothing but its cancellation."""
        machine = job.machine
        timer = job.timer = asyncio.timeout(None)
        try:
            async with timer:
                if job.first is None:  # another process has begun it
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
        if self.durable is not None:
            # A lease that is not given back keeps all others away while it lasts.
            await run_to_completion(self.durable.release(job))

    def _left_to_others(self, job: Job) -> bool:
        """Whether another worker does it, or will once this one has stopped."""
        if self.durable is None or job.machine.ended or job.first is not None:
            return False
        return job.abandoned or self.durable.may_run_again(job.machine)

    async def _done(self, job: Job, result: Struct | Raw) -> None:
        if job.first is not None:
            if job.machine.design == "extension":
                if not job.first.done():
                    job.first.set_result(result)
                return
            # The client has asked for a task: it gets one that is over.
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
            await self._failed(job, ProtocolError("tool_result_too_large", "there is no room for the result"))
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

    # --- asking -------------------------------------------------------------------------------------------

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
        """NullWriter waits for this answer any more: it came, or the handler went on without it."""
        job.answers.pop(key, None)
        job.taken.discard(key)
        job.machine.withdraw([key], self._dispatcher.clock())

    async def answer(self, task: TaskMachine, responses: Mapping[str, Raw], call: Call) -> None:
        """Hand the client's answers to whoever asked; unknown keys are ignored.

        Raises:
            RemoteProtocolError: an answer does not fit its question; none was taken.
        """
        job = self._jobs.get(task.id)
        if job is None:
            if self.durable is not None and task.respond(responses, call.codec, self._dispatcher.clock()):
                await self.durable.answer(task, responses)
            return
        taken = job.machine.respond(responses, call.codec, self._dispatcher.clock())
        for key in taken:
            raw, future = job.machine.take_response(key), job.answers.get(key)
            if raw is not None and future is not None and not future.done():
                future.set_result(Raw(bytes(raw)))
        if taken:
            await self._tell_change(job)

    async def refuse_answer(self, job: Job, key: str, error: DovetailError) -> None:
        """The client answered a question with an error; the handler gets to know it."""
        if self.durable is not None and job.machine.id not in self._jobs:
            await self.durable.refuse_answer(job, key, error)
            return
        future = job.answers.get(key)
        if future is not None and not future.done():
            future.set_exception(InputRejected(error.kind, error.message, data=getattr(error, "data", UNSET)))
            job.machine.withdraw([key], self._dispatcher.clock())
            await self._tell_change(job)

    # --- looking ------------------------------------------------------------------------------------------

    def job(self, id: str) -> Job | None:
        """The work of a task, while it runs in this process."""
        return self._jobs.get(id)

    async def find(self, call: Call, id: str) -> TaskMachine:
        """The task ``id``, if the caller of ``call`` may know of it.

        Raises:
            ProtocolError: ``task_not_found``; what is forgotten, foreign or of the other design is not there.
        """
        known = id if GENERATED.fullmatch(id) else await self._roster.called(call, id)
        machine = None if known is None else await self._load(key_of(call.principal), known)
        if machine is None or machine.design not in (MODERN if call.revision.modern else LEGACY):
            raise ProtocolError("task_not_found", data={"taskId": id[:NAME_ECHO]})
        return machine

    async def known(self, call: Call, ids: list[str]) -> list[TaskMachine]:
        """Those of ``ids`` that the caller may know of."""
        found = [await self._load(key_of(call.principal), id) for id in ids]
        return [machine for machine in found if machine is not None and machine.design == "extension"]

    async def page(self, call: Call, after: str, size: int) -> list[TaskMachine]:
        """Tasks of the caller in the order of their creation: of the principal or, without one, of the session."""
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
        """Stop the work; the task is cancelled at once, whatever the work does about it.

        Raises:
            ProtocolError: of kind ``task_already_completed``.
        """
        job = self._jobs.get(task.id)
        async with job.lock if job is not None else nullcontext():
            pass  # an end that is being kept came first
        task.cancel(self._dispatcher.clock(), reason)
        if job is None:
            await (self._kept.put(task) if self.durable is None else self.durable.cancel(task, reason))
            return
        job.call.cancelled = True
        await self._tell_change(job)
        self._executor.cancel(task.id)

    async def finish(self, seconds: float) -> None:
        """Let what runs here come to its end, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._jobs:
                    await next(iter(self._jobs.values())).changed()

    async def close(self) -> None:
        """Stop all work: tasks that were running have failed."""
        if self.durable is not None:
            await self.durable.stop_heartbeat()  # or it would take up what was just left
        await self._executor.close()
        self._jobs.clear()
        if self.durable is not None:
            await self.durable.close()

    # --- telling ------------------------------------------------------------------------------------------

    def _say(self, job: Job, params: ProgressNotificationParams) -> None:
        say(self._dispatcher, job, params)
        if self.durable is not None and (job.keeping is None or job.keeping.done()):
            job.keeping = asyncio.get_running_loop().create_task(self._keep_notes(job))

    async def _keep_notes(self, job: Job) -> None:
        """Let other workers see what was said, however often it is."""
        await asyncio.sleep(TASK_NOTES)
        try:
            if not job.machine.ended and job.first is None:
                await self._save(job)
        except StoreError as error:
            log.info("what task %s says was not kept: %s", job.machine.id, error.message)

    async def _tell_change(self, job: Job) -> None:
        try:
            await self._save(job)
        except StoreFull as error:
            # The task goes on and whoever asks here is told; only a restart would not know this state.
            log.warning("task %s could not be stored: %s", job.machine.id, error)
        except Exception:  # noqa: BLE001  a store that breaks must not leave those who wait without an answer
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
        elif self.durable is not None:
            await self.durable.publish_change(job.machine.id)

    # --- other workers ------------------------------------------------------------------------------------

    def resume(self, machine: TaskMachine, call: Call, fence: int) -> None:
        """Run again what a dead worker began; its lease is ours.

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
        """Another worker has taken the task up: stop, and say nothing."""
        job = self._jobs.pop(id, None)
        if job is not None:
            job.abandoned = job.call.cancelled = True
            self._executor.cancel(id)
