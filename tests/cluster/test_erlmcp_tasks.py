"""erlmcp's tasks on four workers: whichever of them is asked knows all of them, and says so in its own codes."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dovetail import Client, ProtocolError
from tests.cluster.test_failover import address
from tests.http.children import child
from tests.support.aio import run_limited
from tests.support.waiting import found

SERVER = """
import asyncio
from pathlib import Path
from dovetail import Context, Server

server = Server("yard", dialect="erlmcp")
gate = Path(__file__).with_name("gate")

@server.tool(task="optional")
async def work(label: str, ctx: Context) -> str:
    \"\"\"Work until the gate opens.\"\"\"
    await ctx.report_progress(1, 4, "a quarter")
    while not gate.exists():
        await asyncio.sleep(0.02)
    return label

@server.tool(task="optional")
async def fail() -> str:
    \"\"\"Fail.\"\"\"
    raise ValueError("no luck")
"""


async def four_workers(folder: Path) -> None:
    file = folder / "yard.py"
    file.write_text(SERVER)
    async with child(str(file), "--port", "0", "--workers", "4") as served, AsyncExitStack() as stack:

        async def client() -> Client:
            return await stack.enter_async_context(
                Client(address(served), dialect="erlmcp", revision="2025-11-25")
            )

        for _ in range(3):  # connections land anywhere; a task belongs to the session that made it
            await walk(await client(), await client())
        (folder / "gate").touch()
        first = await client()
        done = await first.create_task("work", {"label": "done"})
        assert (await done.result()).text == "done"


async def walk(one: Client, stranger: Client) -> None:
    task = await one.create_task("work", {"label": "a"}, task_id="mine")
    with pytest.raises(ProtocolError) as taken:
        await one.create_task("work", {"label": "b"}, task_id="mine")
    assert taken.value.code == -32082

    async def quarter() -> bool | None:
        await task.status()
        return True if (task.progress, task.total) == (1, 4) else None

    await found(quarter)
    # Each request may land on another worker.
    assert [await one.task("mine").status() for _ in range(8)] == ["working"] * 8
    others = [await one.create_task("work", {"label": str(number)}) for number in range(4)]
    assert {each.task_id for each in await one.list_tasks()} == {"mine", *(str(each.id) for each in others)}
    first = await one.request("tasks/list", {"limit": 2})
    assert len(first.tasks) == 2

    after = await one.create_task("work", {"label": "never"}, depends_on=["mine"])
    await one.task("mine").cancel("changed my mind")
    assert await task.status() == "cancelled"
    with pytest.raises(ProtocolError) as cancelled:
        await one.task("mine").result()
    assert (cancelled.value.code, cancelled.value.data["reason"]) == (-32084, "changed my mind")
    with pytest.raises(ProtocolError) as depended:
        await after.result()
    assert depended.value.code == -32088

    late = await one.create_task("work", {"label": "late"}, ttl=50)
    with pytest.raises(ProtocolError) as timeout:
        await one.task(str(late.id)).result()
    assert timeout.value.code == -32085
    with pytest.raises(ProtocolError) as foreign:
        await stranger.task("mine").status()
    assert foreign.value.code == -32081
    await asyncio.gather(*(each.cancel() for each in others))


def test_every_worker_knows_the_tasks_of_all(tmp_path: Path) -> None:
    run_limited(four_workers(tmp_path), 300)
