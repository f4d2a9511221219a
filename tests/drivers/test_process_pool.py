"""Processes for what must be killable."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dovetail.drivers.process_pool import ProcessPool, WorkerLost, locate
from dovetail.errors import RegistrationError, ToolError
from tests.support.aio import run
from tests.support.rawclient import until
from tests.support.waiting import HANG, wait_until


@dataclass
class Point:
    x: int
    y: int


def mirrored(point: Point) -> Point:
    return Point(point.y, point.x)


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


def failing(message: str) -> None:
    raise ToolError(message, data={"why": "test"})


class Stubborn(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def failing_unpicklably() -> None:
    raise Stubborn(1, 2)


def spinning(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    while True:
        pass


def suicide() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def printing() -> int:
    print("a print in a worker")
    os.system("echo a child of a worker")
    return sys.stdin.read().count("x")


def decorated(function):  # type: ignore[no-untyped-def]
    @functools.wraps(function)
    def wrapper(*args):  # type: ignore[no-untyped-def]
        return function(*args) + 1

    return wrapper


@decorated
def counted(value: int) -> int:
    return value


def gone(pid: int) -> bool:
    def looked_for() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(looked_for)
    return True


@run
async def test_functions_arguments_and_results_travel() -> None:
    pool = ProcessPool(1)
    assert await pool.run(mirrored, Point(1, 2)) == Point(2, 1)
    assert await pool.run(later, value=5) == 5
    assert await pool.run(counted, 1) == 2
    first = await pool.run(os.getpid)
    assert first == await pool.run(os.getpid) != os.getpid()
    await pool.close()
    assert gone(first)


@run
async def test_what_a_function_raises_is_raised_here_with_its_trace() -> None:
    pool = ProcessPool(1)
    with pytest.raises(ToolError, match="readable") as caught:
        await pool.run(failing, "readable")
    assert caught.value.data == {"why": "test"}
    assert "in failing" in "".join(caught.value.__notes__)
    with pytest.raises(RuntimeError, match="1 and 2"):
        await pool.run(failing_unpicklably)
    await pool.close()


@run
async def test_a_cancelled_call_kills_its_process_and_the_next_gets_another(tmp_path: Path) -> None:
    pool = ProcessPool(1)
    file = tmp_path / "pid"
    spin = asyncio.ensure_future(pool.run(spinning, str(file)))
    await until(lambda: file.exists() and file.read_text())
    spin.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spin
    pid = int(file.read_text())
    assert await pool.run(later, 1) == 1
    assert gone(pid)
    await pool.close()


@run
async def test_a_process_that_dies_is_reported_and_replaced() -> None:
    pool = ProcessPool(1)
    with pytest.raises(WorkerLost, match="-9"):
        await pool.run(suicide)
    assert await pool.run(later, 1) == 1
    await pool.close()


@run
async def test_prints_in_a_worker_do_not_disturb_it() -> None:
    pool = ProcessPool(1)
    assert await pool.run(printing) == 0
    assert await pool.run(later, 1) == 1
    await pool.close()


@run
async def test_no_more_processes_than_the_limit() -> None:
    pool = ProcessPool(2)
    pids = await asyncio.gather(*(pool.run(os.getpid) for _ in range(6)))
    assert len(set(pids)) <= 2
    await pool.close()
    assert all(gone(pid) for pid in set(pids))


def test_a_function_without_a_place_of_its_own_is_refused_at_once() -> None:
    def nested() -> None: ...

    for function in (nested, lambda: None, functools.partial(print)):
        with pytest.raises(RegistrationError, match="top level"):
            locate(function)


def test_functions_of_a_script_and_of_a_file_without_a_name_run_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio\n"
        "from dataclasses import dataclass\n"
        "from dovetail.drivers.process_pool import ProcessPool\n"
        "@dataclass\nclass P:\n    x: int\n"
        "def double(p):\n    return P(p.x * 2)\n"
        "async def main():\n    pool = ProcessPool(1)\n"
        # It gives the main module a second name, which must not be taken for the script.
        "    await pool.run(exec, 'import multiprocessing')\n"
        "    print(await pool.run(double, P(21)))\n    await pool.close()\n"
        "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=HANG)
    assert "P(x=42)" in done.stdout, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_workers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, os, sys\nsys.path[:0] = sys.argv[1:]\n"
        "from dovetail.drivers.process_pool import ProcessPool\nfrom tests.drivers.test_process_pool import spinning\n"
        f"asyncio.run(ProcessPool(1).run(spinning, {str(tmp_path / 'pid')!r}))\n"
    )
    root = str(Path(__file__).parents[2])
    with subprocess.Popen([sys.executable, str(script), root]) as parent:
        file = tmp_path / "pid"
        try:
            wait_until(lambda: file.exists() and file.read_text())
        finally:
            parent.kill()  # also when it took too long: the test would wait for it for ever
    assert gone(int(file.read_text()))
