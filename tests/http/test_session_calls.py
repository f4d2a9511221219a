"""Calls in a session: requests of the server, cancellation, batches."""

import asyncio
import json
from typing import Any

import pytest

from dovetail.settings import Limits
from tests.http.talk import NEWEST, SHOUT, data, post, stream
from tests.support.aio import run
from tests.support.everything import build
from tests.support.schemas import validate
from tests.support.waiting import HANG, until
from tests.support.web import Web, legacy_headers, messages, request, served, text


@pytest.mark.parametrize("revision", ["2025-06-18", NEWEST])
def test_an_input_request_goes_out_on_the_stream_of_its_own_call(revision: str) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            web = Web(site)
            session, _ = await web.initialize(revision)
            general, other = await stream(site, session)
            async with await site.connect() as connection:
                body = json.dumps(request("tools/call", {"name": "seat"}, id="ask")).encode()
                connection.request("POST", "/mcp", legacy_headers(revision, session), body)
                assert (await connection.head()).headers["content-type"] == "text/event-stream"
                events = connection.events()
                question = await data(events)
                assert question["method"] == "elicitation/create"
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
                reply = await web.ask("POST", legacy_headers(revision, session), json.dumps(answer).encode())
                assert (reply.status, reply.body) == (202, b"")
                result = await data(events)
                assert (result["id"], text(result["result"])) == ("ask", "decline")
                assert [event async for event in events] == []
                again = await web.ask("POST", legacy_headers(revision, session), json.dumps(answer).encode())
                assert again.status in (202, 400)
            await general.close()
            del other

    scenario()


@run
async def test_an_unexpected_response_is_400() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        body = b'{"jsonrpc":"2.0","id":77,"result":{}}'
        assert (await web.ask("POST", legacy_headers(NEWEST, session), body)).status == 400


@run
async def test_an_input_request_without_an_answer_in_time_fails_and_is_withdrawn() -> None:
    async with served(build(limits=Limits(client_response_timeout=0.05))) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        found = await web.legacy(NEWEST, session, "tools/call", {"name": "think"})
        question, cancel, result = messages(found.body)
        assert cancel["params"]["requestId"] == question["id"]
        assert result["result"]["isError"] is True


@run
async def test_a_cancelled_call_ends_without_an_answer() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        waiting = asyncio.create_task(
            web.legacy(NEWEST, session, "tools/call", {"name": "wait", "arguments": {"key": "k"}}, id=5)
        )
        await until(lambda: site.app.state.running)
        body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
        assert (await web.ask("POST", legacy_headers(NEWEST, session), body)).status == 202
        found = await waiting
        assert (found.status, found.body) == (202, b"")
        stopped = await web.legacy(
            NEWEST, session, "tools/call", {"name": "was_stopped", "arguments": {"key": "k"}}
        )
        assert text(stopped.message["result"]) == "true"


@run
async def test_a_cancelled_call_that_ends_late_leaves_its_successor_cancellable() -> None:
    server = build()
    release = asyncio.Event()
    left: list[str] = []

    @server.tool
    async def linger() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await release.wait()
            left.append("linger")
        return ""

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
        (entry,) = site.app.session_handler.sessions
        first = asyncio.create_task(web.legacy(NEWEST, session, "tools/call", {"name": "linger"}, id=5))
        await until(lambda: entry.running)
        await web.ask("POST", legacy_headers(NEWEST, session), cancel)
        wait = {"name": "wait", "arguments": {"key": "s"}}
        second = asyncio.create_task(web.legacy(NEWEST, session, "tools/call", wait, id=5))
        await until(lambda: entry.running)
        release.set()
        assert (await first).status == 202
        assert left
        await web.ask("POST", legacy_headers(NEWEST, session), cancel)
        async with asyncio.timeout(HANG):
            assert (await second).status == 202


@run
async def test_cancelled_calls_that_do_not_end_count_as_under_way() -> None:
    server = build(limits=Limits(max_requests_per_connection=2))
    release = asyncio.Event()

    @server.tool
    async def linger() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await release.wait()
        return ""

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        (entry,) = site.app.session_handler.sessions
        lingering: list[asyncio.Task[Any]] = []
        for id in (5, 6):
            call = web.legacy(NEWEST, session, "tools/call", {"name": "linger"}, id=id)
            lingering.append(asyncio.create_task(call))
            await until(lambda: entry.running)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            assert (await post(site, session, note)).status == 202
        refused = await web.legacy(NEWEST, session, "tools/call", SHOUT, id=7)
        assert refused.message["error"]["code"] == 1008
        release.set()
        assert [(await call).status for call in lingering] == [202, 202]
        served_again = await web.legacy(NEWEST, session, "tools/call", SHOUT, id=8)
        assert text(served_again.message["result"]) == "HEY"


@run
async def test_hanging_up_does_not_cancel_and_delete_does() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connection = await site.connect()
        body = json.dumps(request("tools/call", {"name": "wait", "arguments": {"key": "h"}})).encode()
        connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
        await until(lambda: site.app.state.running)
        (task,) = site.app.state.running
        await connection.close()
        await asyncio.wait({task}, timeout=0.15)
        assert not task.done()
        assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204
        await asyncio.wait({task}, timeout=HANG)
        assert task.done()


@run
async def test_a_batch_is_answered_as_one_where_the_revision_has_batches() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-03-26")
        batch = [
            request("tools/call", SHOUT, id="a"),
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            request("ping", id="b"),
            {"jsonrpc": "2.0", "id": "c"},
        ]
        found = await web.ask("POST", legacy_headers("2025-03-26", session), json.dumps(batch).encode())
        answers = json.loads(found.body)
        validate(answers, "2025-03-26")
        assert sorted(str(one.get("id")) for one in answers) == ["a", "b", "c"]
        only = [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]
        found = await web.ask("POST", legacy_headers("2025-03-26", session), json.dumps(only).encode())
        assert (found.status, found.body) == (202, b"")
        newer, _ = await web.initialize(NEWEST)
        found = await web.ask("POST", legacy_headers(NEWEST, newer), json.dumps(batch).encode())
        assert (found.status, found.message["error"]["code"]) == (400, -32600)


@run
async def test_a_batch_that_reports_is_one_stream_and_survives_the_cancelling_of_a_member() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-03-26")
        batch = [
            request("tools/call", {"name": "count", "_meta": {"progressToken": 1}}, id="a"),
            request("tools/call", {"name": "wait", "arguments": {"key": "b"}}, id="b"),
        ]
        headers = legacy_headers("2025-03-26", session)
        posted = asyncio.create_task(web.ask("POST", headers, json.dumps(batch).encode()))
        await until(lambda: "b" in next(iter(site.app.session_handler.sessions)).running)
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}'
        found = await web.ask("POST", headers, cancel)
        assert (found.status, found.body) == (202, b"")
        *notes, last = messages((await posted).body)
        assert len(notes) == 3
        assert [one["id"] for one in last] == ["a"]
