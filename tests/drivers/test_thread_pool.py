"""Threads for what blocks."""

import asyncio
import contextvars
import gc
import random
import threading
import time
import weakref

import pytest

from dovetail.drivers import thread_pool
from dovetail.drivers.thread_pool import DaemonExecutor, ThreadPool
from tests.support.aio import run
from tests.support.waiting import HANG, turns, until

word = contextvars.ContextVar("word", default="none")


class Stuck:
    """A call that reports its start and ends on request."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    def __call__(self) -> bool:
        self.begun.set()
        return self.release.wait(HANG)


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "test-pool"]


async def gone(pool: ThreadPool) -> None:
    pool.close()
    await until(lambda: not workers())


@run
async def test_a_function_runs_in_a_thread_with_the_callers_context() -> None:
    pool = ThreadPool(2, name="test-pool")
    word.set("ours")
    assert await pool.run(lambda a, *, b: (a, b, word.get(), threading.current_thread().daemon), 1, b=2) == (
        1,
        2,
        "ours",
        True,
    )
    await gone(pool)


@run
async def test_what_it_raises_is_raised_here() -> None:
    pool = ThreadPool(1, name="test-pool")
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(next, iter(()))
    assert await pool.run(lambda: "still works") == "still works"
    await gone(pool)


@run
async def test_no_more_threads_than_the_limit_and_the_rest_wait_their_turn() -> None:
    pool = ThreadPool(3, name="test-pool")
    most = running = 0
    lock = threading.Lock()
    three = threading.Barrier(3)

    def busy() -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        three.wait(HANG)
        with lock:
            running -= 1
        three.wait(HANG)

    await asyncio.gather(*(pool.run(busy) for _ in range(12)))
    assert most == 3
    assert len(workers()) == 3
    await gone(pool)


@run
async def test_a_cancelled_call_that_has_not_begun_never_begins() -> None:
    pool = ThreadPool(1, name="test-pool")
    stuck = Stuck()
    first = asyncio.ensure_future(pool.run(stuck))
    begun: list[int] = []
    second = asyncio.ensure_future(pool.run(begun.append, 1))
    await until(stuck.begun.is_set)
    second.cancel()
    await asyncio.sleep(0)
    stuck.release.set()
    assert await first
    assert await pool.run(lambda: "next") == "next"
    assert begun == []
    await gone(pool)


class Heavy:
    """An argument whose end can be seen."""


@run
async def test_a_cancelled_call_that_has_not_begun_lets_go_of_its_arguments() -> None:
    pool = ThreadPool(1, name="test-pool")
    stuck = Stuck()
    first = asyncio.ensure_future(pool.run(stuck))
    heavy = Heavy()
    seen = weakref.ref(heavy)
    waiting = asyncio.ensure_future(pool.run(lambda one: None, heavy))
    order: list[int] = []
    others = [asyncio.ensure_future(pool.run(order.append, n)) for n in range(3)]
    await until(stuck.begun.is_set)
    waiting.cancel()
    await asyncio.wait([waiting])
    del heavy, waiting
    gc.collect()
    assert seen() is None
    stuck.release.set()
    await asyncio.gather(first, *others)
    assert order == [0, 1, 2]
    await gone(pool)


@run
async def test_threads_that_never_return_are_replaced_so_that_others_are_served() -> None:
    pool = ThreadPool(2, name="test-pool")
    holding = [Stuck() for _ in range(4)]
    for one in holding[:2]:
        call = asyncio.ensure_future(pool.run(one))
        await until(one.begun.is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await asyncio.wait_for(pool.run(lambda: "served"), HANG) == "served"
    # More than the limit are not written off: then calls wait until a thread comes back.
    again = [asyncio.ensure_future(pool.run(one)) for one in holding[2:]]
    await until(lambda: all(one.begun.is_set() for one in holding))
    for call in again:
        call.cancel()
    late = asyncio.ensure_future(pool.run(lambda: "late"))
    await turns()
    assert not late.done()
    for one in holding:
        one.release.set()
    assert await late == "late"
    await gone(pool)


@run
async def test_no_call_is_lost_between_cancellations_and_closings() -> None:
    chance = random.Random(7)
    pool = ThreadPool(3, name="test-pool")
    for _ in range(60):
        calls = [asyncio.ensure_future(pool.run(time.sleep, chance.random() / 500)) for _ in range(6)]
        await turns(chance.randrange(40))
        if chance.random() < 0.5:
            pool.close()
        given_up = chance.sample(calls, 2)
        for one in given_up:
            one.cancel()
        _, pending = await asyncio.wait(calls, timeout=HANG)
        assert not pending
    await gone(pool)


@run
async def test_idle_threads_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.drivers.thread_pool.IDLE_THREAD_SECONDS", 0.02)
    pool = ThreadPool(4, name="test-pool")
    await asyncio.gather(*(pool.run(time.sleep, 0.01) for _ in range(4)))
    await until(lambda: not workers())
    assert await pool.run(lambda: "again") == "again"
    await gone(pool)


@run
async def test_the_executor_of_to_thread_never_waits_for_its_threads() -> None:
    pool = ThreadPool(2, name="test-pool")
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonExecutor(pool))
    assert await asyncio.to_thread(lambda: "done") == "done"
    with pytest.raises(ValueError, match="no"):
        await asyncio.to_thread(_refuse)
    stuck = Stuck()
    call = asyncio.ensure_future(asyncio.to_thread(stuck))
    await until(stuck.begun.is_set)
    await loop.shutdown_default_executor()
    assert not call.done()
    stuck.release.set()
    await call
    await gone(pool)


def _refuse() -> None:
    raise ValueError("no")


@run
async def test_giving_up_after_the_pool_was_closed_starts_no_thread() -> None:
    pool = ThreadPool(4, name="test-pool")
    begun, gate = threading.Semaphore(0), threading.Event()

    def busy() -> None:
        begun.release()
        gate.wait()

    waiting = [asyncio.ensure_future(pool.run(busy)) for _ in range(3)]
    for _ in waiting:
        await asyncio.to_thread(begun.acquire)
    before = set(workers())
    pool.close()
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    assert set(workers()) == before
    gate.set()
    await gone(pool)


@run
async def test_jobs_of_to_thread_that_are_given_up_leave_the_queue_at_once() -> None:
    pool = ThreadPool(1, name="test-pool")
    asyncio.get_running_loop().set_default_executor(DaemonExecutor(pool))
    release = threading.Event()
    first = asyncio.ensure_future(asyncio.to_thread(release.wait))
    heavy = Heavy()
    seen = weakref.ref(heavy)
    begun: list[int] = []
    for _ in range(50):
        flood = [
            asyncio.ensure_future(asyncio.to_thread(lambda one: begun.append(1), heavy)) for _ in range(20)
        ]
        await asyncio.sleep(0)
        for one in flood:
            one.cancel()
        await asyncio.wait(flood)
    del heavy, flood, one
    await asyncio.sleep(0)
    gc.collect()
    assert seen() is None
    release.set()
    await first
    assert await asyncio.to_thread(lambda: "next") == "next"
    assert begun == []
    await gone(pool)


@run
async def test_a_platform_without_threads_runs_functions_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_pool, "HAS_THREADS", False)
    before = threading.active_count()
    assert await ThreadPool().run(threading.get_ident) == threading.get_ident()
    assert threading.active_count() == before
