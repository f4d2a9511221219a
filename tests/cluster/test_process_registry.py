"""The process registry: a killed process is detected at once on its machine, and a live one never counts as
dead.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from dovetail.cluster.message_bus import MessageBus, SessionEnded
from dovetail.cluster.process_registry import has_ended, process_identity
from dovetail.stores import SqliteStore
from tests.support.aio import run

WORKER = """
import asyncio, sys
from dovetail.stores import SqliteStore
from dovetail.cluster.message_bus import MessageBus
from dovetail.cluster.process_registry import process_identity

async def main():
    mail = MessageBus(SqliteStore(sys.argv[1]), "shop")
    await mail.start()
    print(mail.worker_id, process_identity().decode(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@run
async def test_a_killed_worker_is_gone_before_its_sign_of_life_runs_out(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    mail = MessageBus(store, "shop")
    await mail.start()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(tmp_path / "s.db"), stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    worker, _, theirs = (await child.stdout.readline()).strip().partition(b" ")
    assert await mail.is_alive(worker.decode())
    assert not has_ended(theirs)
    child.kill()
    await child.wait()
    assert has_ended(theirs)
    assert not await mail.is_alive(worker.decode())
    assert await mail.request(worker.decode(), SessionEnded("any")) is None
    await mail.stop()
    await store.close()


def test_a_process_is_never_taken_for_ended_that_cannot_be_seen() -> None:
    machine, pid, begun = process_identity().decode().split(" ")
    assert not has_ended(f"{machine} {pid} {begun}".encode())
    assert has_ended(f"{machine} {pid} {int(begun) + 1}".encode())  # the number was given again
    assert has_ended(f"{machine} {2**22 + 1} {begun}".encode())
    boot, namespace, user = machine.rsplit("/", 2)
    for other in (f"x{boot}/{namespace}/{user}", f"{boot}/x/{user}", f"{boot}/{namespace}/{user}1"):
        assert not has_ended(f"{other} {2**22 + 1} {begun}".encode())
    assert not has_ended(b"1")  # of a system, or a version, that says no more


FULL = """
import os, resource, sys
from dovetail.cluster.process_registry import has_ended, process_identity

assert not has_ended(sys.argv[1].encode())
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
assert not has_ended(sys.argv[1].encode())
assert not has_ended(process_identity())
"""


def test_a_process_without_free_descriptors_considers_no_process_dead() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, process_identity().decode()], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


BLIND = """
import os, sys
from pathlib import Path

def absent(*given, **named):
    raise FileNotFoundError(2, "there is no /proc")

os.readlink = Path.read_text = absent
from dovetail.cluster.process_registry import has_ended, process_identity

assert not has_ended(sys.argv[1].encode())
assert process_identity() == b"1"
"""


def test_without_proc_no_process_is_considered_dead() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLIND, process_identity().decode()], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
