"""Several processes on one address."""

import asyncio
import json
import os
import signal
import subprocess
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from dovetail import DovetailError, Server
from dovetail.transports.http.server.ended_sessions import EndedSessions
from tests.http.children import NEWEST, ask_for, ask_until_complete, child
from tests.support.aio import run
from tests.support.process import CLI
from tests.support.redis import RedisServer
from tests.support.waiting import HANG, found, until
from tests.support.web import (
    Web,
    legacy_headers,
    modern,
    modern_headers,
    text,
)


def test_four_workers_serve_both_eras_while_one_is_killed(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "4") as served:
            web = Web(served)  # type: ignore[arg-type]
            session, _ = await web.initialize(NEWEST)
            pids: set[str] = set()
            for number in range(200):
                if number % 10 == 0:
                    assert await ask_until_complete(web, "ask") == "yes"
                pids.add(text(await web.call("pid")))
                found = await web.legacy(NEWEST, session, "tools/call", {"name": "pid"})
                assert found.status == 200
                pids.add(text(found.message["result"]))
                if number == 100:
                    victim = int(sorted(pids)[0])
                    os.kill(victim, signal.SIGKILL)
                    # Connections the kernel had already given to the dead worker are lost with it.
                    await until(lambda pid=victim: not _alive(pid))
            assert len(pids) >= 3
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204
            for _ in range(20):
                assert (await web.legacy(NEWEST, session, "ping")).status == 404
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0
            assert "Traceback" not in served.said

    scenario()


def test_workers_that_are_killed_as_soon_as_they_serve_do_not_end_the_others(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "2") as served:
            web = Web(served)  # type: ignore[arg-type]
            killed: set[int] = set()
            for _ in range(5):
                victim = int(text(await served_by(web)))
                assert victim not in killed
                killed.add(victim)
                os.kill(victim, signal.SIGKILL)
                await until(lambda pid=victim: not _alive(pid))
            assert text(await served_by(web)).isdigit()
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0

    scenario()


async def served_by(web: Web) -> Any:
    """The process that answers, once there is one."""

    async def look() -> Any:
        try:
            return await web.call("pid")
        except (OSError, EOFError, asyncio.IncompleteReadError):
            return None  # it went to the one that was killed

    return await found(look)


def _alive(pid: int) -> bool:
    """Whether any of its threads is still there, and with it its sockets."""
    try:
        states = [
            stat.read_text().rpartition(")")[2].split()[0]
            for stat in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
    except OSError:
        return True  # one has just ended: look again
    return any(state not in ("Z", "X") for state in states)


BROKEN = """
import os, signal
from contextlib import asynccontextmanager
from dovetail import Server

@asynccontextmanager
async def lifespan(server):
    {what}
    yield

server = Server("broken", lifespan=lifespan)
"""


def serve_broken(folder: Path, what: str, workers: str) -> subprocess.CompletedProcess[str]:
    path = folder / "broken.py"
    path.write_text(BROKEN.format(what=what))
    command = [
        *CLI,
        "run",
        str(path),
        "--http",
        "--port",
        "0",
        "--workers",
        workers,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)


LATER = """
import os, signal
from contextlib import asynccontextmanager
from dovetail import Server
from dovetail.transports.http import workers

workers.FIRST_PAUSE = workers.LONGEST_PAUSE = 0.01

@asynccontextmanager
async def lifespan(server):
    if os.path.exists(__file__ + ".broken"):
        os._exit({status})
    yield

server = Server("later", lifespan=lifespan)

@server.tool
async def pid() -> int:
    return os.getpid()
"""


@pytest.mark.parametrize("status", [7, 0])
def test_replacements_that_never_start_are_given_up(tmp_path: Path, status: int) -> None:
    path = tmp_path / "later.py"
    path.write_text(LATER.replace("{status}", str(status)))

    @run
    async def scenario() -> None:
        async with child(str(path), "--port", "0", "--workers", "2") as served:
            victim = int(text(await served_by(Web(served))))  # type: ignore[arg-type]
            (tmp_path / "later.py.broken").touch()
            os.kill(victim, signal.SIGKILL)
            assert await served.ended() == 1
            assert f"exited with status {status}: the last 8 starts failed (crash loop)" in served.said
            assert "send the signal again" not in served.said

    scenario()


def test_connections_wait_while_every_worker_is_replaced(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "2") as served:
            web, pids = Web(served), set[int]()  # type: ignore[arg-type]
            while len(pids) < 2:
                pids.add(int(text(await web.call("pid"))))
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not any(map(_alive, pids)))
            answers = await asyncio.gather(*(web.call("pid") for _ in range(20)))
            assert not pids & {int(text(one)) for one in answers}

    scenario()


def test_a_worker_that_is_asked_to_stop_is_replaced(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "2") as served:
            web = Web(served)  # type: ignore[arg-type]
            victim = int(text(await web.call("pid")))
            os.kill(victim, signal.SIGTERM)
            await until(lambda: not _alive(victim))
            pids = set[int]()
            while len(pids) < 2:
                pids.add(int(text(await web.call("pid"))))
            assert victim not in pids
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0

    scenario()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_ends_the_server_at_once(slow: str, workers: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", workers) as served:
            pid = int(text(await served_by(Web(served))))  # type: ignore[arg-type]
            connection = await ask_for(served, "stubborn")
            await Web(served).modern("tools/list")  # type: ignore[arg-type]
            served.process.send_signal(signal.SIGTERM)
            await served.says("stopping")
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 128 + signal.SIGTERM
            assert not _alive(pid)
            assert served.said.count("dovetail: stopping") == 1
            assert await connection.at_end()

    scenario()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_that_cannot_start_is_given_up(tmp_path: Path, workers: str) -> None:
    ended = serve_broken(tmp_path, "raise RuntimeError('no database')", workers)
    assert ended.returncode not in (0, -signal.SIGTERM)
    assert "no database" in ended.stderr


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
def test_workers_that_end_before_they_serve_are_given_up(tmp_path: Path, end: str) -> None:
    ended = serve_broken(tmp_path, end, "2")
    assert ended.returncode == 1
    assert "before it was ready; all workers are stopped" in ended.stderr
    assert "send the signal again" not in ended.stderr


def test_a_worker_that_is_interrupted_ends_with_130(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "2") as served:
            served.process.send_signal(signal.SIGINT)
            assert await served.ended() == 130
            assert "Traceback" not in served.said

    scenario()


def test_workers_do_not_outlive_the_process_that_started_them(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "2") as served:
            web = Web(served)  # type: ignore[arg-type]
            pids = {int(text(await web.call("pid"))) for _ in range(20)}
            served.process.kill()
            try:
                await until(lambda: not any(map(_alive, pids)))
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(served.process.pid, signal.SIGKILL)

    scenario()


LATE = """
import os, time
from dovetail import Server
server = Server("late")
forks = []

def begin():
    if forks:
        time.sleep(2)

os.register_at_fork(after_in_parent=lambda: forks.append(1), after_in_child=begin)
"""


def test_a_worker_stopped_before_it_has_started_ends(tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        path = tmp_path / "late.py"
        path.write_text(LATE)
        async with child(str(path), "--port", "0", "--workers", "2") as served:
            served.process.send_signal(signal.SIGINT)
            assert await served.ended(10) == 130
            assert "Traceback" not in served.said

    scenario()


DAY = 86_400.0


def test_every_worker_is_notified_of_the_end_of_a_session(tmp_path: Path) -> None:
    one, two = EndedSessions(str(tmp_path)), EndedSessions(str(tmp_path))
    places = [by.assign_slot(DAY, 0.0) for by in (one, two) for _ in range(20_000)]
    for number, place in enumerate(places):
        assert place not in one
        if number % 3:
            (one, two)[number % 2].add(place)
    for by in (one, two, EndedSessions(str(tmp_path))):
        assert [place in by for place in places] == [bool(number % 3) for number in range(len(places))]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == len(places) / 8


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_known_of_ended_sessions_is_given_up_when_they_expire(tmp_path: Path, shared: bool) -> None:
    ended = EndedSessions(str(tmp_path) if shared else None)
    old = ended.assign_slot(DAY, 0.0)
    ended.add(old)
    fresh = ended.assign_slot(2 * DAY, DAY - 1.0)
    ended.add(fresh)
    assert old in ended
    ended.assign_slot(4 * DAY, 1.5 * DAY)
    assert old not in ended
    assert fresh in ended
    assert len(list(tmp_path.iterdir())) == shared


def test_without_fork_several_workers_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(DovetailError, match=r"several workers need fork\(\), .*: use --workers 1"):
        Server("alone").run("http", port=0, workers=2)


LIMITED = """
import os
from dovetail import Server
from dovetail.middleware import RateLimit
from dovetail.stores import from_url
server = Server("limited", middleware=[RateLimit(per_tool="50/d")], store=from_url("STORE"))

@server.tool
async def pid() -> int:
    return os.getpid()

for number in range(400):
    server.tool(name=f"pid_{number}")(pid)
"""
LIMIT = 50
CLIENTS = 32


async def accepted_by(served: Any, workers: int) -> list[str]:
    """The workers that executed the calls, of many clients at once, that a limit of ``LIMIT`` accepted."""
    seen = set[str]()
    for number in range(400):  # each call names another tool, so it is within its limit
        seen.add(text(await Web(served).call(f"pid_{number}")))
        if len(seen) == workers:
            break
    assert len(seen) == workers
    accepted: list[str] = []

    async def client() -> None:
        message = modern("tools/call", {"name": "pid"})
        async with await served.connect() as connection:
            for _ in range(2 * LIMIT // CLIENTS + 1):
                body = json.dumps(message).encode()
                found = (await connection.ask("POST", "/mcp", modern_headers(message), body)).message
                if "result" in found:
                    accepted.append(text(found["result"]))
                else:
                    assert found["error"]["data"]["kind"] == "rate_limited"

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return accepted


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("store", ["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def test_workers_keep_one_rate_limit_together(tmp_path: Path, store: str, workers: int) -> None:
    @run
    async def scenario() -> None:
        path = tmp_path / "limited.py"
        with RedisServer() if store == "redis" else nullcontext() as redis:
            url = f"sqlite:///{tmp_path / 'state.db'}" if redis is None else redis.url
            path.write_text(LIMITED.replace("STORE", url))
            async with child(str(path), "--port", "0", "--workers", str(workers)) as served:
                accepted = await accepted_by(served, workers)
                assert 0.9 * LIMIT <= len(accepted) <= 1.1 * LIMIT

    scenario()
