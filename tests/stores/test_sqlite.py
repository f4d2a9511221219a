"""The store in a file: the contract, several processes, and what can go wrong with a disk."""

import asyncio
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.stores import SqliteStore, Store, StoreFull, StoreUnavailable, StoreUnreadable, from_url
from dovetail.stores import sqlite as sqlite_store
from tests.support.aio import run
from tests.support.waiting import HANG, found, turns, until

from .contract import Clock, SharedStoreContract, fill


class TestSqliteStore(SharedStoreContract):
    path: Path

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "state.db"

    def make(self, clock: Clock) -> Store:
        return SqliteStore(self.path, clock=clock)

    def make_small(self, clock: Clock) -> Store:
        return SqliteStore(self.path, clock=clock, max_bytes=400_000)


class TestDurableSqliteStore(TestSqliteStore):
    def make(self, clock: Clock) -> Store:
        return SqliteStore(self.path, clock=clock, durable=True)


@run
async def test_everything_but_messages_survives_a_restart(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "s.db")
    await first.put("f/a", b"1")
    key = await first.append("log", b"x", keep=3)
    number = await first.lease("f/a", "me", 60)
    await first.close()
    second = SqliteStore(tmp_path / "s.db")
    assert await second.get("f/a") == b"1"
    assert await second.scan("log") == [(key, b"x")]
    assert await second.lease("f/a", "you", 60) == 0
    assert await second.lease("f/a", "me", 60) == number
    await second.close()


@run
async def test_a_store_goes_on_after_it_was_closed_and_on_another_loop(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await store.put("a", b"1")
    await store.close()
    assert await store.get("a") == b"1"

    async def elsewhere() -> bytes | None:
        await store.publish("news", b"")
        found = await store.get("a")
        await store.close()
        return found

    assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == b"1"
    await store.close()


def start(script: str, path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)


COUNTING = """
import asyncio, sys
from dovetail.stores import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    for number in range(10**9):
        await store.put(f"n/{number:09d}", b"x" * 100)
        print(number, flush=True)

asyncio.run(main())
"""


@run
async def test_what_was_acknowledged_before_a_kill_is_there(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    child = start(COUNTING, path)
    assert child.stdout is not None
    for _ in range(50):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    said = child.stdout.read().split()
    child.stdout.close()
    child.wait()
    store = SqliteStore(path)
    last = int(said[-1]) if said else 49
    assert await store.get(f"n/{last:09d}") == b"x" * 100
    await store.close()


LISTENING = """
import asyncio, sys
from dovetail.stores import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    store.subscribe("news", lambda message: print(message.decode(), flush=True))
    await store.open()
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_messages_reach_other_processes_and_a_dead_one_is_removed(tmp_path: Path, loop: str) -> None:
    """uvloop raises where asyncio drops what is written to a connection that is closed."""
    with asyncio.Runner(loop_factory=pytest.importorskip(loop).new_event_loop) as runner:
        runner.run(tell_and_kill(tmp_path))


async def tell_and_kill(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    children = [start(LISTENING, tmp_path / "s.db") for _ in range(2)]
    try:
        for child in children:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == b"ready\n"
        await store.publish("news", b"1")
        for child in children:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == b"1\n"
        # Killed with something unread: the connection is reset, not ended.
        children[0].send_signal(signal.SIGSTOP)
        await store.publish("news", b"2")
        children[0].kill()
        children[0].wait()
        assert children[1].stdout is not None
        assert await asyncio.to_thread(children[1].stdout.readline) == b"2\n"
        for number in (b"3", b"4"):
            await store.publish("news", number)
            assert await asyncio.to_thread(children[1].stdout.readline) == number + b"\n"
        await store.publish("news", b"x" * 1_000_000)
        assert len(await asyncio.to_thread(children[1].stdout.readline)) == 1_000_001
    finally:
        for child in children:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        await store.close()


@run
async def test_a_new_file_that_another_process_sets_up_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")  # of a file without a log SQLite says at once that it is locked
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        other.execute("rollback")

    monkeypatch.setattr(sqlite_store.time, "sleep", wait)
    store = SqliteStore(path)
    await store.open()
    assert len(waited) == 1
    other.close()
    await store.close()


@run
async def test_a_file_that_is_locked_for_too_long_is_said_to_be_and_works_again_afterwards(
    tmp_path: Path,
) -> None:
    path, busy = tmp_path / "s.db", 0.3
    store = SqliteStore(path, busy_timeout=busy)
    await store.put("a", b"1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailable, match="locked"):
        await store.put("a", b"2")
    assert await store.get("a") == b"1", "those who read wait for nobody"
    # However many wait for it: they wait together, not one after the other.
    waiting = [store.put(f"b{number}", b"") for number in range(50)]
    reading = [store.get("a") for _ in range(50)]
    async with asyncio.timeout(len(waiting) * busy * 2 / 3):
        found = await asyncio.gather(*waiting, *reading, return_exceptions=True)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in found[:50])
    assert found[50:] == [b"1"] * 50
    other.execute("rollback")
    other.close()
    await store.put("a", b"2")
    await store.close()


@run
async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    await store.put("a", b"1")
    await store.close()
    newer = sqlite3.connect(path)
    newer.execute("pragma user_version = 99")
    newer.close()
    with pytest.raises(StoreUnreadable, match="newer"):
        await store.get("a")
    await store.close()


@run
async def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    other = sqlite3.connect(path)
    other.execute("create table theirs (a)")
    other.close()
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="another application"):
        await store.put("a", b"1")
    await store.close()


@pytest.mark.parametrize("keep", [10, 100, 5000])
@run
async def test_a_truncated_file_is_never_read_half(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    for number in range(200):
        await store.put(f"f/{number:03d}", bytes(1000))
    await store.close()
    os.truncate(path, keep)
    with pytest.raises(StoreUnreadable):
        await store.scan("f", limit=1000)
    await store.close()


@pytest.mark.parametrize("cut", [1, 24, 3000, 5000, 50_000])
@run
async def test_a_log_that_was_half_written_when_the_power_failed_loses_its_end_alone(
    tmp_path: Path, cut: int
) -> None:
    path, copy = tmp_path / "s.db", tmp_path / "after.db"
    store = SqliteStore(path)
    for number in range(40):
        await store.put(f"f/{number:03d}", str(number).encode() * 300)
    half_written(path, copy, cut)
    await store.close()
    again = SqliteStore(copy)
    kept = await again.scan("f", limit=100)
    assert kept == [(f"f/{number:03d}", str(number).encode() * 300) for number in range(len(kept))]
    assert len(kept) < 40
    assert await again.put("f/new", b"1")
    assert await again.get("f/new") == b"1"
    await again.close()


def half_written(path: Path, copy: Path, cut: int) -> None:
    """As the disk has it then: the file, and a log that ends anywhere."""
    copy.write_bytes(path.read_bytes())
    Path(f"{copy}-wal").write_bytes(Path(f"{path}-wal").read_bytes()[:-cut])


def test_a_disconnected_subscriber_learns_that_messages_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.stores.pubsub.MAX_PUBSUB_BACKLOG_BYTES", 1 << 20)

    @run
    async def scenario() -> None:
        store, other = (SqliteStore(tmp_path / "s.db") for _ in range(2))
        heard: list[int] = []
        lost: list[bytes] = []
        other.subscribe("news", lambda message: heard.append(len(message)))
        other.subscribe("", lost.append)
        await other.open()
        await store.publish("news", b"1")
        await until(lambda: heard == [1])
        for _ in range(8):  # faster than anybody reads
            await store.publish("news", bytes(1 << 20))
        await found(lambda: told(store, lost))
        await until(lambda: heard[-1] == 2)
        assert 0 < len(heard) - heard.count(2) < 9
        await turns()
        await store.close()
        await other.close()
        await turns()

    scenario()


async def told(store: Store, lost: list[bytes]) -> bool | None:
    await store.publish("news", b"22")
    return True if lost else None


@pytest.fixture
def small_files() -> Iterator[None]:
    """As on a full disk: no file of this process may grow beyond 300 kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


@run
async def _fill(path: Path) -> None:
    store = SqliteStore(path)
    await store.put("kept", b"1")
    with pytest.raises((StoreFull, StoreUnavailable)):
        await fill(store)
    assert await store.get("kept") == b"1"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.put("again", b"1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.close()


def test_a_full_disk_refuses_keeps_what_is_there_and_is_well_again_with_room(
    tmp_path: Path, small_files: None
) -> None:
    _fill(tmp_path / "s.db")


@run
async def test_one_bad_change_does_not_take_others_with_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", max_bytes=200_000)
    puts = [store.put(f"f/{number}", bytes(50_000 if number == 5 else 100)) for number in range(10)]
    puts += [store.put("big", bytes(500_000))]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert outcomes[:10] == [True] * 10
    assert isinstance(outcomes[10], StoreFull)
    await store.close()


@run
async def test_what_is_over_is_taken_away_in_time(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteStore(tmp_path / "s.db", clock=clock)
    for number in range(100):
        await store.put(f"f/{number}", bytes(10_000), ttl=10)
    clock.now += 20
    for number in range(10):
        clock.now += 10
        await store.put(f"g/{number}", b"", ttl=1)
    await store.close()
    look = sqlite3.connect(tmp_path / "s.db")
    assert look.execute("select count(*) from entries").fetchone()[0] <= 2
    look.close()


def test_a_store_made_before_a_fork_is_used_on_both_sides(tmp_path: Path) -> None:
    script = """
import asyncio, os, sys
from dovetail.stores import SqliteStore

store = SqliteStore(sys.argv[1])

async def use(name):
    await store.put(f"f/{name}", b"1")
    await store.publish("news", b"")
    await store.close()

asyncio.run(store.put("f/before", b"1"))
child = os.fork()
asyncio.run(use("child" if child == 0 else "parent"))
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "s.db")], check=True, timeout=HANG)
    look = sqlite3.connect(tmp_path / "s.db")
    assert look.execute("select count(*) from entries").fetchone()[0] == 3
    look.close()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Names of sockets are short, and those of pytest's folders are not."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@run
async def test_the_folder_of_sockets_is_private(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    folder = short_folder / f"dovetail-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    store = SqliteStore(tmp_path / "s.db")
    with pytest.raises(StoreUnavailable, match="private folder of this user"):
        await store.publish("news", b"1")
    folder.chmod(0o700)
    heard: list[bytes] = []
    store.subscribe("news", heard.append)
    await store.publish("news", b"1")
    assert heard == [b"1"]
    await store.close()


@run
async def test_the_socket_of_a_process_is_invisible_before_it_listens(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that finds an unresponsive socket removes it, and the socket's owner would receive nothing any more."""
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    seen: list[int] = []
    listen = socket.socket.listen

    def sockets() -> int:
        return len(list(short_folder.glob("dovetail-*/*/*.sock")))

    def begin(self: socket.socket, *backlog: int) -> None:
        seen.append(sockets())
        listen(self, *backlog)

    monkeypatch.setattr(socket.socket, "listen", begin)
    store = SqliteStore(tmp_path / "s.db")
    await store.open()
    assert (seen[0], sockets()) == (0, 1)
    await store.close()
    assert sockets() == 0


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_cancelled_subscribe_of_the_store_leaves_no_state(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))

    def left() -> list[Path]:
        return list(short_folder.glob("dovetail-*/*/*.sock"))

    async def scenario() -> None:
        for number in range(8):
            store = SqliteStore(tmp_path / "s.db")
            telling = asyncio.create_task(store.publish("news", b"1"))
            await turns(number)
            telling.cancel()
            await asyncio.wait([telling])
            await store.close()
            assert not left(), number

    with asyncio.Runner(loop_factory=pytest.importorskip(loop).new_event_loop) as runner:
        runner.run(scenario())


@run
async def test_urls_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url, name in (
        ("sqlite:///one.db", "one.db"),
        (f"sqlite:///{tmp_path}/two.db", "two.db"),
        ("three.db", "three.db"),
    ):
        store = from_url(url)
        await store.put("a", b"1")
        await store.close()
        assert (tmp_path / name).exists()
    memory = from_url("memory://")
    assert await memory.put("a", b"1") is True
