"""Workers are killed under clients on sockets (Dovetail and the official SDK): completed calls ran once."""

import asyncio
import os
import signal
import time
from collections import Counter, deque
from pathlib import Path

import pytest
from bench import peers

from dovetail import Client, DovetailError, SessionLost
from tests.cluster.test_failover import address, victim
from tests.http.children import child
from tests.peers.environment import need
from tests.support.aio import run_limited
from tests.support.waiting import turns

pytestmark = [pytest.mark.peer, pytest.mark.slow]

FILE = """
import os
from dovetail import Server

server = Server("till")

def note(number):
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(f"{number}\\n")
    return number

@server.tool(annotations={"readOnlyHint": True})
async def pid() -> int:
    return os.getpid()

@server.tool
async def effect(number: int) -> int:
    return note(number)

@server.tool(task="required")
async def task(number: int) -> int:
    return note(number)
"""
OURS = ("modern", "2025-11-25", "2025-06-18")
WORKERS = 4
CRASH_LOOP = 6.0
SDK = Path(__file__).with_name("sdk_calls.py")
TRUE_REASONS = {"call_interrupted", "task_failed"}
Word = str
"""How a call ended: ``done``, ``lost`` (unknown), or another outcome, which must not occur."""


async def visit(url: str, revision: str, numbers: range, history: dict[int, Word]) -> None:
    """Calls and tasks of our client, one after the other."""
    async with Client(url, revision=revision) as client:
        for number in numbers:
            history[number] = await one_call(client, number, revision != "2025-06-18" and number % 3 == 0)


async def one_call(client: Client, number: int, as_task: bool) -> Word:
    try:
        if as_task:
            handle = await client.create_task("task", {"number": number}, idempotency_key=f"k{number}")
            assert (await handle.result()).data == number
        else:
            assert (await client.call_tool("effect", {"number": number})).data == number
    except SessionLost as error:
        return "lost" if error.maybe_executed else f"{error.kind}: {error.message}"
    except DovetailError as error:
        return "lost" if error.kind in TRUE_REASONS else f"{error.kind}: {error.message}"
    return "done"


async def visit_with_sdk(url: str, era: str, numbers: range, history: dict[int, Word]) -> None:
    arguments = (str(SDK), url, era, str(numbers.start), str(len(numbers)))
    process = await asyncio.create_subprocess_exec(
        peers.interpreter("sdk"), *arguments, stdout=asyncio.subprocess.PIPE, env=peers.environ()
    )
    said, _ = await process.communicate()
    for line in said.decode().splitlines():
        number, word = line.split()
        history[int(number)] = word


async def kill_now_and_then(url: str, killed: list[int], history: dict[int, Word], times: list[int]) -> None:
    """Kill a worker after every such number of calls, if it has lived for a while.

    A server gives up where one dies as soon as it was replaced and eight have died in 20 seconds.
    """
    first: set[int] = set()
    while len(first) < WORKERS:
        first.add(await victim(url))
    seen = dict.fromkeys(first, 0.0)
    lately = deque([0.0] * 7, maxlen=7)
    for calls in times:
        while len(history) < calls:
            await turns()
        found, now = await victim(url), time.monotonic()
        if now - seen.setdefault(found, now) > CRASH_LOOP and now - lately[0] > 21.0:
            lately.append(now)
            os.kill(found, signal.SIGKILL)
            killed.append(found)


async def till(folder: Path, *, calls: int, kills: int) -> None:
    path, effects = folder / "till.py", folder / "effects"
    path.write_text(FILE)
    effects.touch()
    history: dict[int, Word] = {}
    killed: list[int] = []
    os.environ["EFFECTS"] = str(effects)
    try:
        async with child(str(path), "--port", "0", "--workers", str(WORKERS)) as served:
            url = address(served)
            times = [2 * calls * number // (kills + 1) for number in range(1, kills + 1)]
            killing = asyncio.create_task(kill_now_and_then(url, killed, history, times))
            visits = [
                visit(url, revision, range(10_000 * at, 10_000 * at + calls), history)
                for at, revision in enumerate(OURS, 1)
            ]
            visits += [
                visit_with_sdk(url, era, range(10_000 * at, 10_000 * at + calls // 4), history)
                for at, era in enumerate(("modern", "legacy"), 7)
            ]
            await asyncio.gather(*visits)
            killing.cancel()
            await asyncio.wait([killing])
    finally:
        del os.environ["EFFECTS"]
    done = Counter(int(line) for line in effects.read_text().split())
    assert len(killed) >= 2
    assert len(history) == 3 * calls + 2 * (calls // 4)
    assert set(history.values()) <= {"done", "lost"}, history
    assert [number for number, word in history.items() if word == "done" and done[number] != 1] == []
    assert [number for number, times in done.items() if times > 1] == [], "doubled"
    ours = [word for number, word in history.items() if number < 70_000]
    assert ours.count("lost") <= 3 * len(killed)


def test_clients_on_sockets_lose_and_double_nothing_when_workers_are_killed(tmp_path: Path) -> None:
    need("sdk")
    run_limited(till(tmp_path, calls=60, kills=4), 300)


def test_the_same_for_as_long_as_many_kills_take(tmp_path: Path) -> None:
    need("sdk")
    run_limited(till(tmp_path, calls=2400, kills=200), 500)
