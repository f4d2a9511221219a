"""Calls exactly once: one run per key, however often and wherever the call arrives."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Principal, ProtocolError, Server
from dovetail.middleware import Middleware
from dovetail.stores import MemoryStore, SqliteStore
from tests.support.aio import run, run_limited
from tests.support.peer import Peer
from tests.support.shared import Shared

KEY = "io.dovetail/idempotency-key"
LEGACY = "2025-06-18"


class Till:
    """A server that counts what it does."""

    def __init__(self, store: Any) -> None:
        self.runs = 0
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.server = server = Server("till", store=store)

        @server.tool
        async def pay(amount: int) -> str:
            self.runs += 1
            return f"paid {amount}, {self.runs}"

        @server.tool
        async def echo(words: str) -> str:
            self.runs += 1
            return words

        @server.tool
        async def slow(ctx: Context) -> str:
            self.runs += 1
            self.reached.set()
            await self.gate.wait()
            return f"done {self.runs}"

        @server.tool
        async def fails() -> str:
            self.runs += 1
            raise ProtocolError("resource_locked", f"busy {self.runs}")

        @server.tool
        async def asks(ctx: Context) -> str:
            self.runs += 1
            answer = await ctx.elicit("Sure?", ["yes", "no"])
            return f"{answer.data} {self.runs}"

    def peer(self, key: Any, revision: str = "2026-07-28", principal: str | None = "ann") -> Peer:
        peer = Peer(self.server, revision, principal=principal)
        peer.meta = {KEY: key}
        return peer


async def paid(peer: Peer, amount: int = 5) -> str:
    return (await peer.result("tools/call", name="pay", arguments={"amount": amount}))["content"][0]["text"]


@pytest.mark.parametrize("revision", [LEGACY, "2026-07-28"])
@run
async def test_a_repeat_gets_the_same_answer_and_nothing_is_run_again(shared: Shared, revision: str) -> None:
    one, two = Till(shared.store()), Till(shared.store())
    async with one.server.running(), two.server.running():
        assert await paid(one.peer("k", revision)) == "paid 5, 1"
        assert await paid(one.peer("k", revision)) == "paid 5, 1"
        assert await paid(two.peer("k", revision)) == "paid 5, 1"
        assert await paid(two.peer("other", revision)) == "paid 5, 1"
        assert (one.runs, two.runs) == (1, 1)


@run
async def test_another_principal_with_the_same_key_is_a_different_owner() -> None:
    till = Till(MemoryStore())
    async with till.server.running():
        assert await paid(till.peer("k")) == "paid 5, 1"
        assert await paid(till.peer("k", principal="bob")) == "paid 5, 2"
        assert await paid(till.peer("k", principal=None)) == "paid 5, 3"


@run
async def test_a_key_stands_for_one_call_with_its_arguments() -> None:
    till = Till(MemoryStore())
    async with till.server.running():
        await paid(till.peer("k"), 5)
        error = await till.peer("k").error("tools/call", name="pay", arguments={"amount": 6})
        assert error["code"] == -32602
        error = await till.peer("k").error("tools/call", name="fails", arguments={"amount": 5})
        assert error["code"] == -32602
        for wrong in ("", "x" * 129, "with space", "ümlaut", 5):
            error = await till.peer(wrong).error("tools/call", name="pay", arguments={"amount": 6})
            assert error["code"] == -32602
        assert till.runs == 1


@run
async def test_who_comes_while_it_is_under_way_waits_for_it(shared: Shared) -> None:
    one, two = Till(shared.store()), Till(shared.store())
    async with one.server.running(), two.server.running():
        first = asyncio.create_task(one.peer("k").result("tools/call", name="slow", arguments={}))
        await one.reached.wait()
        others = [
            asyncio.create_task(till.peer("k").result("tools/call", name="slow", arguments={}))
            for till in (one, two, two)
        ]
        await asyncio.wait(others, timeout=0.05)
        one.gate.set()
        answers = await asyncio.gather(first, *others)
        assert [answer["content"][0]["text"] for answer in answers] == ["done 1"] * 4
        assert two.runs == 0


@run
async def test_an_error_is_an_answer_too() -> None:
    till = Till(MemoryStore())
    async with till.server.running():
        first = await till.peer("k").error("tools/call", name="fails", arguments={})
        assert await till.peer("k").error("tools/call", name="fails", arguments={}) == first
        assert till.runs == 1


@run
async def test_the_rounds_of_a_call_share_its_key() -> None:
    till = Till(MemoryStore())
    async with till.server.running():
        peer = till.peer("k")
        asked = (await peer.send("tools/call", name="asks", arguments={}))["result"]
        again = (await peer.send("tools/call", name="asks", arguments={}))["result"]
        assert again["requestState"] == asked["requestState"]
        (question,) = asked["inputRequests"]
        answers = {question: {"action": "accept", "content": {"value": "yes"}}}
        done = [
            await peer.result(
                "tools/call",
                name="asks",
                arguments={},
                requestState=asked["requestState"],
                inputResponses=answers,
            )
            for _ in range(2)
        ]
        assert [one["content"][0]["text"] for one in done] == ["yes 2", "yes 2"]
        assert till.runs == 2


DYING = """
import asyncio, os, sys
from dovetail import Client, Server
from dovetail.stores import from_url

server = Server("till", store=from_url(sys.argv[1]))

@server.tool(annotations={sys.argv[2]: True})
async def pay() -> str:
    with open(sys.argv[3], "a") as file:
        file.write("x")
    if sys.argv[4] == "die":
        os.kill(os.getpid(), 9)
    return "paid"

async def main():
    async with server.running(), Client(server) as client:
        try:
            print((await client.call_tool("pay", idempotency_key="k")).text)
        except Exception as error:
            print(error.kind)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("hint", "said", "times"), [("destructiveHint", "call_interrupted", 1), ("idempotentHint", "paid", 2)]
)
def test_what_a_dead_worker_began_is_done_again_only_where_that_does_no_harm(
    shared: Shared, tmp_path: Path, hint: str, said: str, times: int
) -> None:
    def process(what: str) -> subprocess.CompletedProcess[str]:
        arguments = [shared.place, hint, str(tmp_path / "effects"), what]
        return subprocess.run(
            [sys.executable, "-c", DYING, *arguments], capture_output=True, text=True, timeout=60
        )

    assert process("die").returncode == -signal.SIGKILL
    assert process("live").stdout.strip() == said
    assert process("live").stdout.strip() == said
    assert (tmp_path / "effects").read_text() == "x" * times


def test_the_lease_of_a_dead_worker_is_not_waited_for(tmp_path: Path) -> None:
    place, effects = str(tmp_path / "s.db"), str(tmp_path / "effects")
    begun = time.time()
    dying = [sys.executable, "-c", DYING, f"sqlite:///{place}", "idempotentHint", effects, "die"]
    assert subprocess.run(dying, timeout=60).returncode == -signal.SIGKILL

    async def scenario() -> None:
        # To this clock no lease runs out.
        server = Server("till", store=SqliteStore(place, clock=lambda: begun))

        @server.tool(annotations={"idempotentHint": True})
        async def pay() -> str:
            return "paid"

        async with server.running(), Client(server) as client:
            assert (await client.call_tool("pay", idempotency_key="k")).text == "paid"

    run_limited(scenario())


SLOW = b"""{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow", "arguments": {}, "_meta": {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    "io.dovetail/idempotency-key": "k"}}}"""


@run
async def test_a_connection_that_is_lost_does_not_stop_a_call_that_will_be_asked_for_again() -> None:
    till = Till(MemoryStore())
    async with till.server.running():
        lost = asyncio.create_task(till.server.handle(SLOW, {"transport": "http", "principal": "ann"}))
        await till.reached.wait()
        lost.cancel()
        await asyncio.wait([lost])
        again = asyncio.create_task(till.peer("k").result("tools/call", name="slow", arguments={}))
        await asyncio.wait([again], timeout=0.05)
        till.gate.set()
        assert (await again)["content"][0]["text"] == "done 1"
        assert till.runs == 1


@run
async def test_a_client_sends_an_idempotency_key_with_every_call_that_may_change_state() -> None:
    seen: list[str | None] = []
    server = Server("keys", store=MemoryStore())

    @server.tool(annotations={"readOnlyHint": True})
    async def look(ctx: Context) -> None:
        seen.append(ctx.meta.get(KEY))

    @server.tool
    async def change(ctx: Context) -> None:
        seen.append(ctx.meta.get(KEY))

    for revision in (LEGACY, "2026-07-28"):
        seen.clear()
        async with server.running(), Client(server, revision=revision) as client:
            assert client.server_capabilities is not None
            assert client.server_capabilities.extension("io.dovetail/idempotency") is not None
            await client.list_tools()
            await client.call_tool("look")
            await client.call_tool("change")
            await client.call_tool("change")
            await client.call_tool("change", idempotency_key=f"mine-{revision}")
            with pytest.raises(ProtocolError, match="idempotency"):
                await client.call_tool("change", idempotency_key="")
        assert seen[0] is None
        assert seen[1]
        assert seen[2]
        assert seen[1] != seen[2]
        assert seen[3] == f"mine-{revision}"


@run
async def test_a_server_without_a_store_promises_nothing_and_is_sent_nothing() -> None:
    seen: list[Any] = []
    server = Server("plain")

    @server.tool
    async def change(ctx: Context) -> None:
        seen.append(dict(ctx.meta).get(KEY))

    async with Client(server) as client:
        await client.call_tool("change")
        assert client.server_capabilities is not None
        assert client.server_capabilities.extension("io.dovetail/idempotency") is None
    assert seen == [None]


@pytest.mark.parametrize("kind", ["memory", "file"])
@run
async def test_results_give_way_oldest_first_and_never_fill_the_store(kind: str, tmp_path: Path) -> None:
    store = MemoryStore(200) if kind == "memory" else SqliteStore(tmp_path / "store", max_bytes=1 << 20)
    till = Till(store)
    async with till.server.running(), Client(till.server) as client:
        for number in range(600):
            words = f"{number} {'x' * 2000}"
            result = await client.call_tool("echo", {"words": words}, idempotency_key=f"k{number}")
            assert result.text == words
        for number in (599, 590):
            words = f"{number} {'x' * 2000}"
            assert (
                await client.call_tool("echo", {"words": words}, idempotency_key=f"k{number}")
            ).text == words
        assert till.runs == 600  # the newest are known
        await client.call_tool("echo", {"words": f"0 {'x' * 2000}"}, idempotency_key="k0")
        assert till.runs == 601  # the oldest is forgotten
    await store.close()


@run
async def test_a_caller_with_many_results_evicts_only_its_own() -> None:
    till = Till(MemoryStore(60))
    async with till.server.running():
        await paid(till.peer("k", principal="bob"))
        for number in range(100):
            await paid(till.peer(f"k{number}"))
        runs = till.runs
        assert await paid(till.peer("k", principal="bob")) == "paid 5, 1"
        assert await paid(till.peer("k99")) == f"paid 5, {runs}"
        assert till.runs == runs


@run
async def test_calls_that_are_given_up_do_not_fill_the_store() -> None:
    till = Till(MemoryStore(60))
    async with till.server.running(), Client(till.server, revision=LEGACY) as client:
        for _ in range(100):
            till.reached.clear()
            calling = asyncio.create_task(client.call_tool("slow"))
            await till.reached.wait()
            calling.cancel()
            await asyncio.wait([calling])
        assert (await client.call_tool("pay", {"amount": 5})).text == "paid 5, 101"


@run
async def test_a_result_too_large_to_be_kept_is_known_to_have_been_made() -> None:
    till = Till(MemoryStore(max_bytes=1 << 20))
    async with till.server.running():
        large = {"name": "echo", "arguments": {"words": "x" * 100_000}}
        assert "result" in await till.peer("large").ask("tools/call", **large)
        again = await till.peer("large").error("tools/call", **large)
        assert again["data"]["kind"] == "call_interrupted"
        assert "was too large to be stored" in again["message"]
        assert till.runs == 1


class Shop:
    """A server with a store whose tool may run as a task."""

    def __init__(self, *guards: Any, task: Any, **rights: Any) -> None:
        self.runs = 0
        self.server = Server("shop", store=MemoryStore(), middleware=guards)

        @self.server.tool(task=task, **rights)
        async def pay() -> str:
            self.runs += 1
            return f"paid {self.runs}"

    async def pay(self, way: str, *scopes: str) -> dict[str, Any]:
        revision = "2025-11-25" if way == "core" else "2026-07-28"
        declared: dict[str, Any] = (
            {"extensions": {"io.modelcontextprotocol/tasks": {}}} if way == "extension" else {}
        )
        peer = Peer(self.server, revision, capabilities=declared)
        peer.principal, peer.meta = Principal("ann", scopes=frozenset(scopes)), {KEY: "k"}
        return await peer.send(
            "tools/call", name="pay", arguments={}, **({"task": {}} if way == "core" else {})
        )


WAYS = {"plain": "forbidden", "core": "optional", "extension": "required"}


@pytest.mark.parametrize("way", WAYS)
@run
async def test_a_retry_is_authorized_again(way: str) -> None:
    shop = Shop(task=WAYS[way], scopes=["pay"])
    async with shop.server.running():
        assert "result" in await shop.pay(way, "pay")
        assert "error" in await shop.pay(way)
        assert "result" in await shop.pay(way, "pay")


@pytest.mark.parametrize("way", WAYS)
@run
async def test_a_component_that_is_admitted_no_more_is_not_repeated(way: str) -> None:
    class Switch(Middleware):
        on = True

        def admits(self, component: Any) -> bool:
            return self.on

    switch = Switch()
    shop = Shop(switch, task=WAYS[way])
    async with shop.server.running():
        assert "result" in await shop.pay(way)
        switch.on = False
        assert "error" in await shop.pay(way)


@pytest.mark.parametrize("way", WAYS)
@run
async def test_every_repeat_passes_the_middleware(way: str) -> None:
    class Counting(Middleware):
        seen = 0

        async def call_tool(self, request: Any, call_next: Any) -> Any:
            self.seen += 1
            return await call_next(request)

    counting = Counting()
    shop = Shop(counting, task=WAYS[way])
    async with shop.server.running():
        first, second = await shop.pay(way), await shop.pay(way)
        assert first["result"] == second["result"]
        assert counting.seen == 2
    assert shop.runs == 1


@pytest.mark.parametrize("way", WAYS)
@run
async def test_a_retry_through_another_server_is_authorized_again(way: str) -> None:
    shop = Shop(task=WAYS[way], scopes=["pay"])
    shop.server.lifecycle.store = None
    front = Server("front", store=MemoryStore())
    front.mount(shop.server)
    async with front.running():
        shop.server = front
        assert "result" in await shop.pay(way, "pay")
        assert "error" in await shop.pay(way)
