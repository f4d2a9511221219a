"""One client cannot use up the limits that all clients share."""

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from dovetail.settings import Limits
from dovetail.transports.http.server.sse_event_log import ReplayBudget, SseEventLog
from tests.support.aio import run
from tests.support.everything import build
from tests.support.waiting import until
from tests.support.web import (
    BOTH,
    Connection,
    Response,
    Site,
    Web,
    legacy_headers,
    modern,
    modern_headers,
    request,
    served,
)

NEWEST = "2025-11-25"
ADA = {"X-User": "ada"}
EVE = {"X-User": "eve"}


def who(scope: Any) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


async def begin(
    site: Site, method: str, headers: dict[str, str], body: bytes | None = None, path: str = "/mcp"
) -> tuple[Connection, Response]:
    """A request whose answer has begun."""
    connection = await site.connect()
    connection.request(method, path, headers, body)
    return connection, await connection.head()


async def opened(web: Web) -> int:
    """The status a newcomer gets."""
    params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = json.dumps(request("initialize", params)).encode()
    return (await web.ask("POST", legacy_headers(None), body)).status


@run
async def test_busy_downstream_sessions_do_not_hide_an_idle_one() -> None:
    async with served(build(limits=Limits(max_sessions=66))) as site:
        web = Web(site)
        for _ in range(66):
            await web.initialize(NEWEST)
        sessions = list(site.app.session_handler.sessions)
        for entry in sessions[:65]:
            entry.open_streams += 1
        assert [await opened(web) for _ in range(3)] == [200, 200, 200]
        assert list(site.app.session_handler.sessions)[:65] == sessions[:65]
        assert sessions[65] not in list(site.app.session_handler.sessions)
        for entry in sessions[:65]:
            entry.open_streams -= 1


@run
async def test_a_session_makes_room_again_once_its_work_is_done() -> None:
    async with served(build(limits=Limits(max_sessions=2))) as site:
        web, table = Web(site), site.app.session_handler.sessions
        streaming, calling = [(await web.initialize(NEWEST))[0] for _ in range(2)]
        stream, _ = await begin(site, "GET", legacy_headers(NEWEST, streaming))
        wait = request("tools/call", {"name": "wait", "arguments": {"key": "w"}}, id="w")
        call = await site.connect()
        call.request("POST", "/mcp", legacy_headers(NEWEST, calling), json.dumps(wait).encode())
        await until(lambda: all(entry.busy for entry in table))
        assert await opened(web) == 503
        assert await opened(web) == 503
        stop = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}'
        await web.ask("POST", legacy_headers(NEWEST, calling), stop)
        await call.response()
        assert await opened(web) == 200
        assert calling not in [entry.id for entry in table]
        await stream.close()
        await until(lambda: not any(entry.busy for entry in table))
        assert [await opened(web) for _ in range(2)] == [200, 200]
        assert streaming not in [entry.id for entry in table]


@run
async def test_one_principal_gets_half_of_all_listen_streams() -> None:
    async with served(build(limits=Limits(max_streams=4)), principal=who) as site:
        message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        body = json.dumps(message).encode()
        found = [
            (await begin(site, "POST", modern_headers(message) | user, body))[1]
            for user in (ADA, ADA, ADA, EVE, EVE)
        ]
        assert [one.status for one in found] == [200, 200, 503, 200, 200]
        assert int(found[2].headers["retry-after"]) > 0


@run
async def test_one_principal_gets_half_of_all_general_streams() -> None:
    async with served(build(limits=Limits(max_streams=4)), principal=who) as site:
        web = Web(site)
        own = legacy_headers(NEWEST, (await web.initialize(NEWEST, ADA))[0]) | ADA
        other = legacy_headers(NEWEST, (await web.initialize(NEWEST, EVE))[0]) | EVE
        found = [(await begin(site, "GET", headers))[1] for headers in (own, own, own, other)]
        assert [one.status for one in found] == [200, 200, 503, 200]
        _, pair = await begin(site, "GET", {"Accept": BOTH} | ADA, path="/sse")
        assert pair.status == 503


@run
async def test_one_principal_gets_half_of_all_sockets() -> None:
    async with served(build(limits=Limits(max_streams=4)), principal=who) as site:
        url = f"ws://127.0.0.1:{site.port}/mcp"
        async with connect(url, additional_headers=ADA), connect(url, additional_headers=ADA):
            with pytest.raises(InvalidStatus) as caught:
                async with connect(url, additional_headers=ADA):
                    pass
            assert caught.value.response.status_code == 503
            async with connect(url, additional_headers=EVE):
                pass
        await asyncio.sleep(0)


def test_the_largest_log_makes_room_for_the_events_of_others() -> None:
    limits = Limits(max_replay_events=1000)
    budget = ReplayBudget(4000)
    large, small = SseEventLog(limits, budget), SseEventLog(limits, budget)
    for _ in range(60):
        large.general.write(b"x" * 100)
    stream = small.open()
    for number in range(5):
        stream.write(b"%d" % number)
        large.general.write(b"x" * 100)
    found = small.find(f"{stream.name}.0")
    assert found is not None
    assert len(found[1]) == 5
    assert large.general.kept > 20
    assert budget.total <= 4000
    large.close()
    small.close()
    assert budget.total == 0
