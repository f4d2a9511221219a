"""Of the sessions and handles in a store everybody has a share: one caller does not fill it for the others."""

import json
from collections.abc import Mapping
from typing import Any

from dovetail import Context, Handle, Server
from dovetail.settings import Limits
from dovetail.stores import Store
from dovetail.stores.bounds import HANDLES_OWN
from tests.http.talk import NEWEST
from tests.support.aio import run, run_limited
from tests.support.peer import Peer
from tests.support.shared import Shared
from tests.support.web import Response, Web, legacy_headers, request, served

ADA, BOB = {"X-User": "ada"}, {"X-User": "bob"}
OWN = 10
"""Sessions of a principal that are kept where one is the most in memory."""


def named(scope: Mapping[str, Any]) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


def make(store: Store | None = None, **limits: int) -> Server:
    server = Server("shares", store=store, limits=Limits(**limits))

    @server.tool
    async def keep(ctx: Context, count: int = 1) -> list[str]:
        return [await ctx.keep("x") for _ in range(count)]

    @server.tool
    async def release(kept: Handle[str]) -> None:
        await kept.save()
        await kept.release()

    return server


async def initialize(web: Web, who: dict[str, str]) -> Response:
    params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps(request("initialize", params)).encode()
    return await web.ask("POST", legacy_headers(None) | who, body)


def test_a_principal_has_a_share_of_the_sessions_in_a_store(shared: Shared) -> None:
    async def scenario() -> None:
        one, two = (make(shared.store(), sessions=100, sessions_per_principal=1) for _ in range(2))
        async with served(one, principal=named) as first, served(two, principal=named) as second:
            webs = Web(first), Web(second)
            opened = [(await webs[n % 2].initialize(NEWEST, ADA))[0] for n in range(OWN)]
            for web in webs:
                refused = await initialize(web, ADA)
                assert refused.status == 503
                assert refused.message["error"]["code"] == 1079
            assert (await initialize(webs[0], BOB)).status == 200
            # What was kept is still served; one that ends, wherever that is, makes room for one.
            assert (await webs[1].legacy(NEWEST, opened[0], "ping", headers=ADA)).status == 200
            ended = await webs[1].ask("DELETE", legacy_headers(NEWEST, opened[0]) | ADA)
            assert ended.status in (200, 204)
            assert (await initialize(webs[0], ADA)).status == 200
            assert (await initialize(webs[0], ADA)).status == 503

    run_limited(scenario())


def test_an_address_without_a_principal_has_a_share_as_well(shared: Shared) -> None:
    async def scenario() -> None:
        async with served(make(shared.store(), sessions=3), principal=named) as site:
            web = Web(site)
            assert [(await initialize(web, {})).status for _ in range(7)] == [200] * 6 + [503]
            assert (await initialize(web, BOB)).status == 200

    run_limited(scenario())


async def refused(peer: Peer, **arguments: Any) -> int:
    return (await peer.error("tools/call", name="keep", arguments=arguments))["code"]


@run
async def test_a_principal_has_a_share_of_the_handles() -> None:
    server = make()
    ada, bob = Peer(server, principal="ada"), Peer(server, principal="bob")
    kept = await ada.result("tools/call", name="keep", arguments={"count": HANDLES_OWN * 3 // 4})
    handles = kept["structuredContent"]
    assert await refused(ada, count=HANDLES_OWN // 2) == 1079
    await bob.result("tools/call", name="keep", arguments={})
    await Peer(server).result("tools/call", name="keep", arguments={})
    await ada.result("tools/call", name="release", arguments={"kept": handles[0]})
    assert len((await ada.result("tools/call", name="keep", arguments={}))["structuredContent"]) == 1
    assert await refused(ada) == 1079
