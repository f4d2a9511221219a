"""What the sessions of a server do when its store is stopped, cut off, full or slow; real processes, real Redis."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fleet import write
from tests.http.children import ANSWER, NEWEST, Child, child
from tests.http.talk import begin, data, post
from tests.support.aio import run_limited
from tests.support.redis import RedisServer
from tests.support.waiting import found
from tests.support.web import Site, Web, text

pytestmark = pytest.mark.redis


def site(served: Child) -> Site:
    any_site: Any = served
    return any_site


async def ready(served: Child) -> tuple[int, dict[str, Any]]:
    said = await Web(site(served)).ask("GET", {"Accept": "application/json"}, path="/readyz")
    return said.status, json.loads(said.body)


async def until_ready(served: Child, *, well: bool) -> dict[str, Any]:
    """Wait until the server knows how its store is."""

    async def look() -> dict[str, Any] | None:
        status, said = await ready(served)
        return said["components"]["store"] if (status == 200) is well else None

    return await found(look, 40)


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ("kill", "start"),
        # Every attempt to reach it waits for seconds then, and there are four.
        pytest.param("freeze", "thaw", marks=pytest.mark.slow),
    ],
)
def test_an_input_request_outlives_a_redis_that_is_away_for_a_while(
    tmp_path: Path, away: str, back: str
) -> None:
    async def scenario() -> None:
        with RedisServer("--appendfsync", "always") as redis:
            path = write(tmp_path)
            async with (
                child(path, "--port", "0", "--store", redis.url) as one,
                child(path, "--port", "0", "--store", redis.url) as two,
            ):
                assert (await ready(one))[1]["components"]["store"]["ok"] is True
                session, _ = await Web(site(one)).initialize(NEWEST)
                await Web(site(two)).legacy(NEWEST, session, "ping")
                connection, events = await begin(site(one), session, "ask", {"number": 1})
                await anext(events)
                question = await data(events)
                getattr(redis, away)()
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}
                answering = asyncio.create_task(post(site(two), session, answer))
                assert (await until_ready(one, well=False))["ok"] is False
                # Calls that need nothing of the store are served all the same; new sessions are refused with a reason.
                pid = await Web(site(one)).legacy(NEWEST, session, "tools/call", {"name": "pid"})
                assert pid.status == 200
                refused = await Web(site(one)).ask("POST", HEADERS, json.dumps(INITIALIZE).encode())
                assert (refused.status, refused.message["error"]["code"]) == (503, 1009)
                getattr(redis, back)()
                assert (await until_ready(one, well=True))["ok"] is True
                if (await answering).status != 202:  # it got a retryable error
                    assert (await post(site(two), session, answer)).status == 202
                assert text((await data(events))["result"]) == "yes"
                await connection.close()

    run_limited(scenario(), 300)


HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": NEWEST,
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}


def test_a_full_or_slow_redis_is_named_and_served_around(tmp_path: Path) -> None:
    async def scenario() -> None:
        with RedisServer() as redis:
            async with child(write(tmp_path), "--port", "0", "--store", redis.url) as served:
                web = Web(site(served))
                session, _ = await web.initialize(NEWEST)
                redis.ask("CONFIG", "SET", "maxmemory", "1")
                assert (await until_ready(served, well=False))["ok"] is False
                refused = await web.ask("POST", HEADERS, json.dumps(INITIALIZE).encode())
                assert (refused.status, refused.message["error"]["code"]) == (503, 1079)
                subscribed = await web.legacy(
                    NEWEST, session, "resources/subscribe", {"uri": "fleet://stock/x"}
                )
                assert "error" in subscribed.message
                assert (await web.legacy(NEWEST, session, "tools/call", {"name": "pid"})).status == 200
                redis.ask("CONFIG", "SET", "maxmemory", "0")
                assert (await until_ready(served, well=True))["ok"] is True
                redis.ask("CLIENT", "PAUSE", "3000")
                await web.legacy(NEWEST, session, "resources/subscribe", {"uri": "fleet://stock/x"})
                said = (await ready(served))[1]["components"]["store"]
                assert said["ok"] is True
                fresh, _ = await web.initialize(NEWEST)
                assert fresh

    run_limited(scenario(), 300)
