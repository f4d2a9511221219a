"""Components that are watched, and the readiness that follows them."""

import asyncio
import gc
import json
import threading
import time
from mmap import mmap
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.middleware.memory_usage import memory
from dovetail.settings import Limits
from dovetail.stores import MemoryStore, StoreUnavailable
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.schemas import REVISIONS
from tests.support.waiting import HANG, turns, until
from tests.support.web import Web, served


class Database:
    """Something a server needs, and the ways it can be away."""

    def __init__(self) -> None:
        self.state = "fine"
        self.looks = 0

    async def check(self) -> Any:
        self.looks += 1
        if self.state == "raises":
            raise ConnectionError("password hunter2 was refused")
        if self.state == "hangs":
            await asyncio.Event().wait()
        return self.state != "false"


async def told(web: Web) -> tuple[int, dict[str, Any]]:
    found = await web.ask("GET", {"Accept": "application/json"}, path="/readyz")
    return found.status, json.loads(found.body)


@pytest.mark.parametrize("failure", ["raises", "false", "hangs"])
def test_readiness_drops_after_so_many_failures_and_comes_back(failure: str) -> None:
    @run
    async def scenario() -> None:
        server, database = Server("shop"), Database()
        server.health.add("db", database.check, interval=0.01, timeout=0.05, failure_threshold=3)
        async with served(server) as site:
            web = Web(site)
            await until(lambda: database.looks > 0)
            status, body = await told(web)
            assert (status, body["status"]) == (200, "ready")
            assert body["components"]["db"]["ok"] is True
            database.state = failure
            await until(lambda: server.health.status == "degraded")
            assert server.health.components["db"].failures >= 3
            status, body = await told(web)
            assert (status, body["status"], body["components"]["db"]["ok"]) == (503, "degraded", False)
            assert "hunter2" not in json.dumps(body)
            plain = await web.ask("GET", {}, path="/readyz")
            assert (plain.status, plain.body) == (503, b"degraded\n")
            assert plain.headers["retry-after"] == "1"
            assert (await web.ask("GET", {}, path="/livez")).status == 200
            database.state = "fine"
            await until(lambda: server.health.status == "ready")
            assert (await told(web))[0] == 200

    scenario()


@run
async def test_a_plain_check_that_hangs_is_not_asked_again_while_it_does() -> None:
    server, go, asked = Server("shop"), threading.Event(), []

    def check() -> None:
        asked.append(1)
        go.wait(HANG)

    server.health.add("disk", check, interval=0.01, timeout=0.02, failure_threshold=1)
    async with server.running():
        await until(lambda: server.health.components["disk"].failures > 3)
        assert len(asked) == 1
        go.set()
        await until(lambda: server.health.status == "ready")


@run
async def test_components_come_and_go_while_the_server_runs() -> None:
    server, database = Server("shop"), Database()
    database.state = "false"
    async with server.running():
        server.health.add("db", database.check, interval=0.01, failure_threshold=1)
        await until(lambda: server.health.status == "degraded")
        server.health.remove("db")
        assert server.health.status == "ready"
        assert "db" not in server.health.describe()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the loop and the memory twenty times a second."""
    monkeypatch.setattr("dovetail.middleware.event_loop_monitor.RESOURCE_CHECK_INTERVAL", 0.05)
    monkeypatch.setattr("dovetail.middleware.event_loop_monitor.LOOP_HEARTBEAT_INTERVAL", 0.02)


def blocking(server: Server) -> None:
    @server.tool(run="inline")
    def grind(seconds: float) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "done"


@run
async def test_a_loop_that_stays_late_drops_readiness_and_then_refuses(quick: None) -> None:
    server = Server("shop", limits=Limits(max_event_loop_lag=0.26))
    blocking(server)
    seen: list[str] = []
    async with server.running():
        for number in range(40):  # on a busy machine a beat may come late itself: longer and longer
            seconds = 0.3 + number / 10
            answer = await Peer(server).send("tools/call", name="grind", arguments={"seconds": seconds})
            if "error" in answer:
                data = {"retryAfterMs": 1000, "kind": "overloaded", "refusal": True}
                assert (answer["error"]["code"], answer["error"]["data"]) == (1078, data)
                seen.append("refused")
                break
            await turns()
            seen.append(server.health.status)
        assert seen[0] == "ready"
        assert seen[-1] == "refused"
        assert "degraded" in seen[:-1]
        assert await Peer(server).ask("tools/list")
        await until(lambda: server.health.status == "ready")  # measured on until all is well again
        assert await Peer(server).text("grind", seconds=0.0) == "done"


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
@run
async def test_memory_near_its_limit_drops_readiness_and_at_its_limit_refuses(
    revision: str, quick: None
) -> None:
    gc.collect()  # garbage of earlier tests must not be freed during the check
    now = memory(1)
    assert now is not None
    limit = int(now.used()) + (256 << 20)
    ballast: list[mmap] = []
    server = Server("shop", limits=Limits(max_memory_bytes=limit))
    blocking(server)

    def fill(part: float) -> None:
        while now.used() < part * limit:
            ballast.append(mmap(-1, 4 << 20))  # it goes back to the system at once
            ballast[-1].write(b"x" * (4 << 20))

    async with server.running():
        await until(lambda: server.health.describe()["memory"]["used"] > 0)
        assert server.health.status == "ready"
        async with asyncio.timeout(HANG):
            while server.health.status != "degraded":  # measured while requests arrive
                fill(0.88)
                await Peer(server, revision).ask("tools/list")
                await turns(1)
        assert await Peer(server, revision).text("grind", seconds=0.0) == "done"
        fill(0.97)
        error = await refused(server, revision)
        assert error["code"] == 1089
        assert error["data"]["retryAfterMs"] == 1000
        ballast.clear()
        await until(lambda: server.health.status == "ready")
        assert await Peer(server, revision).text("grind", seconds=0.0) == "done"


async def refused(server: Server, revision: str) -> dict[str, Any]:
    """The error of the first call that is refused."""
    async with asyncio.timeout(HANG):
        while True:
            answer = await Peer(server, revision).send("tools/call", name="grind", arguments={"seconds": 0})
            if "error" in answer:
                return answer["error"]
            await turns(1)


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_without_what_it_requires_a_server_refuses_after_readiness_has_dropped(revision: str) -> None:
    server, database = Server("shop"), Database()
    blocking(server)
    server.health.add("db", database.check, interval=0.02, failure_threshold=2, required=True)
    server.health.publish()
    async with server.running():
        database.state = "raises"
        await until(lambda: server.health.status == "degraded")
        assert server.health.components["db"].failures < 4
        assert await Peer(server, revision).text("grind", seconds=0.0) == "done"
        await until(lambda: server.health.components["db"].failures >= 4)
        assert (await refused(server, revision))["code"] == 1087
        # What says why is answered all the same.
        shown = await Peer(server, revision).result("resources/read", uri="health://server")
        assert json.loads(shown["contents"][0]["text"])["components"]["db"]["ok"] is False
        database.state = "fine"
        await until(lambda: server.health.status == "ready")
        assert await Peer(server, revision).text("grind", seconds=0.0) == "done"


@run
async def test_a_subscriber_of_the_health_resource_is_notified_of_changes() -> None:
    server, database = Server("shop"), Database()
    server.health.add("db", database.check, interval=0.01, failure_threshold=1)
    server.health.publish()
    heard: list[str] = []
    async with Client(server, on_resource_updated=lambda uri: heard.append(uri)) as client:
        shown = await client.read_resource("health://server")
        assert json.loads(shown.contents[0].text)["status"] == "ready"
        await client.subscribe_resource("health://server")
        database.state = "false"
        await until(lambda: heard == ["health://server"])
        shown = await client.read_resource("health://server")
        assert json.loads(shown.contents[0].text)["status"] == "degraded"


@run
async def test_a_store_is_watched_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.server.server.STORE_PROBE_INTERVAL", 0.01)

    class Away(MemoryStore):
        away = False

        async def put(self, key: str, value: bytes, **options: Any) -> bool:
            if self.away:
                raise StoreUnavailable("it does not answer")
            return await super().put(key, value, **options)

    store = Away()
    server = Server("shop", store=store)
    async with server.running():
        await until(lambda: server.health.components["store"].took is not None)
        assert server.health.status == "ready"
        store.away = True
        await until(lambda: server.health.status == "degraded")
        store.away = False
        await until(lambda: server.health.status == "ready")


@pytest.mark.parametrize("options", [{"interval": 0}, {"timeout": 0}, {"failure_threshold": 0}])
def test_figures_that_mean_nothing_are_said_at_once(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        Server("shop").health.add("db", lambda: True, **options)


def test_a_name_is_taken_once() -> None:
    server = Server("shop")
    server.health.add("db", lambda: True)
    with pytest.raises(ValueError, match="already"):
        server.health.add("db", lambda: True)
