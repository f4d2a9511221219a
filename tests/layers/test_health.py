"""Components that are watched, and the readiness that follows them."""

import asyncio
import json
import threading
from typing import Any

import pytest

from dovetail import Server
from tests.support.aio import run
from tests.support.waiting import until
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
        server.health.add("db", database.check, every=0.01, limit=0.05, failures=3)
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
        go.wait(10)

    server.health.add("disk", check, every=0.01, limit=0.02, failures=1)
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
        server.health.add("db", database.check, every=0.01, failures=1)
        await until(lambda: server.health.status == "degraded")
        server.health.remove("db")
        assert server.health.status == "ready"
        assert server.health.told() == {}


@pytest.mark.parametrize("options", [{"every": 0}, {"limit": 0}, {"failures": 0}])
def test_figures_that_mean_nothing_are_said_at_once(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="looked at"):
        Server("shop").health.add("db", lambda: True, **options)


def test_a_name_is_taken_once() -> None:
    server = Server("shop")
    server.health.add("db", lambda: True)
    with pytest.raises(ValueError, match="already"):
        server.health.add("db", lambda: True)
