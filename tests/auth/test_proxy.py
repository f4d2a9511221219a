"""A proxy in front of a certified provider, used by our own client: tokens of ours, and never the provider's."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from dovetail import Client
from dovetail.auth import MemoryTokens, OAuth

from .proxied import Proxied, proxied

pytestmark = pytest.mark.xdist_group("oidc")


def run(test: Callable[[Proxied], Any], **options: Any) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), proxied(**options) as site:
            await test(site)

    asyncio.run(inside())


@pytest.mark.parametrize("plain", [False, True], ids=["oidc", "oauth"])
def test_our_client_logs_in_and_the_principal_is_the_providers_user(plain: bool) -> None:
    async def test(site: Proxied) -> None:
        visits: list[str] = []
        store = MemoryTokens()
        async with Client(site.url, auth=OAuth(store=store, open_browser=site.browse(visits))) as client:
            assert (await client.call_tool("who")).text == "somebody"
            await client.call_tool("theirs")
        assert len(visits) == 1
        binding = json.loads(await store.get(("server", site.url)) or b"")
        held = json.loads(
            await store.get(("token", binding["issuer"], binding["client_id"], site.url)) or b""
        )
        assert binding["issuer"] == site.base
        # The provider's token is the tool's to use; what the client holds is worth nothing at the provider.
        assert (await site.provider.introspect(site.given[0]))["active"] is True
        assert site.given[0] not in json.dumps([binding, held])
        for token in (held["access_token"], held["refresh_token"]):
            assert (await site.provider.introspect(token))["active"] is False

    run(test, plain=plain)
