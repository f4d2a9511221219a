"""`StoredSteps`: results of the steps of tool handlers (`ctx.step`), so that a repeated call does not redo
them.

Each step is run by the call that first acquires its lease. Another run of the same call waits for the result.
A step whose process died is repeated only if the tool allows it; otherwise its outcome is unknown and the
call fails with ``call_interrupted``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from msgspec import UNSET, Struct

from ..core.channel import Call
from ..drivers.heartbeat import repeat
from ..drivers.shielding import run_to_completion
from ..errors import ProtocolError
from ..server.handles import owner
from ..server.registry.component_tables import RegisteredTool
from ..stores.base import Store, StoreError
from ..stores.versioned_records import VersionedRecords
from ..wire.seal import digest
from .process_registry import LEASE_LIFETIME
from .stored_results import StoredResults, results_of

if TYPE_CHECKING:
    from ..server.dispatcher import Dispatcher

STEP_POLL_INTERVAL: Final = 0.05
"""Interval at which a call polls a step that another run of the same call executes."""


_records: VersionedRecords[Any] = VersionedRecords(cast("Any", Any))


class _Step(Struct, omit_defaults=True):
    done: bool = False
    value: Any = None


_steps = VersionedRecords(_Step)


class StoredSteps:
    """The steps of one call or task. ``again`` says whether an interrupted step may be repeated.

    With ``results`` old steps are evicted: the request state of the client contains their results too.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        ttl: float | None,
        *,
        again: bool,
        results: StoredResults | None = None,
    ) -> None:
        self._store = store
        self._results = results
        self._folder = f"step/{folder}"
        self._ttl = ttl
        self._repeatable = again

    async def get(self, key: str) -> Any:
        """Return the value stored under ``key``, or UNSET."""
        data = await self._store.get(self._name(key))
        return UNSET if data is None else _records.decode(data)

    async def put(self, key: str, value: Any) -> None:
        await self._store.put(self._name(key), _records.encode(value), ttl=self._ttl)

    async def run(self, key: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of step ``key``: stored, awaited from another run, or produced by ``work``.

        Raises:
            ProtocolError: ``call_interrupted``.
        """
        name, me = self._name(f"step-{key}"), secrets.token_hex(8)
        while True:
            begun = await self._read(name)
            if begun is not None and begun.done:
                return begun.value
            fence = await self._store.lease(name, me, LEASE_LIFETIME)
            if not fence:
                await asyncio.sleep(STEP_POLL_INTERVAL)
                continue
            try:
                begun = await self._read(name)  # it may have ended before the lease became free
                if begun is not None and begun.done:
                    return begun.value
                if begun is not None and not self._repeatable:
                    raise ProtocolError("call_interrupted", data={"step": key})
                return await self._execute(name, me, fence, work)
            finally:
                await run_to_completion(self._store.lease(name, me, 0))

    async def _execute(self, name: str, me: str, fence: int, work: Callable[[], Awaitable[Any]]) -> Any:
        await self._store.put(name, _steps.encode(_Step()), ttl=self._ttl, fence=fence)
        beat = asyncio.create_task(keep_lease(self._store, name, me))
        try:
            value = await work()
        except Exception:
            await self._store.delete(name)  # the error says that the step did not run
            raise
        except BaseException:
            await run_to_completion(
                self._make_room(name, 0)
            )  # the outcome is unknown: keep the pending record
            raise
        finally:
            beat.cancel()
        # The step is done: store that even if the call is cancelled at this moment.
        await run_to_completion(self._store_result(name, fence, _steps.encode(_Step(True, value))))
        return value

    async def _store_result(self, name: str, fence: int, done: bytes) -> None:
        await self._store.put(name, done, ttl=self._ttl, fence=fence)
        await self._make_room(name, len(done))

    async def _make_room(self, name: str, size: int) -> None:
        with suppress(StoreError):  # the step stays done; old records expire
            for old in () if self._results is None else self._results.add(name, size):
                await self._store.delete(old)

    async def _read(self, name: str) -> _Step | None:
        data = await self._store.get(name)
        return None if data is None else _steps.decode(data)

    def _name(self, key: str) -> str:
        return f"{self._folder}/{quote(key, safe='')}"


def steps_of(dispatcher: Dispatcher, store: Store, call: Call) -> StoredSteps:
    """Return the steps of an input round on 2026-07-28, which may arrive twice and at any process."""
    tool = dispatcher.registry.tools.entries.get(call.params.name) if call.method == "tools/call" else None
    folder = f"{owner(call.principal)}/{digest([call.params.request_state]).hex()[:48]}"
    return StoredSteps(
        store,
        folder,
        dispatcher.settings.state_lifetime,
        again=is_repeatable(tool),
        results=results_of(store),
    )


async def keep_lease(store: Store, name: str, me: str) -> None:
    """Renew the lease ``name`` until cancelled."""

    async def renew() -> None:
        with suppress(StoreError):  # the next renewal may succeed in time
            await store.lease(name, me, LEASE_LIFETIME)

    await repeat(LEASE_LIFETIME / 3, renew)


def is_repeatable(tool: RegisteredTool | None) -> bool:
    """Return whether the tool may run twice, according to its annotations."""
    notes = UNSET if tool is None else tool.definition.annotations
    return notes is not UNSET and bool(notes.get("readOnlyHint") or notes.get("idempotentHint"))
