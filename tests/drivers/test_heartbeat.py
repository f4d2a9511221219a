"""Periodic work: it runs while there is something to watch, and an idle server sleeps."""

import asyncio
import sys
from pathlib import Path

import pytest

from dovetail.drivers.heartbeat import Heartbeat, repeat, responds_to_ping
from dovetail.errors import ProtocolError, RequestTimeout
from tests.support.aio import run
from tests.support.process import Served, started
from tests.support.waiting import HANG, until

QUIET = 3.0
"""Seconds in which a sleeping process is not woken."""


@run
async def test_a_heartbeat_ends_when_its_function_says_so_and_can_be_started_again() -> None:
    beats: list[int] = []

    def beat() -> bool:
        beats.append(1)
        return len(beats) % 3 != 0

    heartbeat = Heartbeat(0.001, beat)
    heartbeat.start()
    await until(lambda: len(beats) == 3)
    heartbeat.start()
    await until(lambda: len(beats) == 6)


@run
async def test_a_stopped_heartbeat_does_not_beat() -> None:
    beats: list[int] = []
    heartbeat = Heartbeat(0.0, lambda: bool(beats.append(1)) or True)
    heartbeat.start()
    heartbeat.stop()
    after = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, after.set)
    await after.wait()
    assert not beats


@run
async def test_work_is_repeated_until_it_is_cancelled() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    task = asyncio.create_task(repeat(0.001, work))
    await until(lambda: len(done) >= 3)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize(
    ("error", "errors_count", "alive"),
    [
        (None, False, True),
        (ProtocolError("method_not_found"), True, True),
        (ProtocolError("method_not_found"), False, False),
        (RequestTimeout("it is silent"), True, False),
    ],
)
@run
async def test_an_answer_to_a_ping_shows_that_a_client_is_there(
    error: Exception | None, errors_count: bool, alive: bool
) -> None:
    async def ping() -> None:
        if error is not None:
            raise error

    assert await responds_to_ping(ping(), errors_count=errors_count) is alive


def wake_ups(pid: int) -> int:
    """How often the threads of a process have gone to sleep by themselves."""
    return sum(
        int(line.split()[1])
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches")
    )


async def falls_asleep(server: Served) -> None:
    """Wait for some seconds in which nothing wakes the server. A busy machine only makes them longer."""
    async with asyncio.timeout(HANG):
        before = -1
        while before != (before := wake_ups(server.process.pid)):  # noqa: ASYNC110
            await asyncio.sleep(QUIET)


@pytest.mark.skipif(sys.platform != "linux", reason="the wake-ups of a process are counted in /proc")
@run
async def test_an_idle_stdio_server_sleeps(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from dovetail import Server\n\nserver = Server('shop')\n\n"
        "@server.tool\ndef double(n: int) -> int:\n    return n * 2\n"
    )
    async with started("run", str(file), "--stdio") as server:
        await falls_asleep(server)
        assert (await server.call("double", n=2))["result"]["structuredContent"] == 4
        await falls_asleep(server)
