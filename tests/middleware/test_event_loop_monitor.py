"""The delay of the event loop: measured while requests arrive, and a thread only where one is asked for."""

import asyncio
import threading
import time

import pytest

from dovetail import Server
from dovetail.middleware import event_loop_monitor
from dovetail.middleware.event_loop_monitor import EventLoopMonitor
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import until


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One measurement takes a twentieth of a second."""
    monkeypatch.setattr("dovetail.middleware.event_loop_monitor.RESOURCE_CHECK_INTERVAL", 0.05)
    monkeypatch.setattr("dovetail.middleware.event_loop_monitor.LOOP_HEARTBEAT_INTERVAL", 0.02)


def block(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def blocking() -> Server:
    server = Server("shop")

    @server.tool(run="inline")
    def grind(seconds: float) -> str:
        block(seconds)
        return "done"

    return server


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dovetail-watchdog"]


@run
async def test_a_delay_is_measured_after_a_request_and_then_the_monitor_sleeps(quick: None) -> None:
    delays: list[float] = []
    monitor = EventLoopMonitor(lambda delay: bool(delays.append(delay)))
    monitor.start()
    await until(lambda: monitor.asleep)
    assert len(delays) == 1
    monitor.wake()
    assert not monitor.asleep
    block(0.3)
    await until(lambda: monitor.asleep)
    assert len(delays) == 2
    assert delays[1] >= 0.25
    monitor.stop()
    assert not monitor.asleep


@run
async def test_a_monitor_runs_as_long_as_its_owner_needs_it(quick: None) -> None:
    delays: list[float] = []

    def report(delay: float) -> bool:
        delays.append(delay)
        return len(delays) < 3

    monitor = EventLoopMonitor(report)
    monitor.start()
    await until(lambda: monitor.asleep)
    assert len(delays) == 3


@run
async def test_a_request_wakes_the_monitor_of_its_server(quick: None) -> None:
    server = blocking()
    async with server.running():
        await until(lambda: server.health.monitor.asleep)
        assert await Peer(server).text("grind", seconds=0.3) == "done"
        await until(lambda: server.health.describe()["loop"]["ms"] >= 250)
    assert not server.health.monitor.asleep


@run
async def test_no_thread_watches_the_loop_unless_one_is_asked_for() -> None:
    server = blocking()
    async with server.running():
        assert not watchdogs()
    server.health.log_blocking = True
    async with server.running():
        assert len(watchdogs()) == 1
    await until(lambda: not watchdogs())


@run
async def test_in_debug_mode_a_thread_watches_the_loop() -> None:
    server, loop = blocking(), asyncio.get_running_loop()
    loop.set_debug(True)
    try:
        async with server.running():
            assert len(watchdogs()) == 1
    finally:
        loop.set_debug(False)
    await until(lambda: not watchdogs())


@run
async def test_no_thread_is_started_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop_monitor, "HAS_THREADS", False)
    await until(lambda: not watchdogs())  # of other tests
    server = blocking()
    server.health.log_blocking = True
    async with server.running():
        assert not watchdogs()


@run
async def test_a_blocked_loop_is_logged_with_the_tool_and_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    server = blocking()
    server.health.log_blocking = True
    async with server.running():
        with caplog.at_level("WARNING", "dovetail.health"):
            assert await Peer(server).text("grind", seconds=0.05) == "done"
            assert not [line for line in caplog.messages if "grind" in line]
            assert await Peer(server).text("grind", seconds=0.6) == "done"
    (line,) = [line for line in caplog.messages if "blocked" in line]
    assert line.startswith("event loop blocked for over 250 ms by tools/call 'grind':")
    assert "in grind" in line
    assert "time.monotonic() < end" in line


@run
async def test_a_loop_that_only_waits_is_not_called_blocked(
    caplog: pytest.LogCaptureFixture, quick: None
) -> None:
    server = blocking()
    server.health.log_blocking = True
    async with server.running():
        await until(lambda: server.health.describe()["loop"]["ms"] > 0)
        await until(lambda: server.health.monitor.asleep)
        assert not [line for line in caplog.messages if "blocked" in line]
