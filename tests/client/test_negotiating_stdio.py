"""Legacy servers on stdio, and what they do to the probe: all of them are reached."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dovetail import Client, Timeouts
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import DovetailError, ProtocolError, RequestTimeout, TransportError

from ..support.aio import run
from ..support.waiting import turns, until

FAKE = str(Path(__file__).with_name("fake_stdio.py"))
MODES = ("-32601", "-32602", "-32600", "-32603", "exit", "silent", "hang", "garbage", "strange")


def fake(mode: str, log: Path) -> list[str]:
    return [sys.executable, "-S", "-E", FAKE, mode, str(log)]


def quiet(data: bytes) -> None:
    """The fakes complain on stderr; that is not what the tests are about."""


def heard(log: Path) -> list[str]:
    return log.read_text().split()


@pytest.mark.parametrize("mode", [*MODES, "legacy-discovery", "unsupported"])
def test_a_legacy_server_is_reached_whatever_the_probe_does_to_it(mode: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    known = ServerCache()

    @run
    async def connect_twice() -> None:
        for _ in range(2):
            client = Client(
                fake(mode, log),
                discovery_timeout=0.4,
                timeouts=Timeouts(connect=20.0),
                server_cache=known,
                on_stderr=quiet,
            )
            async with client:
                assert client.revision == "2025-06-18"
                result = await client.call_tool("echo", {"a": 1})
                assert result.text == '{"a": 1}'

    connect_twice()
    assert heard(log).count("server/discover") == 1, "the second connect must not probe"


def test_a_pinned_legacy_revision_never_probes(tmp_path: Path) -> None:
    log = tmp_path / "log"

    @run
    async def connect() -> None:
        async with Client(
            fake("exit", log), revision="2025-06-18", server_cache=ServerCache(), on_stderr=quiet
        ) as client:
            assert client.revision == "2025-06-18"

    connect()
    assert "server/discover" not in heard(log)


@run
async def test_modern_only_fails_clearly_on_a_legacy_server(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="does not support 2026-07-28"):
        async with Client(fake("-32601", tmp_path / "log"), revision="modern", server_cache=ServerCache()):
            pass


@run
async def test_modern_only_leaves_all_the_time_there_is_to_the_probe(tmp_path: Path) -> None:
    command, limit = fake("silent", tmp_path / "log"), Timeouts(connect=0.6)
    with pytest.raises(DovetailError, match=r"within 0\.6 s"):
        async with Client(command, revision="modern", timeouts=limit, server_cache=ServerCache()):
            pass


@run
async def test_another_version_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="2025-06-18"):
        async with Client(
            fake("-32601", tmp_path / "log"), revision="2025-11-25", server_cache=ServerCache()
        ):
            pass


@run
async def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(TransportError, match="no-such-program") as caught:
        async with Client(["no-such-program-anywhere"]):
            pass
    assert caught.value.cause == "refused"


@run
async def test_the_stderr_of_a_server_that_died_is_quoted() -> None:
    command = [sys.executable, "-S", "-c", "import sys; print('out of cheese', file=sys.stderr); sys.exit(7)"]
    with pytest.raises(TransportError, match=r"exit status 7.*out of cheese"):
        async with Client(command, on_stderr=quiet):
            pass


@run
async def test_a_server_that_never_answers_runs_into_the_connect_limit() -> None:
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(RequestTimeout) as caught:
        async with Client(command, discovery_timeout=0.1, timeouts=Timeouts(connect=0.6)):
            pass
    assert caught.value.limit == "connect"


STUBBORN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), file=open(sys.argv[1], "w"), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    wrong = {"code": -32603, "message": "the licence has expired"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": wrong}), flush=True)
time.sleep(60)
"""
"""Refuses everything, and does not want to end."""


def ended(pid: Path) -> bool:
    try:
        return Path(f"/proc/{pid.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
@run
async def test_a_failed_connect_leaves_no_process_and_says_why_however_long_the_end_takes(
    tmp_path: Path,
) -> None:
    pid = tmp_path / "pid"
    client = Client([sys.executable, "-c", STUBBORN, str(pid)], timeouts=Timeouts(connect=2))
    with pytest.raises(ProtocolError, match="the licence has expired"):
        await client.open()
    assert ended(pid)


@run
async def test_a_client_that_is_closed_while_a_failed_connect_is_cleared_away_leaves_no_process(
    tmp_path: Path,
) -> None:
    pid = tmp_path / "pid"
    client = Client(
        [sys.executable, "-c", STUBBORN, str(pid)], on_message=lambda sender, _: said.append(sender)
    )
    said: list[str] = []
    opening = asyncio.create_task(client.open())
    await until(lambda: said.count("server") == 2)  # both the probe and initialize were refused
    await turns()
    await client.close()
    assert ended(pid)
    with pytest.raises(DovetailError):
        await opening
