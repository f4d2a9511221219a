"""Sessions with event streams or sessions switched off, or with several processes."""

import json
from pathlib import Path
from typing import Any

from dovetail.settings import HttpOptions
from dovetail.transports.http.server.app import HttpApp
from dovetail.transports.http.server.asgi import AsgiApp
from dovetail.transports.http.server.ended_sessions import EndedSessions
from tests.http.talk import NEWEST, SESSIONS, SHOUT
from tests.support.aio import run
from tests.support.everything import build
from tests.support.web import (
    Web,
    legacy_headers,
    messages,
    request,
    served,
    text,
)


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
        assert (await web.legacy(NEWEST, "some-id", "ping")).status == 200
        assert len(site.app.session_handler.sessions) == 0


@run
async def test_stateless_serves_only_the_revisions_it_has() -> None:
    async with served(build(revisions=[NEWEST, "2026-07-28"]), stateless=True) as site:
        web = Web(site)
        found = await web.ask("POST", legacy_headers(None), json.dumps(request("ping")).encode())
        assert (found.status, found.message["error"]["code"]) == (400, -32022)
        assert (await web.legacy(NEWEST, None, "ping")).status == 200


def test_processes_with_the_same_keys_serve_each_others_sessions_and_are_notified_of_their_end(
    tmp_path: Path,
) -> None:
    @run
    async def scenario() -> None:
        server = build()
        one, two = (
            AsgiApp(HttpApp(server.dispatcher, HttpOptions(), EndedSessions(str(tmp_path)))) for _ in range(2)
        )

        async def post(
            app: AsgiApp, message: Any, session: str | None, method: str = "POST"
        ) -> tuple[int, bytes, Any]:
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": json.dumps(message).encode()}

            async def send(message: Any) -> None:
                sent.append(message)

            headers = {**legacy_headers(NEWEST, session), "Host": "localhost"}
            raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            scope = {
                "type": "http",
                "method": method,
                "path": "/mcp",
                "headers": raw,
                "server": ("127.0.0.1", 1),
            }
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
        assert (await post(two, {}, session, "DELETE"))[0] == 204
        for number in range(100):  # forty thousand are ended in test_workers.py
            _, _, headers = await post((one, two)[number % 2], request("initialize", params), None)
            other = headers[b"mcp-session-id"].decode()
            assert (await post(one, {}, other, "DELETE"))[0] == 204
        for app in (one, two):
            for id in (session, other):
                assert (await post(app, request("ping"), id))[0] == 404

    scenario()
