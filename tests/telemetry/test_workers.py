"""Metrics of several processes: each process reports the metrics of all."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail import Server
from dovetail.telemetry.shared_registry import enter, gather
from tests.http.children import SLOW, child
from tests.support import web as support
from tests.support.aio import run
from tests.support.prometheus import Prometheus
from tests.support.waiting import HANG, until, wait_until
from tests.support.web import Web, text
from tests.telemetry.test_metrics import samples


@pytest.fixture
def slow(tmp_path: Path) -> str:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)


async def scraped(web: Web) -> dict[str, float]:
    page = await web.ask("GET", {}, path="/metrics")
    assert page.status == 200
    return samples(page.body)


CALLS = 'dovetail_calls_total{method="tools/call",name="pid",outcome="ok"}'


def test_any_of_four_workers_reports_the_sum_including_dead_workers(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "4", "--metrics") as served:
            web = Web(served)  # type: ignore[arg-type]
            await until_workers(web, 4)
            pids: set[str] = set()
            calls = 0
            while len(pids) < 3 or calls < 40:
                pids.add(text(await web.call("pid")))
                calls += 1
            for _ in range(8):
                assert (await scraped(web))[CALLS] == calls
            os.kill(int(min(pids)), signal.SIGKILL)
            await until_workers(web, 4, but=min(pids))
            found = await scraped(web)
            assert found[CALLS] == calls
            assert found['dovetail_call_seconds_count{method="tools/call",name="pid"}'] == calls
            assert found["dovetail_in_flight"] == 0

    scenario()


def gone(pid: str) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def until_workers(web: Web, count: int, but: str = "") -> None:
    """Wait until this number of workers serves, without the killed one."""
    for _ in range(2000):
        try:
            if (await scraped(web)).get("dovetail_workers") == count and (not but or gone(but)):
                return
        except (OSError, EOFError, ValueError):  # connections of a worker that has just died
            continue
    raise AssertionError("they never are as many")


@pytest.mark.prometheus
def test_a_real_prometheus_scrapes_four_workers(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "4", "--metrics") as served:
            web = Web(served)  # type: ignore[arg-type]
            await until_workers(web, 4)
            for _ in range(30):
                await web.call("pid")
            await web.modern("tools/call", {"name": "nobody's", "arguments": {}})
            with Prometheus(served.address[1]) as prometheus:
                await until(lambda: prometheus.value("dovetail_workers") == 4)
                assert prometheus.value("up") == 1
                assert prometheus.value('dovetail_calls_total{name="pid",outcome="ok"}') == 30
                assert prometheus.value('dovetail_calls_total{name="(other)",outcome="error"}') == 1
                assert prometheus.value('dovetail_call_seconds_count{name="pid"}') == 30
                quantile = "histogram_quantile(0.99, sum by (le) (dovetail_call_seconds_bucket))"
                assert 0 < (prometheus.value(quantile) or 0) < 60

    scenario()


COUNTING = """
import json, os, sys
from dovetail import Server
server = Server("x")
server.metrics.join(sys.argv[1])
server.metrics.count("dovetail_client_workarounds_total", "a", by=float(sys.argv[2]))
server.metrics.set("dovetail_sessions", 7)
server.metrics.observe("dovetail_store_seconds", 0.02, "get")
print("ready", flush=True)
sys.stdin.read()
"""


class Process:
    def __init__(self, folder: Path, by: int) -> None:
        command = [sys.executable, "-c", COUNTING, str(folder), str(by)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(HANG)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def read(server: Server) -> tuple[float, float, float, float]:
    metrics = server.metrics
    names = (
        "dovetail_client_workarounds_total",
        "dovetail_store_seconds",
        "dovetail_sessions",
        "dovetail_workers",
    )
    found = samples(metrics.text())
    return (
        found.get('dovetail_client_workarounds_total{name="a"}', 0),
        found.get('dovetail_store_seconds_count{verb="get"}', 0),
        *(metrics.read(name) for name in names[2:]),
    )


def test_counters_of_the_dead_are_kept_and_their_gauges_dropped(tmp_path: Path) -> None:
    server = Server("x")
    server.metrics.join(str(tmp_path))
    first, second = Process(tmp_path, 1), Process(tmp_path, 10)
    assert read(server) == (11, 2, 14, 3)
    first.kill()
    assert read(server) == (11, 2, 7, 2)
    # A new process merges the files of dead ones; the values stay the same, also the second time.
    third = Process(tmp_path, 100)
    assert read(server) == (111, 3, 14, 3)
    second.kill()
    third.kill()
    assert read(server) == (111, 3, 0, 1)
    for _ in range(3):
        Process(tmp_path, 1000).kill()
    assert read(server) == (3111, 6, 0, 1)
    assert len(list(tmp_path.glob("*.cells"))) <= 2
    server.metrics.forked()


def test_two_servers_of_one_process_may_meet_in_one_folder(tmp_path: Path) -> None:
    one, two = Server("one"), Server("two")
    for server, by in ((one, 1), (two, 2)):
        server.metrics.join(str(tmp_path))
        server.metrics.count("dovetail_client_workarounds_total", "a", by=by)
    assert read(one)[0] == read(two)[0] == 3
    two.metrics.forked()  # it does not use that folder again until the metrics are read
    assert read(two)[0] == 3


FORKING = """
import os, sys
from dovetail import Server
server = Server("x")
server.metrics.join(sys.argv[1])
server.metrics.count("dovetail_client_workarounds_total", "a")
if os.fork() == 0:
    server.metrics.count("dovetail_client_workarounds_total", "a", by=10)
    server.metrics.refresh()
    server.metrics.count("dovetail_client_workarounds_total", "a", by=100)
    sys.exit(0)
os.wait()
print(server.metrics.read("dovetail_client_workarounds_total"), server.metrics.read("dovetail_workers"))
"""


def test_a_fork_counts_for_itself(tmp_path: Path) -> None:
    """What it has counted before it meets the others is its own; nothing is counted twice."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path)],
        capture_output=True,
        timeout=HANG,
        check=True,
    )
    assert done.stdout == b"101.0 1.0\n", done


def test_a_folder_that_cannot_be_used_costs_only_the_sum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    server = Server("x")
    server.metrics.join(str(tmp_path / "file"))
    server.metrics.count("dovetail_client_workarounds_total", "a")
    assert server.metrics.read("dovetail_client_workarounds_total") == 1
    assert "metrics are not shared" in caplog.text


def test_a_half_written_line_is_left_for_the_next_time(tmp_path: Path) -> None:
    process = Process(tmp_path, 5)
    (table,) = tmp_path.glob("*.cells")
    with table.open("ab") as file:
        file.write(b'["dovetail_client_workarounds_total",["half"')
    own = enter(str(tmp_path))
    assert [
        one.values for one in gather(str(tmp_path)) if one.family == "dovetail_client_workarounds_total"
    ] == [[5.0]]
    own.close()
    process.kill()


@run  # which ends it if it waits for ever
async def test_a_process_stopped_while_holding_the_lock_blocks_no_other_process(tmp_path: Path) -> None:
    server = Server("x")
    server.metrics.join(str(tmp_path))
    server.metrics.count("dovetail_client_workarounds_total", "a")
    with (tmp_path / "lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert server.metrics.read("dovetail_client_workarounds_total") == 1
    server.metrics.forked()


def test_the_folder_may_be_named_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of another supervisor share the folder."""
    monkeypatch.setenv("DOVETAIL_METRICS", str(tmp_path))
    process = Process(tmp_path, 5)
    server = Server("x")

    @run
    async def scenario() -> None:
        async with support.served(server) as site:
            found = await scraped(Web(site))
            assert found['dovetail_client_workarounds_total{name="a"}'] == 5
            assert found["dovetail_workers"] == 2

    scenario()
    process.kill()
    wait_until(lambda: server.metrics.read("dovetail_workers") == 1)
    server.metrics.forked()
