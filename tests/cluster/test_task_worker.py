"""``dovetail worker``: tasks run in processes of their own, and outlive them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, ProtocolError, Server
from dovetail.cli.target import load
from tests.support.aio import run
from tests.support.redis import RedisServer
from tests.support.waiting import HANG, until

SHOP = Path(__file__).with_name("shop.py")
ROOT = SHOP.parents[2]


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/s.db"
    server: RedisServer = request.getfixturevalue("redis")
    server.ask("FLUSHALL")
    return server.url


def fresh(url: str) -> Server:
    """The server of the file as the process that takes the calls has it."""
    os.environ["DOVETAIL_STORE"] = url
    try:
        sys.modules.pop("shop", None)
        return load(str(SHOP))
    finally:
        del os.environ["DOVETAIL_STORE"]


@contextmanager
def worker(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "dovetail.cli.main", "worker", str(SHOP), "--store", url, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("dovetail: running the tasks"):
                    break
            else:
                raise AssertionError("it ended")
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def spread(
    server: Server, revision: str = "2026-07-28", **options: Any
) -> AsyncGenerator[Client, None]:
    """A client whose tasks run in workers from now on."""
    async with server.running(), Client(server, revision=revision, **options) as client:
        while await where(client) == os.getpid():
            pass  # it has not heard of the worker yet
        yield client


async def where(client: Client) -> int:
    return (await (await client.create_task("where", {"secret": "a secret"})).result()).data


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_workers_run_what_others_took_on_and_leave_it_to_them_when_they_go(
    url: str, revision: str
) -> None:
    with worker(url) as process:
        async with spread(fresh(url), revision, on_elicit=lambda _: {"name": "Ann"}) as client:
            assert await where(client) == process.pid
            assert (await (await client.create_task("greet")).result()).text == "Hello, Ann!"
            process.send_signal(signal.SIGTERM)
            while await where(client) != os.getpid():
                pass  # the worker may not have gone yet
            assert process.wait(HANG) == 0


@run
async def test_a_task_on_another_worker_notifies_its_session_and_can_be_cancelled_here(
    url: str, tmp_path: Path
) -> None:
    heard: list[Any] = []
    with worker(url):
        async with spread(fresh(url), "2025-11-25", on_task=heard.append) as client:
            handle = await client.create_task("once", {"marks": str(tmp_path)})
            await until((tmp_path / "began").exists)
            await until(lambda: any(task.status_message and "in " in task.status_message for task in heard))
            await handle.status()
            assert (handle.progress, handle.total) == (1, 2)
            await handle.cancel("enough")
            with pytest.raises(ProtocolError) as caught:
                await handle.result()
            assert caught.value.data["reason"] == "enough"
            await until(lambda: heard[-1].status == "cancelled")


@run
async def test_what_a_dead_worker_had_is_run_again_by_another_or_failed_with_the_reason(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    (tmp_path / "never").mkdir()
    with worker(url) as first:
        async with spread(fresh(url)) as client:
            again = await client.create_task("patient", {"marks": str(tmp_path / "again")})
            never = await client.create_task("once", {"marks": str(tmp_path / "never")})
            await until((tmp_path / "again" / "began").exists)
            await until((tmp_path / "never" / "began").exists)
            with worker(url) as second:
                first.kill()
                (tmp_path / "again" / "gate").touch()
                async with asyncio.timeout(HANG):
                    assert (await again.result()).data in (second.pid, os.getpid())
                    with pytest.raises(ProtocolError, match="the worker process of this task has ended"):
                        await never.result()
    assert (tmp_path / "never" / "began").read_text().split() == [str(first.pid)]


@pytest.mark.redis
@run
async def test_nothing_but_ids_goes_through_the_queue(redis: RedisServer) -> None:
    redis.ask("FLUSHALL")
    with worker(redis.url):
        async with spread(fresh(redis.url)) as client:
            await where(client)
    stored = (redis.folder / "appendonlydir").rglob("*.aof")
    log = b"".join(file.read_bytes() for file in stored)
    parts = [part for part in log.split(b"*") if b"dovetail_task" in part or b"tasks:" in part]
    assert parts
    assert [part for part in parts if b"a secret" in part] == []
    assert b"a secret" in log  # it is where it belongs: in the store


def test_a_worker_needs_a_store() -> None:
    command = [sys.executable, "-m", "dovetail.cli.main", "worker", str(SHOP)]
    environment = {name: value for name, value in os.environ.items() if name != "DOVETAIL_STORE"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment, cwd=ROOT)
    assert done.returncode == 1
    assert "--store" in done.stderr


@run
async def test_a_store_without_workers_runs_tasks_where_they_arrive(tmp_path: Path) -> None:
    server = fresh(f"sqlite:///{tmp_path}/s.db")
    async with server.running(), Client(server) as client:
        assert await where(client) == os.getpid()
