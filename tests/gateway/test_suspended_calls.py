"""A call of a legacy upstream is suspended in one process, and its modern client continues in another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.gateway import Proxy
from dovetail.stores import SqliteStore
from tests.gateway.behind import Day
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import Response, Web, messages, served, text

ended: list[str] = []


def asking() -> Server:
    server = Server("asking", "1")

    @server.tool
    async def trip(ctx: Context) -> str:
        """When?"""
        try:
            leave: Any = await ctx.elicit("leave?", Day)
            await ctx.report_progress(1, 2, "half")
            back: Any = await ctx.elicit("return?", Day)
            return f"{leave.data.day} to {back.data.day}"
        finally:
            ended.append("trip")

    @server.tool
    async def wait(ctx: Context) -> str:
        """For nothing."""
        try:
            await ctx.elicit("leave?", Day)
            started.set()
            await asyncio.Event().wait()
            return ""
        finally:
            ended.append("wait")

    return server


started = asyncio.Event()


@asynccontextmanager
async def two(path: Path, *, mounted: bool = False) -> AsyncIterator[list[Web]]:
    """Two proxies of one server, as two processes with one store have them."""
    fronts: list[Server] = []
    for _ in range(2):
        front: Server = Proxy(asking(), revision="2025-06-18")
        if mounted:
            parent = Server("parent", "1")
            parent.mount(front, prefix="old")
            front = parent
        front.lifecycle.use_store(SqliteStore(path / "store.db"), keep_keys=True)
        fronts.append(front)
    ended.clear()
    async with served(fronts[0]) as first, served(fronts[1]) as second:
        yield [Web(first), Web(second)]


async def call(web: Web, name: str, asked: Any = None, day: str = "", meta: Any = None) -> Response:
    params: dict[str, Any] = {"name": name, "arguments": {}}
    if asked is not None:
        answer = {"action": "accept", "content": {"day": day}}
        params["inputResponses"] = dict.fromkeys(asked["inputRequests"], answer)
        params["requestState"] = asked["requestState"]
    return await web.modern("tools/call", params, meta=meta)


@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_the_answers_reach_the_process_that_holds_the_call(tmp_path: Path, mounted: bool) -> None:
    name = "old_trip" if mounted else "trip"
    async with two(tmp_path, mounted=mounted) as (here, there):
        leave = (await call(here, name)).message["result"]
        back = (await call(there, name, leave, "monday")).message["result"]
        assert [one["params"]["message"] for one in back["inputRequests"].values()] == ["return?"]
        assert text((await call(there, name, back, "friday")).message["result"]) == "monday to friday"
    assert ended == ["trip"]


@run
async def test_notifications_during_a_move_reach_the_client_on_its_new_process(tmp_path: Path) -> None:
    async with two(tmp_path) as (here, there):
        leave = (await call(here, "trip", meta={"progressToken": 1})).message["result"]
        said = await call(there, "trip", leave, "monday", {"progressToken": "two"})
        told, asked = messages(said.body)
        assert told["params"] == {"progressToken": "two", "progress": 1, "total": 2, "message": "half"}
        assert asked["result"]["resultType"] == "input_required"


@run
async def test_cancelling_on_another_worker_ends_the_upstream_call(tmp_path: Path) -> None:
    started.clear()
    async with two(tmp_path) as (here, there):
        asked = (await call(here, "wait")).message["result"]
        waiting = asyncio.create_task(call(there, "wait", asked, "monday"))
        await started.wait()
        waiting.cancel()
        await until(lambda: ended == ["wait"])


@run
async def test_a_call_that_is_over_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two(tmp_path) as (here, there):
        leave = (await call(here, "trip")).message["result"]
        back = (await call(there, "trip", leave, "monday")).message["result"]
        await call(here, "trip", back, "friday")
        monkeypatch.setattr("dovetail.gateway.suspended_calls.WORKER_RESPONSE_TIMEOUT", 0.01)
        late = (await call(there, "trip", back, "friday")).message["error"]
        assert "start the call again" in late["message"]
    assert ended == ["trip"]


@pytest.mark.parametrize("elsewhere", [False, True])
@run
async def test_a_client_that_can_no_longer_answer_ends_the_upstream_call(
    tmp_path: Path, elsewhere: bool
) -> None:
    async with two(tmp_path) as (here, there):
        asked = (await call(here, "trip")).message["result"]
        nothing = {"io.modelcontextprotocol/clientCapabilities": {}}
        refused = await call(there if elsewhere else here, "trip", asked, "monday", nothing)
        assert refused.message["error"]["data"]["kind"] == "missing_required_client_capability"
        await until(lambda: ended == ["trip"])
