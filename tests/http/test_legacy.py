"""Sessions, streams and questions of 2025-03-26 to 2025-11-25."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.settings import Limits
from dovetail.transports.http.app import HttpApp
from tests.support.aio import run
from tests.support.everything import build
from tests.support.schemas import validate
from tests.support.web import (
    Connection,
    Site,
    Web,
    legacy_headers,
    messages,
    request,
    served,
    text,
    until,
)

NEWEST = "2025-11-25"
SESSIONS = ("2025-03-26", "2025-06-18", NEWEST)
SHOUT = {"name": "shout", "arguments": {"words": "hey"}}


def who(scope: Any) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


async def stream(site: Site, session: str, **headers: str) -> tuple[Connection, Any]:
    """An open GET stream whose head has arrived, and its events."""
    connection = await site.connect()
    connection.request("GET", "/mcp", legacy_headers(NEWEST, session) | headers)
    head = await connection.head()
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
    return connection, connection.events()


async def data(events: Any) -> dict[str, Any]:
    """The next message of a stream; events without one are passed over."""
    async for event in events:
        if event.data is not None:
            message = json.loads(event.data)
            validate(message, NEWEST)
            return message
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize("revision", SESSIONS)
def test_a_session_from_initialize_to_delete(revision: str) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            web = Web(site)
            session, result = await web.initialize(revision)
            assert result["protocolVersion"] == revision
            assert all(0x21 <= ord(character) <= 0x7E for character in session)
            found = await web.legacy(revision, session, "tools/call", SHOUT)
            assert text(found.message["result"]) == "HEY"
            assert (await web.ask("DELETE", legacy_headers(revision, session))).status == 204
            gone = await web.legacy(revision, session, "tools/call", SHOUT)
            assert gone.status == 404
            assert (await web.ask("DELETE", legacy_headers(revision, session))).status == 404
            assert (await web.ask("GET", legacy_headers(revision, session))).status == 404

    scenario()


@run
async def test_without_a_session_only_initialize_and_ping_are_answered() -> None:
    async with served(build()) as site:
        web = Web(site)
        assert (await web.legacy(NEWEST, None, "ping")).status == 200
        refused = await web.legacy(NEWEST, None, "tools/list")
        assert refused.status == 400
        assert "initialize" in refused.message["error"]["message"]
        assert (await web.ask("GET", legacy_headers(NEWEST))).status == 400
        assert (await web.ask("DELETE", legacy_headers(NEWEST))).status == 400


@run
async def test_ids_that_were_not_minted_here_are_unknown() -> None:
    async with served(build()) as site, served(build()) as other:
        web = Web(site)
        own, _ = await web.initialize(NEWEST)
        foreign, _ = await Web(other).initialize(NEWEST)
        for id in (foreign, "x", own[:-1], own + "A", "\xe4" * 40, "v1.a.b.c", own.swapcase()):
            assert (await web.legacy(NEWEST, id, "tools/list")).status == 404


@run
async def test_a_session_belongs_to_who_opened_it() -> None:
    async with served(build(), principal=who) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST, {"X-User": "ada"})
        mine = await web.legacy(NEWEST, session, "ping", headers={"X-User": "ada"})
        assert mine.status == 200
        for other in ({"X-User": "eve"}, {}):
            assert (await web.legacy(NEWEST, session, "ping", headers=other)).status == 404
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session) | other)).status == 404
            assert (await web.ask("GET", legacy_headers(NEWEST, session) | other)).status == 404
        site.app.legacy.sessions._forget(next(iter(site.app.legacy.sessions)))  # out of memory, not ended
        assert (await web.legacy(NEWEST, session, "ping", headers={"X-User": "eve"})).status == 404
        assert (await web.legacy(NEWEST, session, "ping", headers={"X-User": "ada"})).status == 200


@run
async def test_the_version_header_must_be_the_negotiated_one() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        assert (await web.legacy("2025-06-18", session, "ping")).status == 400
        assert (await web.legacy("2025-03-26", session, "ping")).status == 200  # sends no header


@run
async def test_initialize_opens_a_new_session_even_beside_an_old_id() -> None:
    async with served(build()) as site:
        web = Web(site)
        first, _ = await web.initialize(NEWEST)
        second, _ = await web.initialize(NEWEST, {"Mcp-Session-Id": first})
        assert second != first
        assert (await web.legacy(NEWEST, first, "ping")).status == 200


@run
async def test_idle_sessions_leave_memory_and_come_back() -> None:
    now = [1000.0]
    async with served(build(clock=lambda: now[0]), session_idle=60, session_lifetime=600) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        now[0] += 61
        site.app.legacy.sessions.reap()
        assert len(site.app.legacy.sessions) == 0
        found = await web.legacy(NEWEST, session, "tools/call", SHOUT)
        assert text(found.message["result"]) == "HEY"
        now[0] += 601
        site.app.legacy.sessions.reap()
        assert (await web.legacy(NEWEST, session, "ping")).status == 404


@run
async def test_a_full_table_makes_room_and_refuses_only_when_all_are_busy() -> None:
    limits = Limits(sessions=3, sessions_per_principal=2)
    async with served(build(limits=limits), principal=who) as site:
        web = Web(site)
        ids = [(await web.initialize(NEWEST, {"X-User": "ada"}))[0] for _ in range(4)]
        assert len(site.app.legacy.sessions) == 2  # of one principal
        for id in ids:
            assert (await web.legacy(NEWEST, id, "ping", headers={"X-User": "ada"})).status == 200
        streams = [await stream(site, id, **{"X-User": "ada"}) for id in ids[:2]]
        params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        body = json.dumps(request("initialize", params)).encode()
        refused = await web.ask("POST", legacy_headers(None) | {"X-User": "ada"}, body)
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) > 0
        assert (await web.legacy(NEWEST, ids[3], "ping", headers={"X-User": "ada"})).status == 503
        await web.initialize(NEWEST, {"X-User": "eve"})  # others are served
        for connection, _ in streams:
            await connection.close()


@run
async def test_a_client_that_declares_too_much_gets_no_session() -> None:
    async with served(build()) as site:
        web = Web(site)
        params: dict[str, Any] = {
            "protocolVersion": NEWEST,
            "capabilities": {"experimental": {"x": {"y": "z" * 10_000}}},
            "clientInfo": {"name": "n" * 100_000, "version": "1"},
        }
        found = await web.legacy(NEWEST, None, "initialize", params)
        assert found.message["error"]["code"] == -32602
        params["capabilities"] = {}
        found = await web.legacy(NEWEST, None, "initialize", params)
        assert len(found.headers["mcp-session-id"]) < 2000
        assert len(next(iter(site.app.legacy.sessions)).session.client_info["name"]) == 200


# --- questions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", NEWEST])
def test_a_question_goes_out_on_the_stream_of_its_own_call(revision: str) -> None:
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
async def test_an_answer_nobody_waits_for_is_400() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        body = b'{"jsonrpc":"2.0","id":77,"result":{}}'
        assert (await web.ask("POST", legacy_headers(NEWEST, session), body)).status == 400


@run
async def test_a_question_without_an_answer_in_time_fails_and_is_withdrawn() -> None:
    async with served(build(), answer_timeout=0.05) as site:
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
        await until(lambda: site.app.life.running)
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
        (entry,) = site.app.legacy.sessions
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
        async with asyncio.timeout(5):
            assert (await second).status == 202


@run
async def test_hanging_up_does_not_cancel_and_delete_does() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connection = await site.connect()
        body = json.dumps(request("tools/call", {"name": "wait", "arguments": {"key": "h"}})).encode()
        connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
        await until(lambda: site.app.life.running)
        (task,) = site.app.life.running
        await connection.close()
        await until(lambda: not site.host.server_state.connections)
        await asyncio.wait({task}, timeout=0.15)
        assert not task.done()
        assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204
        await asyncio.wait({task}, timeout=5)
        assert task.done()


# --- batches --------------------------------------------------------------------------------------------------


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
        await until(lambda: "b" in next(iter(site.app.legacy.sessions)).running)
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}'
        found = await web.ask("POST", headers, cancel)
        assert (found.status, found.body) == (202, b"")
        *notes, last = messages((await posted).body)
        assert len(notes) == 3
        assert [one["id"] for one in last] == ["a"]


# --- streams --------------------------------------------------------------------------------------------------


@run
async def test_a_get_stream_brings_what_belongs_to_no_call_once() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        first, older = await stream(site, session)
        priming = await anext(older)
        assert (priming.data, priming.retry) == (None, 1000)
        assert priming.id
        second, newer = await stream(site, session)
        await web.legacy(NEWEST, session, "tools/call", {"name": "grow", "arguments": {"name": "one"}})
        assert (await data(newer))["method"] == "notifications/tools/list_changed"
        await second.close()
        await until(lambda: len(site.app.life.streams) == 1)
        await web.legacy(NEWEST, session, "tools/call", {"name": "grow", "arguments": {"name": "two"}})
        assert (await data(older))["method"] == "notifications/tools/list_changed"
        await first.close()


@run
async def test_an_interrupted_stream_goes_on_where_it_was() -> None:
    server = build()
    told, go_on = asyncio.Event(), asyncio.Event()

    @server.tool
    async def story(ctx: Context) -> str:
        await ctx.info("one")
        told.set()
        await go_on.wait()
        await ctx.info("two")
        await ctx.info("three")
        return "the end"

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connection = await site.connect()
        body = json.dumps(request("tools/call", {"name": "story"}, id="s")).encode()
        connection.request("POST", "/mcp", legacy_headers(NEWEST, session), body)
        await connection.head()
        events = connection.events()
        priming, one = await anext(events), await anext(events)
        assert priming.data is None
        await connection.close()
        again, live = await stream(site, session, **{"Last-Event-ID": one.id})
        go_on.set()  # resumed before the rest is said: the tail comes live
        assert [(await data(live))["params"]["data"] for _ in range(2)] == ["two", "three"]
        assert text((await data(live))["result"]) == "the end"
        assert [event async for event in live] == []
        await again.close()
        late, replayed = await stream(site, session, **{"Last-Event-ID": priming.id})
        said = [json.loads(event.data) async for event in replayed if event.data]
        assert [one["params"]["data"] for one in said[:-1]] == ["one", "two", "three"]
        assert said[-1]["id"] == "s"
        await late.close()


@run
async def test_close_stream_ends_the_response_and_not_the_call() -> None:
    server = build()

    @server.tool
    async def slow(ctx: Context) -> str:
        await ctx.close_stream()
        return "done"

    async with served(server, retry=7) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        found = await web.legacy(NEWEST, session, "tools/call", {"name": "slow"}, id="x")
        assert found.body.startswith(b"id: ")
        assert b"retry: 7\n" in found.body
        id = found.body.split(b"\n")[0].removeprefix(b"id: ").decode()
        again, events = await stream(site, session, **{"Last-Event-ID": id})
        assert (await data(events))["id"] == "x"
        await again.close()


@run
async def test_ids_of_other_sessions_and_lost_events_are_refused() -> None:
    async with served(build(limits=Limits(events=2))) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        other, _ = await web.initialize(NEWEST)
        call = {"name": "count", "_meta": {"progressToken": 1}}
        found = await web.legacy(NEWEST, session, "tools/call", call)
        ids = [
            line.removeprefix("id: ") for line in found.body.decode().split("\n") if line.startswith("id: ")
        ]
        await web.legacy(NEWEST, other, "tools/call", call)
        assert len(ids) == 5
        for bad in (*ids[:2], "1.1", "x", "", ids[4].replace(".4", ".5"), ids[4][::-1]):
            headers = legacy_headers(NEWEST, session) | {"Last-Event-ID": bad}
            assert (await web.ask("GET", headers)).status == 400, bad
        assert (await web.ask("GET", legacy_headers(NEWEST, other) | {"Last-Event-ID": ids[3]})).status == 400
        found = await web.ask("GET", legacy_headers(NEWEST, session) | {"Last-Event-ID": ids[2]})
        assert [("result" in one) for one in messages(found.body)] == [False, True]


@run
async def test_what_all_sessions_keep_is_bounded() -> None:
    limits = Limits(all_event_bytes=2000)
    async with served(build(limits=limits)) as site:
        web = Web(site)
        for _ in range(8):
            session, _ = await web.initialize(NEWEST)
            call = {"name": "count", "arguments": {"steps": 5}, "_meta": {"progressToken": 1}}
            await web.legacy(NEWEST, session, "tools/call", call)
        ledger = site.app.legacy.sessions.ledger
        assert 0 < ledger.total <= 2000
        site.app.legacy.sessions.close()
        assert ledger.total == 0


@run
async def test_a_session_that_never_listened_keeps_nothing() -> None:
    server = build()
    async with served(server) as site:
        await Web(site).initialize(NEWEST)
        server.add_tool(lambda: "x", name="new")
        (entry,) = site.app.legacy.sessions
        assert entry.log is None


@run
async def test_keep_alive_comments_and_too_many_streams() -> None:
    async with served(build(limits=Limits(streams=2)), keep_alive=0.05) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        connections = [(await stream(site, session))[0] for _ in range(2)]
        refused = await web.ask("GET", legacy_headers(NEWEST, session))
        assert refused.status == 503
        assert "retry-after" in refused.headers
        chunks = [await connections[0].chunk() for _ in range(3)]
        assert chunks[1:] == [b":\n\n", b":\n\n"]
        for connection in connections:
            await connection.close()


@run
async def test_get_needs_a_client_that_reads_events() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        headers = legacy_headers(NEWEST, session) | {"Accept": "application/json"}
        assert (await web.ask("GET", headers)).status == 406


# --- modes ----------------------------------------------------------------------------------------------------


@run
async def test_json_only_never_streams_and_needs_only_json_to_be_accepted() -> None:
    async with served(build(), json_only=True) as site:
        web = Web(site)
        accept = {"Accept": "application/json"}
        session, _ = await web.initialize(NEWEST, accept)
        found = await web.legacy(
            NEWEST, session, "tools/call", {"name": "count", "_meta": {"progressToken": 1}}, headers=accept
        )
        assert text(found.message["result"]) == "counted"
        found = await web.legacy(NEWEST, session, "tools/call", {"name": "think"}, headers=accept)
        assert found.message["result"]["isError"] is True
        found = await web.modern("tools/call", {"name": "count"}, meta={"progressToken": 1})
        assert text(found.message["result"]) == "counted"
        found = await web.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert (found.status, found.message["error"]["code"]) == (404, -32601)
        found = await web.ask("GET", legacy_headers(NEWEST, session))
        assert (found.status, found.headers["allow"]) == (405, "POST, DELETE")
        found = await web.legacy(
            NEWEST, session, "resources/subscribe", {"uri": "notes://static"}, headers=accept
        )
        assert "JSON only" in found.message["error"]["message"]


@run
async def test_stateless_gives_no_session_and_asks_nothing() -> None:
    async with served(build(), stateless=True) as site:
        web = Web(site)
        params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        found = await web.legacy(NEWEST, None, "initialize", params)
        assert "mcp-session-id" not in found.headers
        for revision in SESSIONS:
            found = await web.legacy(revision, None, "tools/call", SHOUT)
            assert text(found.message["result"]) == "HEY"
        found = await web.legacy(NEWEST, None, "tools/call", {"name": "count", "_meta": {"progressToken": 1}})
        assert len(messages(found.body)) == 4
        found = await web.legacy(NEWEST, None, "tools/call", {"name": "think"})
        assert found.message["result"]["isError"] is True
        batch = json.dumps([request("ping", id=1), request("tools/call", SHOUT, id=2)]).encode()
        found = await web.ask("POST", legacy_headers(None), batch)
        assert {one["id"] for one in json.loads(found.body)} == {1, 2}
        ready = await web.ask(
            "POST", legacy_headers(NEWEST), b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        )
        assert ready.status == 202
        assert (await web.ask("GET", legacy_headers(NEWEST))).status == 405
        assert (await web.legacy(NEWEST, "some-id", "ping")).status == 404
        assert len(site.app.legacy.sessions) == 0


@run
async def test_stateless_serves_only_the_revisions_it_has() -> None:
    async with served(build(revisions=[NEWEST, "2026-07-28"]), stateless=True) as site:
        web = Web(site)
        found = await web.ask("POST", legacy_headers(None), json.dumps(request("ping")).encode())
        assert (found.status, found.message["error"]["code"]) == (400, -32022)
        assert (await web.legacy(NEWEST, None, "ping")).status == 200


@run
async def test_workers_serve_each_others_sessions_and_hear_of_their_end() -> None:
    from dovetail.settings import HttpOptions
    from dovetail.transports.http.ended import Board

    board = Board(2)
    server = build()
    one = HttpApp(server, HttpOptions(shared=True), board)
    board_two = Board.__new__(Board)
    board_two.__dict__.update(board.__dict__)
    board_two.take_seat(1)
    two = HttpApp(server, HttpOptions(shared=True), board_two)

    async def post(
        app: HttpApp, message: Any, session: str | None, method: str = "POST"
    ) -> tuple[int, bytes, Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": json.dumps(message).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = {**legacy_headers(NEWEST, session), "Host": "localhost"}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": "/mcp", "headers": raw, "server": ("127.0.0.1", 1)}
        await app(scope, receive, send)
        return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])

    params = {
        "protocolVersion": NEWEST,
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    _, _, headers = await post(one, request("initialize", params), None)
    session = headers[b"mcp-session-id"].decode()
    for app in (two, one, two):
        status, body, _ = await post(app, request("tools/call", SHOUT), session)
        assert (status, b"HEY" in body) == (200, True)
    _, body, _ = await post(two, request("tools/call", {"name": "think"}), session)
    assert b"workers=1" in body
    _, body, _ = await post(two, request("resources/subscribe", {"uri": "notes://static"}), session)
    assert b"several processes" in body
    assert (await post(one, {}, session, "GET"))[0] == 405
    assert (await post(two, {}, session, "DELETE"))[0] == 204
    for app in (one, two):
        assert (await post(app, request("ping"), session))[0] == 404


@run
async def test_the_server_is_the_same_for_a_tool_that_fails_in_the_middle_of_a_stream() -> None:
    server = Server("s")

    @server.tool
    async def half(ctx: Context) -> str:
        await ctx.info("so far")
        raise KeyError("secret")

    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        found = await web.legacy(NEWEST, session, "tools/call", {"name": "half"})
        note, result = messages(found.body)
        assert note["method"] == "notifications/message"
        assert result["result"]["isError"] is True
        assert "secret" not in str(result)
