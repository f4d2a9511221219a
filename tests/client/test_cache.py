"""The response cache: as long as the server said, and never across principals."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail import Client
from dovetail.client import ResponseCache
from dovetail.testing import FakeClock

from ..support.aio import run
from .fake_http import ECHO, Reply, Request, result, serving
from .fake_http import modern as modern_http
from .scripted import Peer, Scripted, modern

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


def listing(ttl: Any = 1000, scope: str = "private") -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        base = {"ttlMs": ttl, "cacheScope": scope, "resultType": "complete"}
        if message["method"] == "tools/list":
            peer.result(message, {"tools": [TOOL], **base})
        elif message["method"] == "resources/read":
            uri = message["params"]["uri"]
            if "requestState" not in message["params"] and uri == "ask://x":
                peer.result(message, {"resultType": "input_required", "requestState": "s"})
                return
            peer.result(message, {"contents": [{"uri": uri, "text": "t"}], **base})

    return modern(answer)


def asked(target: Scripted, method: str = "tools/list") -> int:
    return sum(peer.methods.count(method) for peer in target.peers)


@run
async def test_a_result_is_kept_for_its_time_and_no_longer() -> None:
    clock = FakeClock()
    target = listing()
    async with Client(target, cache=ResponseCache(clock=clock)) as client:
        await client.list_tools()
        await client.list_tools()
        assert asked(target) == 1
        clock.advance(0.999)
        await client.list_tools()
        assert asked(target) == 1
        clock.advance(0.001)
        await client.list_tools()
        assert asked(target) == 2


@run
async def test_zero_negative_or_absent_times_keep_nothing() -> None:
    for ttl in (0, -5):
        target = listing(ttl)
        async with Client(target) as client:
            await client.list_tools()
            await client.list_tools()
            assert asked(target) == 2


@run
async def test_fresh_asks_in_any_case_and_the_switch_switches_it_off() -> None:
    target = listing()
    async with Client(target) as client:
        await client.list_tools()
        await client.list_tools(fresh=True)
        assert asked(target) == 2
    target = listing()
    async with Client(target, cache=False) as client:
        await client.list_tools()
        await client.list_tools()
        assert asked(target) == 2


@run
async def test_a_list_change_makes_the_list_stale_at_once() -> None:
    target = listing()
    async with Client(target) as client:
        await client.list_tools()
        target.peer.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await client.list_tools()
        assert asked(target) == 2


@run
async def test_an_update_makes_the_resource_stale_also_when_it_names_a_part_of_it() -> None:
    target = listing()
    async with Client(target) as client:
        for uri in ("file:///a", "file:///b"):
            await client.read_resource(uri)
        params = {"uri": "file:///a/part"}
        target.peer.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for uri in ("file:///a", "file:///b"):
            await client.read_resource(uri)
        assert asked(target, "resources/read") == 3


def test_private_results_never_meet_another_principal() -> None:
    cache = ResponseCache(clock=FakeClock())
    cache.put("o", "tools/list", b"", "alice", "hers", ttl_ms=10, public=False)
    assert cache.get("o", "tools/list", b"", "alice") == "hers"
    assert cache.get("o", "tools/list", b"", "bob") is None
    assert cache.get("o", "tools/list", b"", None) is None
    cache.put("o", "tools/list", b"", "alice", "everybody's", ttl_ms=10, public=True)
    assert cache.get("o", "tools/list", b"", "bob") == "everybody's"


@run
async def test_two_clients_share_only_what_is_public() -> None:
    for scope, times in (("private", 2), ("public", 1)):
        cache = ResponseCache()

        def answer(request: Request, scope: str = scope) -> Reply:
            if request.method != "tools/list":
                return modern_http(request)
            return result(
                request, {"tools": [ECHO], "ttlMs": 1000, "cacheScope": scope, "resultType": "complete"}
            )

        async with serving(answer) as (fake, url):
            async with Client(url, cache=cache) as one, Client(url, cache=cache) as other:
                await one.list_tools()
                await other.list_tools()
            assert fake.heard().count("tools/list") == times


def test_the_cache_is_bounded_and_the_oldest_goes() -> None:
    cache = ResponseCache(entries=2, clock=FakeClock())
    for name in (b"a", b"b", b"c"):
        cache.put("o", "resources/read", name, None, name, ttl_ms=10, public=True)
    assert len(cache) == 2
    assert cache.get("o", "resources/read", b"a", None) is None


def test_only_the_six_methods_are_kept() -> None:
    cache = ResponseCache(clock=FakeClock())
    cache.put("o", "tools/call", b"", None, "x", ttl_ms=10, public=True)
    assert len(cache) == 0


@run
async def test_what_the_caller_does_to_a_list_does_not_reach_the_cache() -> None:
    async with Client(listing()) as client:
        (await client.list_tools()).clear()
        assert len(await client.list_tools()) == 1


@run
async def test_what_the_caller_does_to_a_tool_does_not_reach_the_next_caller() -> None:
    target = listing()
    async with Client(target) as client:
        (first,) = await client.list_tools()
        (second,) = await client.list_tools()
        second.input_schema["type"] = "string"
        second.name = first.name = "changed"
        (third,) = await client.list_tools()
        assert (third.name, third.input_schema) == ("echo", {"type": "object"})
        assert asked(target) == 1


def test_the_bytes_that_are_kept_are_bounded() -> None:
    cache = ResponseCache(size=100)
    for name in (b"a", b"b", b"c"):
        cache.put("o", "resources/read", name, None, "x" * 40, ttl_ms=1000, public=True)
    assert cache.get("o", "resources/read", b"a", None) is None
    assert cache.get("o", "resources/read", b"c", None) == "x" * 40
    cache.put("o", "resources/read", b"c", None, "x" * 200, ttl_ms=1000, public=True)
    assert len(cache) == 0


def _private(request: Request) -> Reply:
    """A list that names the credentials of its request, to be kept for a minute by the same user only."""
    if request.method != "tools/list":
        return modern_http(request)
    user = request.headers.get("authorization") or request.headers.get("x-api-key") or "nobody"
    tools = [{**ECHO, "description": user}]
    return result(
        request, {"tools": tools, "ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"}
    )


@run
async def test_no_later_client_finds_the_private_results_of_one_that_is_gone() -> None:
    cache = ResponseCache()
    async with serving(_private) as (_, url):
        for number in range(50):
            # The objects of a client that was collected leave their addresses to those of the next.
            for options in ({"auth": f"token-{number}"}, {"headers": {"X-API-Key": f"key-{number}"}}):
                async with Client(url, revision="modern", cache=cache, **options) as client:  # type: ignore[arg-type]
                    (tool,) = await client.list_tools()
                assert str(tool.description).endswith(f"-{number}")
                del client


@run
async def test_credentials_in_the_headers_of_a_call_are_part_of_whose_result_it_is() -> None:
    async with serving(_private) as (fake, url), Client(url, revision="modern") as client:
        for key in ("one", "two", "one"):
            (tool,) = await client.list_tools(headers={"X-API-Key": key})
            assert tool.description == key
        assert fake.heard().count("tools/list") == 2


@run
async def test_clients_with_the_same_authorization_header_share_private_results() -> None:
    cache = ResponseCache()
    async with serving(_private) as (fake, url):
        for _ in range(2):
            async with Client(
                url, revision="modern", cache=cache, headers={"Authorization": "Bearer a"}
            ) as client:
                await client.list_tools()
        assert fake.heard().count("tools/list") == 1
