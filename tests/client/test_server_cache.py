"""The server cache: which results are remembered."""

from __future__ import annotations

from dovetail import Client
from dovetail.client.connecting.server_cache import TENTATIVE_SECONDS, CachedServer, ServerCache
from dovetail.testing import FakeClock

from ..support.aio import run
from .fake_http import Reply, Request, legacy, modern, serving


def both_eras(request: Request) -> Reply:
    return modern(request) if request.headers.get("mcp-protocol-version") == "2026-07-28" else legacy(request)


@run
async def test_a_client_pinned_to_a_legacy_revision_does_not_make_others_legacy() -> None:
    known = ServerCache()
    async with serving(both_eras) as (_, url):
        for revision in ("2025-06-18", "legacy"):
            async with Client(url, revision=revision, server_cache=known) as client:
                assert client.revision == "2025-06-18"
        async with Client(url, server_cache=known) as client:
            assert client.revision == "2026-07-28"


@run
async def test_a_server_that_missed_one_probe_is_probed_again_later() -> None:
    clock = FakeClock()
    known = ServerCache(clock=clock)
    busy = True

    def handler(request: Request) -> Reply:
        return Reply(hang=True) if busy and request.method == "server/discover" else both_eras(request)

    async with serving(handler) as (fake, url):
        for _ in range(2):
            async with Client(url, server_cache=known, discovery_timeout=0.1) as client:
                assert client.revision == "2025-06-18"
            clock.advance(TENTATIVE_SECONDS / 2)
        assert fake.heard().count("server/discover") == 1
        busy = False
        async with Client(url, server_cache=known) as client:
            assert client.revision == "2026-07-28", "using a verdict must not make it last longer"


@run
async def test_a_server_that_refused_the_probe_is_cached_permanently() -> None:
    clock = FakeClock()
    known = ServerCache(clock=clock)
    async with serving(legacy) as (fake, url):
        for _ in range(2):
            async with Client(url, server_cache=known):
                clock.advance(TENTATIVE_SECONDS * 100)
        assert fake.heard().count("server/discover") == 1


def test_the_table_is_bounded() -> None:
    known = ServerCache(limit=2)
    for name in ("a", "b", "c"):
        known.remember(name, CachedServer("legacy", "2025-06-18"))
    assert known.get("a") is None
    assert known.get("c") is not None
