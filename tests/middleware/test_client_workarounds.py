"""Clients that break a rule in a known way: refused as ever, and served where the table of workarounds is on."""

import json
from typing import Any

import pytest

from dovetail import Server
from dovetail.middleware import ClientWorkarounds
from dovetail.middleware.client_workarounds import WORKAROUNDS, workarounds_of
from tests.support.aio import run
from tests.support.web import Site, served


def shop(*middleware: Any, **options: Any) -> Server:
    server = Server("shop", "1", middleware=middleware, **options)

    @server.tool
    async def price() -> str:
        """A price."""
        return "3"

    return server


async def post(site: Site, method: str, session: str | None = None, **headers: str) -> tuple[int, str | None]:
    params: dict[str, Any] = {}
    if method == "initialize":
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    lines = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    if session is not None:
        lines["Mcp-Session-Id"] = session
    async with await site.connect() as connection:
        connection.request("POST", "/mcp", lines, json.dumps(message).encode())
        answer = await connection.head()
        return answer.status, answer.headers.get("mcp-session-id")


async def broken(site: Site) -> dict[str, int]:
    """Break every rule of the table once; the statuses."""
    _, session = await post(site, "initialize")
    return {
        "accept-without-events": (await post(site, "initialize", Accept="application/json"))[0],
        "accept-without-json": (await post(site, "initialize", Accept="text/event-stream"))[0],
        "version-not-negotiated": (
            await post(site, "tools/list", session, MCP_Protocol_Version="2025-11-25")
        )[0],
        "modern-header-on-legacy": (await post(site, "initialize", MCP_Protocol_Version="2026-07-28"))[0],
    }


@run
async def test_every_rule_is_bent_by_default() -> None:
    server = shop()
    assert [use.on for use in workarounds_of(server)] == [True] * len(WORKAROUNDS)
    async with served(server) as site:
        found = await broken(site)
    assert [status for status in found.values() if status >= 400] == []
    assert [use.count for use in workarounds_of(server)] == [1] * len(WORKAROUNDS)
    assert not any(use.on for use in workarounds_of(Server("strict", strict=True)))


@run
async def test_every_rule_holds_without_them() -> None:
    server = shop(client_workarounds=False)
    async with served(server) as site:
        found = await broken(site)
        assert list(found) == [workaround.name for workaround in WORKAROUNDS]
        assert [status for status in found.values() if status < 400] == []
    assert [use.on for use in workarounds_of(server)] == [False] * len(WORKAROUNDS)


@run
async def test_every_rule_is_bent_with_it_and_counted() -> None:
    server = shop(ClientWorkarounds())
    metrics = server.metrics
    async with served(server) as site:
        for times in (1, 2):
            assert set((await broken(site)).values()) == {200}
            assert [(use.on, use.count) for use in workarounds_of(server)] == [(True, times)] * len(
                WORKAROUNDS
            )
        counted = {
            name: metrics.read("dovetail_client_workarounds_total", name=name) for name in found_names()
        }
        assert counted == dict.fromkeys(found_names(), 2.0)


def found_names() -> list[str]:
    return [workaround.name for workaround in WORKAROUNDS]


@pytest.mark.parametrize("name", found_names())
@run
async def test_each_is_turned_on_and_off_by_its_name(name: str) -> None:
    others = set(found_names()) - {name}
    for middleware, wanted in (
        (ClientWorkarounds(name), {name}),
        (ClientWorkarounds(exclude=[name]), others),
    ):
        async with served(shop(middleware)) as site:
            found = await broken(site)
            assert {each for each, status in found.items() if status == 200} == wanted


@run
async def test_a_session_goes_on_under_a_header_that_knows_no_sessions() -> None:
    async with served(shop(ClientWorkarounds())) as site:
        status, session = await post(site, "initialize", MCP_Protocol_Version="2026-07-28")
        assert (status, session is not None) == (200, True)
        for version in ("2026-07-28", "2030-01-01"):
            assert (await post(site, "tools/list", session, MCP_Protocol_Version=version))[0] == 200
        # Messages of another revision, or without a session, are checked as before.
        assert (await post(site, "tools/list", None, MCP_Protocol_Version="2026-07-28"))[0] == 400
        assert (await post(site, "tools/list", "no session", MCP_Protocol_Version="2026-07-28"))[0] == 404
        assert (await post(site, "initialize", Accept="text/plain"))[0] == 406


@run
async def test_a_client_within_the_limits_is_not_counted() -> None:
    server = shop(ClientWorkarounds())
    async with served(server) as site:
        _, session = await post(site, "initialize")
        assert (await post(site, "tools/list", session, MCP_Protocol_Version="2025-06-18"))[0] == 200
    assert sum(use.count for use in workarounds_of(server)) == 0


def test_an_unknown_workaround_is_refused() -> None:
    with pytest.raises(ValueError, match="accept-without-events"):
        ClientWorkarounds("accept-everything")


def test_every_row_says_what_is_broken_and_by_whom() -> None:
    for workaround in WORKAROUNDS:
        assert workaround.violated_rule
        assert workaround.behavior
        assert workaround.seen_in
