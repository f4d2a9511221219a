"""A server as a child process: how it starts, what it gets, and that nothing of it stays."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dovetail.errors import TransportError
from dovetail.settings import STDERR_KEPT
from dovetail.transports import child
from tests.support.aio import run
from tests.support.waiting import wait_until

from .recorder import Recorder

PYTHON = [sys.executable, "-c"]
ECHO = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    wait_until(lambda: not alive(pid))
    return True


@run
async def test_messages_go_to_a_child_and_back_and_closing_ends_it() -> None:
    receiver = Recorder()
    link = await child.spawn(receiver, [*PYTHON, ECHO])
    for n in range(100):
        link.send(b"[%d]" % n)
    await receiver.until(lambda: len(receiver.messages) == 100)
    link.close()
    await link.wait_closed()
    assert receiver.losses == [None]
    assert link.returncode == 0
    assert not alive(link.pid)


@run
async def test_a_command_that_cannot_be_started_is_an_error() -> None:
    for command in (["/no/such/command"], ["/"]):
        with pytest.raises(TransportError, match="cannot start") as caught:
            await child.spawn(Recorder(), command)
        assert caught.value.cause == "refused"


@contextmanager
def descriptors(left: int) -> Iterator[None]:
    """Only so many more can be opened inside."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    # A limit counts from 0, so it has to be above whatever is open already.
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 50), hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(2))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("left", range(8))
@run
async def test_a_process_without_free_descriptors_starts_no_child_and_loses_none(left: int) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with descriptors(left), pytest.raises(TransportError, match="cannot start") as caught:
        await child.spawn(Recorder(), [*PYTHON, ECHO])
    assert caught.value.cause == "refused"
    assert set(os.listdir("/proc/self/fd")) == before


@run
async def test_the_last_words_of_a_child_explain_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    receiver = Recorder()
    code = "import sys; sys.stderr.write('noise ' * 5000 + 'no licence'); sys.exit(3)"
    link = await child.spawn(receiver, [*PYTHON, code])
    await receiver.until(lambda: receiver.losses)
    (error,) = receiver.losses
    assert error.cause == "eof"
    assert "exit status 3" in error.message
    assert error.message.endswith("no licence")
    assert len(link.stderr_tail) <= STDERR_KEPT
    await link.wait_closed()
    assert "no licence" in capsys.readouterr().err  # and it was passed on


@run
async def test_a_child_that_is_killed_is_named_with_its_signal() -> None:
    receiver = Recorder()
    link = await child.spawn(receiver, [*PYTHON, ECHO])
    link.send(b"[1]")
    await receiver.until(lambda: receiver.messages)
    os.kill(link.pid, signal.SIGKILL)
    await receiver.until(lambda: receiver.losses)
    assert "SIGKILL" in receiver.losses[0].message
    await link.wait_closed()


@run
async def test_a_child_that_ignores_the_end_of_its_input_gets_sigterm_then_sigkill() -> None:
    codes = {
        "import time\ntime.sleep(60)": -signal.SIGTERM,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('[1]', flush=True)\n"
        "time.sleep(60)": -signal.SIGKILL,
    }
    for code, status in codes.items():
        receiver = Recorder()
        link = await child.spawn(receiver, [*PYTHON, code], grace=1)
        if status == -signal.SIGKILL:
            await receiver.until(lambda receiver=receiver: receiver.messages)
        link.close()
        await link.wait_closed()
        assert link.returncode == status


@run
async def test_grandchildren_are_ended_with_the_child() -> None:
    receiver = Recorder()
    code = (
        "import subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(inner.pid, flush=True)\nsys.stdin.read()"
    )
    link = await child.spawn(receiver, [*PYTHON, code], grace=1)
    await receiver.until(lambda: receiver.messages)
    inner = int(receiver.messages[0])
    assert alive(inner)
    link.close()
    await link.wait_closed()
    assert gone(inner)


CLIENT = """
import asyncio, sys
sys.path[:0] = [{root!r}]
from dovetail.transports import child
from tests.transports.recorder import Recorder
CODE = '''
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
alone = {{"start_new_session": True}}
inner = [subprocess.Popen(SLEEP, **more) for more in ({{}}, alone, {{**alone, "env": {{}}}})]
print(*[each.pid for each in inner], flush=True)
time.sleep(60)
'''
async def main():
    receiver = Recorder()
    link = await child.spawn(receiver, [sys.executable, "-c", CODE])
    await receiver.until(lambda: receiver.messages)
    print(link.pid, receiver.messages[0].decode(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_and_grandchildren_die_with_a_client_that_is_killed(number: int) -> None:
    code = CLIENT.format(root=str(Path(__file__).parents[2]))
    with subprocess.Popen([*PYTHON, code], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        pids = [int(word) for word in client.stdout.readline().split()]
        assert len(pids) == 4
        assert all(alive(pid) for pid in pids)
        client.send_signal(number)
        client.wait()
    assert all(gone(pid) for pid in pids)


def test_a_child_gets_no_secrets_of_ours_unless_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LANG", "() { evil; }")
    plain = child.environment({"EXTRA": "1"})
    assert "SECRET_TOKEN" not in plain
    assert "LANG" not in plain
    assert plain["EXTRA"] == "1"
    assert plain["PATH"] == os.environ["PATH"]
    assert child.environment(inherit=True)["SECRET_TOKEN"] == "x"


@run
async def test_environment_and_folder_reach_the_child(tmp_path: Path) -> None:
    receiver = Recorder()
    code = "import json, os; print(json.dumps([os.environ.get('A'), os.getcwd()]))"
    link = await child.spawn(receiver, [*PYTHON, code], env={"A": "b"}, cwd=tmp_path)
    await receiver.until(lambda: receiver.messages)
    assert receiver.messages == [f'["b", "{tmp_path}"]'.encode()]
    await link.wait_closed()


@run
async def test_no_guard_is_left_when_all_is_over() -> None:
    def guards() -> list[str]:
        listing = subprocess.run(
            ["ps", "-eo", "ppid,stat,args"], capture_output=True, text=True, check=True
        ).stdout
        own = [line.split(None, 2) for line in listing.splitlines()]
        return [line[2] for line in own if line[0] == str(os.getpid()) and "read -r child" in line[2]]

    receiver = Recorder()
    link = await child.spawn(receiver, [*PYTHON, ECHO])
    assert len(guards()) == 1
    link.close()
    await link.wait_closed()
    assert guards() == []
    await asyncio.sleep(0)


LEFT = """
import os, subprocess, sys, time
SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
own = subprocess.Popen(SLEEP, start_new_session=True)
bare = subprocess.Popen(SLEEP, start_new_session=True, env={})
code = "import sys, subprocess as s; print(s.Popen(sys.argv[1:], start_new_session=True, stdout=2).pid)"
orphan = subprocess.run([sys.executable, "-S", "-c", code, *SLEEP], stdout=-1, stderr=-3, text=True).stdout
print(own.pid, bare.pid, int(orphan), flush=True)
"""
"""Starts three that leave its process group: one as they come, one without our environment, one without its parent."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the group alone is ended")
@pytest.mark.parametrize("how", ["close", "abort", "kill", "its own end"])
@run
async def test_whoever_left_the_group_is_ended_with_the_child(how: str) -> None:
    receiver = Recorder()
    code = LEFT + ("sys.stdin.readline()" if how == "its own end" else "sys.stdin.read()")
    link = await child.spawn(receiver, [*PYTHON, code], grace=1)
    await receiver.until(lambda: receiver.messages)
    pids = [int(pid) for pid in receiver.messages[0].split()]
    assert all(alive(pid) for pid in pids)
    match how:
        case "close":
            link.close()
        case "abort":
            link.abort()
        case "kill":
            os.kill(link.pid, signal.SIGKILL)
            os.kill(pids.pop(1), signal.SIGKILL)  # nobody can know whose it was
        case _:
            link.send(b"[]")
            os.kill(pids.pop(1), signal.SIGKILL)
            await receiver.until(lambda: receiver.losses)
    await link.wait_closed()
    assert all(gone(pid) for pid in pids)


@run
async def test_a_child_that_cannot_be_started_ends_nobody_elses() -> None:
    receiver = Recorder()
    other = await child.spawn(receiver, [*PYTHON, ECHO])
    for _ in range(3):
        with pytest.raises(TransportError, match="cannot start"):
            await child.spawn(Recorder(), ["/no/such/command"])
    other.send(b"[1]")
    await receiver.until(lambda: receiver.messages)
    other.close()
    await other.wait_closed()
    assert other.returncode == 0
