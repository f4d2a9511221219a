"""A server as a child process: how it starts, what it gets, and that nothing of it stays."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dovetail.errors import TransportError
from dovetail.transports import child
from dovetail.transports.child import MAX_STDERR_BYTES
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
    """Only this number of further descriptors can be opened inside."""
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
async def test_the_stderr_of_a_child_explains_its_exit(capsys: pytest.CaptureFixture[str]) -> None:
    receiver = Recorder()
    code = "import sys; sys.stderr.write('noise ' * 5000 + 'no licence'); sys.exit(3)"
    link = await child.spawn(receiver, [*PYTHON, code])
    await receiver.until(lambda: receiver.losses)
    (error,) = receiver.losses
    assert error.cause == "eof"
    assert "exit status 3" in error.message
    assert error.message.endswith("no licence")
    assert len(link.stderr_tail) <= MAX_STDERR_BYTES
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


def test_a_child_process_does_not_inherit_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LANG", "() { evil; }")
    plain = child.environment({"EXTRA": "1"})
    assert "SECRET_TOKEN" not in plain
    assert "LANG" not in plain
    assert plain["EXTRA"] == "1"
    assert plain["PATH"] == os.environ["PATH"]


@run
async def test_environment_and_folder_reach_the_child(tmp_path: Path) -> None:
    receiver = Recorder()
    code = "import json, os; print(json.dumps([os.environ.get('A'), os.getcwd()]))"
    link = await child.spawn(receiver, [*PYTHON, code], env={"A": "b"}, cwd=tmp_path)
    await receiver.until(lambda: receiver.messages)
    assert receiver.messages == [f'["b", "{tmp_path}"]'.encode()]
    await link.wait_closed()


@pytest.mark.parametrize("how", ["close", "abort", "kill", "its own end"])
@run
async def test_a_process_that_the_server_started_in_its_own_session_survives(how: str) -> None:
    receiver = Recorder()
    code = (
        "import subprocess, sys\n"
        "SLEEP = [sys.executable, '-S', '-c', 'import time; time.sleep(60)']\n"
        "print(subprocess.Popen(SLEEP, start_new_session=True, stdout=2).pid, flush=True)\n"
        "sys.stdin.readline()"
    )
    link = await child.spawn(receiver, [*PYTHON, code], grace=1)
    await receiver.until(lambda: receiver.messages)
    browser = int(receiver.messages[0])
    try:
        match how:
            case "close":
                link.close()
            case "abort":
                link.abort()
            case "kill":
                os.kill(link.pid, signal.SIGKILL)
            case _:
                link.send(b"[]")
        await link.wait_closed()
        assert not alive(link.pid)
        assert alive(browser)
    finally:
        os.kill(browser, signal.SIGKILL)


@run
async def test_a_child_that_fails_to_start_does_not_affect_other_children() -> None:
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
