"""Shutdown: requests in flight finish or are cancelled in time."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from dovetail import Server
from tests.http.children import NEWEST, ask_for, child, stuck
from tests.support.aio import run
from tests.support.everything import build
from tests.support.schemas import validate
from tests.support.waiting import until
from tests.support.web import Connection, Web, legacy_headers, modern, modern_headers, request, served, text


def test_sigterm_with_open_streams_and_running_tools(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0") as served:
            web = Web(served)  # type: ignore[arg-type]
            session, _ = await web.initialize(NEWEST)
            streams: list[tuple[str, Connection]] = []
            for number in range(50):
                connection = await served.connect()
                if number % 2:
                    connection.request("GET", "/mcp", legacy_headers(NEWEST, session))
                    kind = "get"
                else:
                    kind = "listen"
                    message = modern(
                        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=number
                    )
                    connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
                assert (await connection.head()).status == 200
                streams.append((kind, connection))
            calls: list[Connection] = []
            for number in range(10):
                connection = await served.connect()
                params = {"name": "nap", "arguments": {"seconds": 1.0}}
                message = request("tools/call", params) if number % 2 else modern("tools/call", params)
                headers = legacy_headers(NEWEST, session) if number % 2 else modern_headers(message)
                connection.request("POST", "/mcp", headers, json.dumps(message).encode())
                calls.append(connection)
            await web.modern("tools/list")  # whatever was sent before this has been read
            served.process.send_signal(signal.SIGTERM)
            for connection in calls:
                found = await connection.response()
                validate(found.body, NEWEST if "resultType" not in str(found.body) else "2026-07-28")
                assert text(found.message["result"]) == "rested"
            for number, (kind, connection) in enumerate(streams):
                events = [
                    event async for event in connection.events() if event.data
                ]  # to a proper last chunk
                if kind == "listen":
                    last = json.loads(events[-1].data)  # type: ignore[arg-type]
                    assert last["id"] == number
                    validate(last, "2026-07-28", method="subscriptions/listen")
            assert await served.ended() == 0
            assert "ERROR" not in served.said
            assert "Traceback" not in served.said

    scenario()


def test_calls_that_outlast_the_drain_get_an_error() -> None:
    @run
    async def scenario() -> None:
        server = Server("patient")

        @server.tool
        async def nap() -> str:
            await asyncio.Event().wait()
            return ""

        async with served(server, shutdown_grace_period=0.05) as site:
            web = Web(site)
            session, _ = await web.initialize(NEWEST)
            calls = [
                asyncio.create_task(web.modern("tools/call", {"name": "nap"})),
                asyncio.create_task(web.legacy(NEWEST, session, "tools/call", {"name": "nap"})),
            ]
            await until(lambda: len(site.app.state.running) == 2)
            site.end()
            answers = await asyncio.gather(*calls)
            for found in answers:
                assert "shutting down" in found.message["error"]["message"]
            assert [found.status for found in answers] == [503, 200]
            assert answers[0].headers["retry-after"] == "1"

    scenario()


def test_while_draining_new_requests_get_503_and_readiness_is_off() -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            web = Web(site)
            site.app.state.draining = True
            found = await web.modern("tools/list")
            assert found.status == 503
            assert found.headers["retry-after"] == "1"
            assert (await web.ask("GET", {}, path="/readyz")).status == 503
            assert (await web.ask("GET", {}, path="/livez")).status == 200
            site.app.state.draining = False

    scenario()


@run
async def test_a_body_that_arrives_after_the_drain_began_is_not_served() -> None:
    called: list[str] = []
    server = Server("late")

    @server.tool
    async def note() -> str:
        called.append("note")
        return ""

    async with served(server) as site:
        session, _ = await Web(site).initialize(NEWEST)
        message = modern("tools/call", {"name": "note"})
        plain = request("tools/call", {"name": "note"})
        posts = [
            (modern_headers(message), json.dumps(message).encode()),
            (legacy_headers(NEWEST, session), json.dumps(plain).encode()),
        ]
        connections = [await site.connect() for _ in posts]
        for connection, (headers, body) in zip(connections, posts, strict=True):
            connection.request(
                "POST", "/mcp", headers | {"Content-Length": str(len(body)), "Expect": "100-continue"}
            )
            assert (await connection.head()).status == 100  # the body is awaited
        site.app.state.draining = True
        for connection, (_, body) in zip(connections, posts, strict=True):
            connection.send(body)
            found = await connection.response()
            assert (found.status, found.headers["retry-after"]) == (503, "1")
        site.app.state.draining = False
        assert not called


def test_sigint_ends_soon_with_130(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0") as served:
            connection = await served.connect()
            message = modern("tools/call", {"name": "nap", "arguments": {"seconds": 60}})
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
            await Web(served).modern("tools/list")  # type: ignore[arg-type]
            served.process.send_signal(signal.SIGINT)
            assert b"shutting down" in (await connection.response()).body
            assert await served.ended(5) == 130
            assert "Traceback" not in served.said

    scenario()


def test_a_handler_that_does_not_give_in_holds_nothing_up(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0") as served:
            connection = await served.connect()
            message = modern("tools/call", {"name": "stubborn"})
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
            await Web(served).modern("tools/list")  # type: ignore[arg-type]
            served.process.send_signal(signal.SIGINT)
            assert await served.ended(6) == 130

    scenario()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_does_not_wait_for_the_threads_of_the_author(tmp_path: Path, workers: str) -> None:
    @run
    async def scenario() -> None:
        async with stuck(tmp_path, workers) as served:
            connection = await ask_for(served, "in_a_thread")
            await served.says("blocking")
            served.process.send_signal(signal.SIGTERM)
            assert b"shutting down" in (await connection.response()).body
            assert await served.ended(10) == 0
            assert "Traceback" not in served.said

    scenario()


def test_an_unfinished_task_does_not_disturb_shutdown(tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        async with stuck(tmp_path, "1") as served:
            connection = await ask_for(served, "leave_a_task")
            assert b"left" in (await connection.response()).body
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended(10) == 0

    scenario()


@pytest.mark.parametrize(
    ("tool", "workers"), [("in_the_loop", "1"), ("in_the_loop", "2"), ("in_foreign_code", "2")]
)
def test_sigterm_ends_a_process_whose_loop_is_blocked(tmp_path: Path, tool: str, workers: str) -> None:
    @run
    async def scenario() -> None:
        async with stuck(tmp_path, workers) as served:
            await ask_for(served, tool)
            await served.says("blocking")
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended(10) == (128 + signal.SIGTERM if workers == "1" else 0)

    scenario()
