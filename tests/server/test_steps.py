"""Steps of a call whose answers arrive twice: each step runs once."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.stores import MemoryStore, StoreUnavailable
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.shared import Shared
from tests.support.waiting import until


class Shop:
    """A server that charges after it has asked."""

    def __init__(self, store: Any, charged: list[int], **notes: bool) -> None:
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.server = server = Server("shop", store=store)

        async def charge() -> int:
            charged.append(len(charged))
            self.reached.set()
            await self.gate.wait()
            if len(charged) > 5:
                raise ValueError("declined")
            return len(charged)

        @server.tool(annotations=notes)
        async def buy(ctx: Context) -> str:
            answer = await ctx.elicit("Sure?", ["yes", "no"])
            return f"{answer.data}: {await ctx.step('pay', charge)}"

    async def asked(self) -> dict[str, Any]:
        """What the second round brings along."""
        told = (await Peer(self.server).send("tools/call", name="buy", arguments={}))["result"]
        answers = {key: {"action": "accept", "content": {"value": "yes"}} for key in told["inputRequests"]}
        return {"requestState": told["requestState"], "inputResponses": answers}

    async def buy(self, round_: dict[str, Any]) -> str:
        return (await Peer(self.server).result("tools/call", name="buy", arguments={}, **round_))["content"][
            0
        ]["text"]


@run
async def test_answers_that_arrive_twice_at_once_and_later_pay_once(shared: Shared) -> None:
    charged: list[int] = []
    one, two = Shop(shared.store(), charged), Shop(shared.store(), charged)
    async with one.server.running(), two.server.running():
        round_ = await one.asked()
        both = [asyncio.create_task(shop.buy(round_)) for shop in (one, two, one)]
        await until(lambda: charged)
        one.gate.set()
        two.gate.set()
        assert await asyncio.gather(*both) == ["yes: 1"] * 3
        assert await two.buy(round_) == "yes: 1"
        # Another round of the same shape is another purchase.
        assert await one.buy(await one.asked()) == "yes: 2"


@pytest.mark.parametrize("harmless", [False, True])
@run
async def test_a_step_that_was_cut_short_is_run_again_only_where_that_does_no_harm(
    shared: Shared, harmless: bool
) -> None:
    charged: list[int] = []
    one = Shop(shared.store(), charged, idempotentHint=harmless)
    async with one.server.running():
        round_ = await one.asked()
        lost = asyncio.create_task(one.buy(round_))
        await one.reached.wait()
        while not lost.done():
            lost.cancel()  # redis-py takes one for a lost connection now and then
            await asyncio.wait([lost], timeout=0.1)
        shared.leases_run_out()
        two = Shop(shared.store(), charged, idempotentHint=harmless)
        two.gate.set()
        async with two.server.running():
            if harmless:
                assert await two.buy(round_) == "yes: 2"
            else:
                error = await Peer(two.server).error("tools/call", name="buy", arguments={}, **round_)
                assert error["data"]["kind"] == "call_interrupted"
                assert len(charged) == 1


@run
async def test_a_step_that_fails_was_not_done() -> None:
    charged = [0] * 5
    shop = Shop(MemoryStore(), charged)
    shop.gate.set()
    async with shop.server.running():
        round_ = await shop.asked()
        for count in (6, 7):
            await Peer(shop.server).result("tools/call", name="buy", arguments={}, **round_)
            assert len(charged) == count


@run
async def test_steps_of_calls_that_have_ended_do_not_fill_the_store() -> None:
    server = Server("shop", store=MemoryStore(60))

    @server.tool
    async def buy(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", ["yes", "no"])
        return f"{answer.data}: {await ctx.step('pay', lambda: 5)}"

    async with Client(server, on_elicit=lambda question: {"value": "yes"}) as client:
        for _ in range(100):
            assert (await client.call_tool("buy")).text == "yes: 5"


class Forgetless(MemoryStore):
    """A store that is away whenever a step is to be forgotten."""

    async def delete(self, key: str) -> bool:
        if key.startswith("step/"):
            raise StoreUnavailable("away")
        return await super().delete(key)


@run
async def test_a_step_that_is_done_stays_done_though_the_old_ones_cannot_be_forgotten() -> None:
    server = Server("shop", store=Forgetless(20))

    @server.tool
    async def buy(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", ["yes", "no"])
        return f"{answer.data}: {sum([await ctx.step(f'pay {number}', lambda: 5) for number in range(12)])}"

    async with server.running():
        peer = Peer(server)
        told = (await peer.send("tools/call", name="buy", arguments={}))["result"]
        answers = {key: {"action": "accept", "content": {"value": "yes"}} for key in told["inputRequests"]}
        brought = {"requestState": told["requestState"], "inputResponses": answers}
        result = await peer.result("tools/call", name="buy", arguments={}, **brought)
        assert result["content"][0]["text"] == "yes: 60"
