"""Sessions of 2025-03-26 to 2025-11-25: opened, found, limited in number, ended."""

import asyncio
import gc
import json
import weakref
from typing import Any

import pytest

from dovetail import Server
from dovetail.core.channel import Session
from dovetail.settings import Limits
from tests.http.talk import NEWEST, SESSIONS, SHOUT, stream, who
from tests.support.aio import run
from tests.support.everything import build
from tests.support.waiting import HANG
from tests.support.web import (
    Web,
    legacy_headers,
    request,
    served,
    text,
)


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
async def test_another_server_with_the_same_keys_knows_none_of_its_sessions() -> None:
    keys = "k" * 32
    async with served(build(seal_keys=keys)) as one, served(build(seal_keys=keys)) as same:
        session, _ = await Web(one).initialize(NEWEST)
        assert (await Web(same).legacy(NEWEST, session, "ping")).status == 200
        async with served(Server("another", seal_keys=keys)) as other:
            assert (await Web(other).legacy(NEWEST, session, "ping")).status == 404


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
        for id in (foreign, "x", own[:-1], own + "A", "v1.a.b.c", own.swapcase()):
            assert (await web.legacy(NEWEST, id, "tools/list")).status == 404
        assert (await web.legacy(NEWEST, "\xe4" * 40, "tools/list")).status == 404


@run
async def test_a_session_belongs_to_the_caller_that_opened_it() -> None:
    async with served(build(limits=Limits(max_sessions=1)), principal=who) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST, {"X-User": "ada"})
        mine = await web.legacy(NEWEST, session, "ping", headers={"X-User": "ada"})
        assert mine.status == 200
        for other in ({"X-User": "eve"}, {}):
            assert (await web.legacy(NEWEST, session, "ping", headers=other)).status == 404
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session) | other)).status == 404
            assert (await web.ask("GET", legacy_headers(NEWEST, session) | other)).status == 404
        await web.initialize(NEWEST, {"X-User": "bob"})  # the first session is out of memory, not ended
        assert (await web.legacy(NEWEST, session, "ping", headers={"X-User": "eve"})).status == 404
        assert (await web.legacy(NEWEST, session, "ping", headers={"X-User": "ada"})).status == 200


@run
async def test_the_version_header_must_be_the_negotiated_one() -> None:
    async with served(build(client_workarounds=False)) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        assert (await web.legacy("2025-06-18", session, "ping")).status == 400
        assert (await web.legacy("2025-03-26", session, "ping")).status == 200  # sends no header


@run
async def test_initialize_opens_a_new_session_even_with_an_old_session_id() -> None:
    async with served(build()) as site:
        web = Web(site)
        first, _ = await web.initialize(NEWEST)
        second, _ = await web.initialize(NEWEST, {"Mcp-Session-Id": first})
        assert second != first
        assert (await web.legacy(NEWEST, first, "ping")).status == 200


@run
async def test_idle_sessions_leave_memory_and_come_back() -> None:
    now = [1000.0]
    async with served(build(clock=lambda: now[0]), session_idle_timeout=60, session_lifetime=600) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        now[0] += 61
        site.app.session_handler.sessions.reap()
        assert len(site.app.session_handler.sessions) == 0
        found = await web.legacy(NEWEST, session, "tools/call", SHOUT)
        assert text(found.message["result"]) == "HEY"
        now[0] += 601
        site.app.session_handler.sessions.reap()
        expired = await web.legacy(NEWEST, session, "ping")
        assert (expired.status, expired.message["error"]["data"]["kind"]) == (404, "session_expired")
        unknown = await web.legacy(NEWEST, session[:-1], "ping")
        assert (unknown.status, unknown.message["error"]["data"]["kind"]) == (404, "session_not_found")
    async with served(build(clock=lambda: now[0], dialect="erlmcp"), session_lifetime=600) as site:
        web = Web(site)
        params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        body = json.dumps(request("initialize", params)).encode()
        session = (await web.ask("POST", legacy_headers(None), body)).headers["mcp-session-id"]
        site.app.session_handler.sessions.close()
        now[0] += 601
        body = json.dumps(request("ping")).encode()
        expired = await web.ask("POST", legacy_headers(NEWEST, session), body)
        assert json.loads(expired.body)["error"]["code"] == -32057


@run
async def test_a_full_table_makes_room_and_refuses_only_when_all_are_busy() -> None:
    limits = Limits(max_sessions=3, max_sessions_per_principal=2)
    async with served(build(limits=limits), principal=who) as site:
        web = Web(site)
        ids = [(await web.initialize(NEWEST, {"X-User": "ada"}))[0] for _ in range(4)]
        assert len(site.app.session_handler.sessions) == 2  # of one principal
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
        assert len(next(iter(site.app.session_handler.sessions)).session.client_info["name"]) == 200


@run
async def test_ended_and_evicted_sessions_are_freed_without_the_garbage_collector() -> None:
    known: list[weakref.ref[Session]] = []
    server = Server("s", limits=Limits(max_sessions=2))
    server.subscriptions.session_listeners.append(lambda session: known.append(weakref.ref(session)))
    async with served(server) as site:
        web = Web(site)
        gc.disable()
        try:
            for _ in range(4):  # two of them make room
                session, _ = await web.initialize(NEWEST)
                await web.legacy(NEWEST, session, "no/such")
            await web.ask("DELETE", legacy_headers(NEWEST, session))
            await web.legacy(NEWEST, None, "ping")
            assert [ref() is not None for ref in known] == [False, False, True, False]
        finally:
            gc.enable()


@run
async def test_a_session_ends_after_its_lifetime_also_when_it_is_in_use() -> None:
    now = [1000.0]
    async with served(build(clock=lambda: now[0]), session_lifetime=600) as site:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        now[0] += 599
        assert (await web.legacy(NEWEST, session, "ping")).status == 200
        now[0] += 2
        expired = await web.legacy(NEWEST, session, "tools/call", SHOUT)
        assert (expired.status, expired.message["error"]["data"]["kind"]) == (404, "session_expired")
        assert len(site.app.session_handler.sessions) == 0
        again = await web.legacy(NEWEST, session, "ping")
        assert (again.status, again.message["error"]["data"]["kind"]) == (404, "session_expired")


@run
async def test_the_streams_of_an_expired_session_are_closed() -> None:
    now = [1000.0]
    async with served(build(clock=lambda: now[0]), session_lifetime=600) as site, await site.connect() as one:
        session, _ = await Web(site).initialize(NEWEST)
        one.request("GET", "/mcp", {**legacy_headers(NEWEST, session), "Accept": "text/event-stream"})
        assert (await one.head()).status == 200
        now[0] += 601
        site.app.session_handler.sessions.reap()
        assert len(site.app.session_handler.sessions) == 0
        async with asyncio.timeout(HANG):
            await one.reader.readuntil(b"0\r\n\r\n")
