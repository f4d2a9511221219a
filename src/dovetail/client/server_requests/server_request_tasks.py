"""Tasks on the client: 2025-11-25 lets a server send its requests as tasks.

The server gets a task id at once and fetches the result later. The work ends with the connection. Finished
results are retained for the requested time, up to `Limits.max_tasks`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, json

from ...core.channel import Call
from ...core.task_machine import TaskMachine
from ...core.task_views import CORE, core_list, outcome, related_task_meta
from ...errors import INTERNAL_ERROR, DovetailError, ProtocolError
from ...model import Error
from ...wire.dialects import wire_error

QUESTION_TTL: Final = 3_600_000
QUESTION_POLL: Final = 500
"""Limits of the retention time and the polling interval of such a task, in milliseconds."""

log = logging.getLogger("dovetail.client")

TASK_METHODS = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})


class ServerRequestTasks:
    """The tasks of one connection."""

    def __init__(self, limit: int, now: Callable[[], float] = time.time) -> None:
        self._limit = limit
        self._now = now
        self._machines: dict[str, TaskMachine] = {}
        self._work: dict[str, asyncio.Task[None]] = {}

    def create(self, call: Call, work: Coroutine[Any, Any, Struct]) -> Struct:
        """Run ``work`` as a task. Return the immediate response.

        Raises:
            ProtocolError: there are too many tasks (``too_many_tasks``).
        """
        self._forget_expired()
        if len(self._machines) >= self._limit:
            work.close()
            raise ProtocolError("too_many_tasks")
        wished = call.params.task.ttl
        now = self._now()
        machine = TaskMachine(
            id=secrets.token_urlsafe(24),
            design="core",
            created=now,
            updated=now,
            method=call.method,
            ttl=min(wished, QUESTION_TTL) if isinstance(wished, int) else QUESTION_TTL,
            poll_interval=QUESTION_POLL,
        )
        machine.start(now)
        self._machines[machine.id] = machine
        self._work[machine.id] = asyncio.get_running_loop().create_task(self._run(machine, call, work))
        return CORE.created(machine)

    async def respond(self, call: Call) -> Struct | Raw:
        """Answer one of the `TASK_METHODS`.

        Raises:
            ProtocolError: the task does not exist or has ended.
        """
        self._forget_expired()
        if call.method == "tasks/list":
            return core_list(list(self._machines.values()))
        machine = self._machines.get(call.params.task_id)
        if machine is None:
            raise ProtocolError("task_not_found")
        if call.method == "tasks/get":
            return CORE.state(machine)
        if call.method == "tasks/result":
            return await self._result(machine)
        if machine.ended:
            raise ProtocolError("task_state_invalid", f"the task is {machine.status} already")
        machine.cancel(self._now())
        self._work[machine.id].cancel()
        return CORE.cancelled(machine)

    async def close(self) -> None:
        """Cancel running tasks: the connection has ended."""
        work, self._work = list(self._work.values()), {}
        self._machines.clear()
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)

    async def _run(self, machine: TaskMachine, call: Call, work: Coroutine[Any, Any, Struct]) -> None:
        try:
            result = await work
            if not machine.ended:
                machine.complete(Raw(json.encode(call.codec.downgrade(result))), self._now())
        except DovetailError as error:
            code, message, data = wire_error(error, call.revision, call.codec.dialect)
            if not machine.ended:
                machine.fail(Error(code, message, data=data), self._now())
        except Exception:
            log.exception("answering %s as a task failed", call.method)
            if not machine.ended:
                machine.fail(Error(INTERNAL_ERROR, "Internal error"), self._now())
        finally:
            self._work.pop(machine.id, None)

    async def _result(self, machine: TaskMachine) -> Raw:
        work = self._work.get(machine.id)
        if work is not None:
            await asyncio.wait([work])
        found = outcome(machine)
        if isinstance(found, Error):
            data = UNSET if found.data is UNSET else found.data
            raise ProtocolError("task_failed", found.message, data=data, code=found.code)
        if found is None:
            raise ProtocolError("task_cancelled")
        members: dict[str, Any] = json.decode(found)
        return Raw(
            json.encode({**members, "_meta": {**members.get("_meta", {}), **related_task_meta(machine.id)}})
        )

    def _forget_expired(self) -> None:
        now = self._now()
        for id in [id for id, machine in self._machines.items() if machine.ended and machine.expired(now)]:
            del self._machines[id]
