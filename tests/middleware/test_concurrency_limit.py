"""`ConcurrencyLimit`: places, a queue, and who is turned away."""

import asyncio
from typing import Any

import pytest

from dovetail import Server
from dovetail.middleware import ConcurrencyLimit
from tests.support.aio import run
from tests.support.held import held
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import turns, until


class Work:
    """A tool that runs until it is let go."""

    def __init__(self, middleware: ConcurrencyLimit, **options: Any) -> None:
        self.running = self.most = 0
        self.order: list[str] = []
        self.go = asyncio.Event()
        self.server = Server("work", middleware=[middleware], **options)

        async def work(name: str = "") -> str:
            self.running += 1
            self.most = max(self.most, self.running)
            self.order.append(name)
            try:
                await self.go.wait()
            finally:
                self.running -= 1
            return "done"

        self.server.add_tool(work)
        self.server.add_tool(work, name="other")
        self.server.add_tool(lambda: "done", name="quick")

    def call(self, name: str = "", tool: str = "work", **options: Any) -> asyncio.Task[dict[str, Any]]:
        peer = Peer(self.server, **options)
        return asyncio.ensure_future(peer.send("tools/call", name=tool, arguments={"name": name}))


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_more_than_the_places_wait_in_order_and_more_than_the_queue_are_refused(revision: str) -> None:
    middleware = ConcurrencyLimit(total=2, queue=2)
    work = Work(middleware)
    calls = [work.call(str(number), revision=revision) for number in range(5)]
    await until(lambda: work.running == 2 and middleware.waiting == 2)
    error = (await calls[4])["error"]
    assert (error["code"], error["data"]["kind"]) == (1004, "resource_constraints")
    assert error["data"]["retryAfterMs"] > 0
    work.go.set()
    assert all("result" in answer for answer in await asyncio.gather(*calls[:4]))
    assert work.order == ["0", "1", "2", "3"]
    assert (work.most, middleware.waiting, middleware.running) == (2, 0, 0)


@run
async def test_a_busy_tool_does_not_block_others_and_is_refused_with_its_own_kind() -> None:
    work = Work(ConcurrencyLimit(per_tool=1, queue=0))
    first = work.call()
    await until(lambda: work.running == 1)
    error = (await work.call())["error"]
    assert (error["code"], error["data"]["kind"]) == (1004, "too_many_tools")
    other = work.call(tool="other")
    await until(lambda: work.running == 2)
    work.go.set()
    await asyncio.gather(first, other)


@run
async def test_one_principal_cannot_take_all_places() -> None:
    middleware = ConcurrencyLimit(per_principal=2, total=4)
    work = Work(middleware)
    greedy = [work.call(principal="ann") for _ in range(6)]
    await until(lambda: work.running == 2 and middleware.waiting == 4)
    modest = [work.call(principal="bob") for _ in range(2)]
    await until(lambda: work.running == 4)
    work.go.set()
    await asyncio.gather(*greedy, *modest)
    assert middleware.running == 0


@run
async def test_who_gives_up_in_the_queue_or_at_work_gives_its_place_to_the_next() -> None:
    middleware = ConcurrencyLimit(total=1)
    work = Work(middleware)
    first, second, third = (work.call(name) for name in "abc")
    await until(lambda: middleware.waiting == 2)
    second.cancel()
    await until(lambda: middleware.waiting == 1)
    first.cancel()
    await until(lambda: work.order == ["a", "c"])
    work.go.set()
    assert "result" in await third
    assert middleware.running == 0


@run
async def test_a_slot_handed_to_a_cancelled_waiter_is_not_lost() -> None:
    middleware = ConcurrencyLimit(total=1)
    work = Work(middleware)
    first, second = work.call("a"), work.call("b")
    await until(lambda: middleware.waiting == 1)
    work.go.set()
    await first
    second.cancel()
    await turns()
    assert "result" in await work.call("c")
    assert middleware.running == 0


@run
async def test_many_principals_are_evicted_but_not_the_active_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.middleware.concurrency_limit.TRACKED_NAMES", 8)
    middleware = ConcurrencyLimit(per_principal=1, per_tool=100, queue=0)
    work = Work(middleware)
    first = work.call(principal="ann")
    await until(lambda: work.running == 1)
    sizes: list[int] = []
    for number in range(40):
        assert "result" in await Peer(work.server, principal=str(number)).send("tools/call", name="quick")
        sizes.append(held(middleware))
    assert max(sizes[20:]) <= max(sizes[:20])
    assert (await work.call(principal="ann"))["error"]["code"] == 1004
    work.go.set()
    assert "result" in await first
    assert "result" in await work.call(principal="ann")
    assert middleware.running == 0


@run
async def test_lists_and_handshakes_never_wait() -> None:
    work = Work(ConcurrencyLimit(total=1, queue=0))
    call = work.call()
    await until(lambda: work.running == 1)
    assert "result" in await Peer(work.server).send("tools/list")
    work.go.set()
    await call


@pytest.mark.parametrize("options", [{}, {"total": 0}, {"per_tool": -1}])
def test_a_limit_that_lets_nothing_through_is_said_at_once(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="limit"):
        ConcurrencyLimit(**options)
