"""Several processes on one address."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from dovetail.transports.http.server.ended_sessions import EndedSessions
from tests.http.children import NEWEST, ask_until_complete, child
from tests.support.aio import run
from tests.support.process import CLI
from tests.support.waiting import until
from tests.support.web import (
    Web,
    legacy_headers,
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
                    await until(lambda pid=victim: not (Path(f"/proc/{pid}/fd").exists() and _alive(pid)))
            assert len(pids) >= 3
            question = await web.legacy(NEWEST, session, "tools/call", {"name": "ask"})
            assert question.message["result"]["isError"] is True
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204
            for _ in range(20):
                assert (await web.legacy(NEWEST, session, "ping")).status == 404
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0
            assert "ERROR" not in served.said

    scenario()


def test_workers_that_die_of_a_signal_at_start_are_given_up(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    ended = supervise(
        f"""
def work(seat):
    with open({str(starts)!r}, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGSEGV)
"""
    )
    assert ended.returncode == 1
    assert "do not start" in ended.stderr
    assert len(starts.read_text()) in (3, 4)  # two seats, two more attempts, and the last may be told to end


def test_a_worker_killed_after_its_start_is_replaced_without_a_pause(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    ended = supervise(
        f"""
workers.STARTING, workers.PAUSE = 0.05, 600.0
parent = os.getpid()
def work(seat):
    if seat:
        signal.pause()
    if os.path.exists({str(mark)!r}):
        os.kill(parent, signal.SIGTERM)
        signal.pause()
    open({str(mark)!r}, "w").close()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert ended.returncode == 0


def supervise(work: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import os, signal, sys, time\n"
        "from dovetail.transports.http.host import workers\n"
        f"{work}\n"
        "sys.exit(workers.Supervisor(2, work, patience=5.0).run())\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def _alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in ("Z", "X")


def test_workers_that_cannot_start_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        "from contextlib import asynccontextmanager\n"
        "from dovetail import Server\n"
        "@asynccontextmanager\n"
        "async def lifespan(server):\n"
        "    raise RuntimeError('no database')\n"
        "    yield\n"
        "server = Server('broken', lifespan=lifespan)\n"
    )
    command = [*CLI, "run", str(path), "--http", "--port", "0", "--workers", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "do not start" in ended.stderr
    ended = subprocess.run(command[:-2], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode not in (0, -signal.SIGTERM)
    assert "no database" in ended.stderr


def test_every_worker_hears_of_the_end_of_a_session(tmp_path: Path) -> None:
    shared = tmp_path / "ended"
    shared.touch()
    one, two = EndedSessions(str(shared)), EndedSessions(str(shared))
    for number in range(10):
        one.add(f"id-{number}")
        assert two.news()
        assert f"id-{number}" in two
    assert two.news() == set()
    two.add("mine")
    one.news()
    assert "mine" in one
    assert "other" not in one
