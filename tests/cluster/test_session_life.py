"""The life of a legacy session as document 004 draws it: paused and resumed, ended in order, validated while quiet."""

import asyncio
import json
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Server, StateError
from dovetail.core.channel import Session
from dovetail.stores import SqliteStore
from tests.http.talk import NEWEST, data, post, stream
from tests.support.aio import run
from tests.support.process import CLI
from tests.support.waiting import HANG, until, wait_until
from tests.support.web import Site, Web, served, text


def make(path: Path | None = None) -> tuple[Server, list[Session]]:
    server = Server("life", store=None if path is None else SqliteStore(path))
    seen: list[Session] = []

    @server.tool
    async def meet(ctx: Context) -> str:
        assert ctx.session is not None
        seen.append(ctx.session)
        return "met"

    @server.resource("life://x")
    async def x() -> str:
        return "x"

    @server.tool
    async def hello() -> str:
        return "hello"

    return server, seen


@run
async def test_a_paused_session_refuses_requests_until_it_is_resumed() -> None:
    server, seen = make()
    async with Client(server, revision=NEWEST) as client:
        await client.call_tool("meet")
        (session,) = seen
        await session.pause()
        refused = await raises(client.call_tool("hello"))
        assert refused.code == 1008
        await client.ping()
        with pytest.raises(StateError, match="does not allow 'pause'"):
            await session.pause()
        await session.resume()
        assert (await client.call_tool("hello")).text == "hello"
        with pytest.raises(StateError, match="does not allow 'resume'"):
            await session.resume()


@run
async def test_requests_may_wait_for_a_paused_session_so_many_and_no_more() -> None:
    server, seen = make()
    async with Client(server, revision=NEWEST) as client:
        await client.call_tool("meet")
        (session,) = seen
        await session.pause(queue=2)
        calls = [asyncio.create_task(client.call_tool("hello")) for _ in range(2)]
        await until(lambda: len(session.waiting or ()) == 2)
        assert (await raises(client.call_tool("hello"))).code == 1008
        assert not any(call.done() for call in calls)
        await session.resume()
        assert [(await call).text for call in calls] == ["hello", "hello"]


async def raises(call: Any) -> Any:
    with pytest.raises(DovetailError) as caught:
        await call
    return caught.value


@run
async def test_a_session_that_one_process_pauses_is_paused_in_all_also_after_a_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    (one, seen), (two, others) = make(path), make(path)
    hello = {"name": "hello"}
    async with served(one) as first, served(two) as second:
        session, _ = await Web(first).initialize(NEWEST)
        for site in (first, second):
            await Web(site).legacy(NEWEST, session, "tools/call", {"name": "meet"})
        await seen[0].pause()
        await until(lambda: others[0].phase == "paused")
        refused = await Web(second).legacy(NEWEST, session, "tools/call", hello)
        assert refused.message["error"]["code"] == 1008
    three, latest = make(path)
    async with served(three) as third:
        refused = await Web(third).legacy(NEWEST, session, "tools/call", hello)
        assert refused.message["error"]["code"] == 1008
        assert not latest


@run
async def test_a_call_that_waits_in_one_process_goes_on_when_another_resumes_the_session(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    (one, seen), (two, others) = make(path), make(path)
    async with served(one) as first, served(two) as second:
        session, _ = await Web(first).initialize(NEWEST)
        for site in (first, second):
            await Web(site).legacy(NEWEST, session, "tools/call", {"name": "meet"})
        await seen[0].pause(queue=1)
        await until(lambda: others[0].phase == "paused")
        waiting = asyncio.create_task(Web(second).legacy(NEWEST, session, "tools/call", {"name": "hello"}))
        await until(lambda: others[0].waiting)
        await seen[0].resume()
        assert text((await waiting).message["result"]) == "hello"


@run
async def test_a_server_receives_roots_list_changed() -> None:
    server, _ = make()
    heard: list[Session] = []

    @server.subscriptions.on_roots_changed
    async def changed(session: Session) -> None:
        heard.append(session)
        raise RuntimeError("logged, and nothing else")

    async with Client(server, revision=NEWEST, on_roots=list) as client:
        await client.notify_roots_changed()
        await until(lambda: heard)
        assert heard[0].revision.name == NEWEST
        assert (await client.call_tool("hello")).text == "hello"


@run
async def test_a_server_ends_in_order_and_keeps_its_sessions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, _ = make(tmp_path / "s.db")
    begun, go_on = asyncio.Event(), asyncio.Event()

    @server.tool
    async def work() -> str:
        begun.set()
        await go_on.wait()
        await server.notify_resource_updated("life://x")
        return "done"

    caplog.set_level(logging.DEBUG, "dovetail.http")
    async with served(server) as site:
        session, _ = await Web(site).initialize(NEWEST)
        await Web(site).legacy(NEWEST, session, "resources/subscribe", {"uri": "life://x"})
        _, events = await stream(site, session)
        await anext(events)
        calling = asyncio.create_task(Web(site).legacy(NEWEST, session, "tools/call", {"name": "work"}))
        await begun.wait()
        site.end()
        await until(lambda: "draining calls=1" in caplog.text)
        go_on.set()
        # Subscriptions end first, calls finish, then connections are closed in order.
        assert text((await calling).message["result"]) == "done"
        assert [json.loads(event.data) async for event in events if event.data] == []
    said = [record.message for record in caplog.records if record.name == "dovetail.http"]
    assert said == ["draining calls=1", "drained, closing connections", "sessions stored"]
    again, _ = make(tmp_path / "s.db")
    async with served(again) as site:
        connection, events = await stream(site, session)
        await anext(events)
        told = [await data(events) for _ in range(3)]
        assert {"uri": "life://x"} in [message.get("params") for message in told]
        await connection.close()


@run
async def test_an_idle_client_gets_a_ping_and_loses_its_stream_without_a_response() -> None:
    server, _ = make()
    clock = FakeTime()
    server.dispatcher.clock = clock.time
    async with served(server, session_ping_interval=300, sse_ping_interval=0.05) as site:
        session, _ = await Web(site).initialize(NEWEST)
        connection, events = await stream(site, session)
        await anext(events)
        clock.now += 301
        question = await data(events)
        assert question["method"] == "ping"
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {}}
        assert (await post(site, session, answer)).status == 202
        clock.now += 301
        assert (await data(events))["method"] == "ping"
        refusal = {"jsonrpc": "2.0", "id": question["id"] + 1, "error": {"code": -32603, "message": "sick"}}
        assert (await post(site, session, refusal)).status == 202
        assert [event async for event in events if event.data] == []
        assert (await Web(site).legacy(NEWEST, session, "ping")).status == 200
        await connection.close()


@run
async def test_an_unused_session_ends_after_initialize() -> None:
    server, _ = make()
    clock = FakeTime()
    server.dispatcher.clock = clock.time
    async with served(server, sse_ping_interval=0.05) as site:
        session, _ = await Web(site).initialize(NEWEST)
        forgotten = (await post(site, None, INITIALIZE)).headers["mcp-session-id"]
        clock.now += 29
        await until_swept(site)
        assert len(site.app.session_handler.sessions) == 2
        clock.now += 2
        await until(lambda: len(site.app.session_handler.sessions) == 1)
        assert (await Web(site).legacy(NEWEST, forgotten, "ping")).status == 404
        assert (await Web(site).legacy(NEWEST, session, "ping")).status == 200


async def until_swept(site: Site) -> None:
    """Two rounds of the app's clock have passed."""
    begun = asyncio.get_running_loop().time()
    await until(lambda: asyncio.get_running_loop().time() - begun > 0.15)


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


class FakeTime:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


def test_a_process_that_ends_abnormally_leaves_a_report_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    folder = tmp_path / "crashes"
    secret = "Bearer abcdefghijklmnopqrstuvwxyz"
    environment = {**os.environ, "DOVETAIL_CRASH_DIR": str(folder), "SECRET": secret}
    for _ in range(2):
        ended = subprocess.run(
            [*CLI, "run", str(path), "--tcp", "127.0.0.1:0"],
            env=environment, capture_output=True, text=True, timeout=HANG, check=False,
        )  # fmt: skip
        assert ended.returncode != 0
        assert "server crashed: RuntimeError" in ended.stderr
    (report, *_) = sorted(folder.iterdir())
    assert str(report) in ended.stderr or len(list(folder.iterdir())) == 2
    assert report.stat().st_mode & 0o777 == 0o600
    found = json.loads(report.read_text())
    assert found["errors"][0]["type"] == "builtins.RuntimeError"
    assert found["errors"][0]["message"] == "no database for [masked]"
    assert any("broken.py" in frame for frame in found["errors"][0]["frames"])
    assert secret not in report.read_text()


def test_a_worker_that_ends_abnormally_leaves_a_report_too(tmp_path: Path) -> None:
    path, folder = tmp_path / "broken.py", tmp_path / "crashes"
    path.write_text(BROKEN)
    secret = "Bearer abcdefghijklmnopqrstuvwxyz"
    process = subprocess.Popen(
        [*CLI, "run", str(path), "--http", "--port", "0", "--workers", "2"],
        env={**os.environ, "DOVETAIL_CRASH_DIR": str(folder), "SECRET": secret},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            lambda: folder.exists() and any(file.read_text().endswith("}") for file in folder.iterdir())
        )
    finally:
        process.terminate()
        process.wait(HANG)
    for report in folder.iterdir():
        if not report.stat().st_size:
            continue  # the other one was ended meanwhile
        assert int(report.stem.rpartition("-")[2]) != process.pid, "one of the workers wrote it"
        assert report.stat().st_mode & 0o777 == 0o600
        assert json.loads(report.read_text())["errors"][0]["message"] == "no database for [masked]"
        assert secret not in report.read_text()


BROKEN = """
import os
from contextlib import asynccontextmanager
from dovetail import Server

@asynccontextmanager
async def lifespan(server):
    raise RuntimeError(f"no database for {os.environ['SECRET']}")
    yield

server = Server("broken", lifespan=lifespan)
"""
