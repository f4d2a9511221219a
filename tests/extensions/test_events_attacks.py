"""What a hostile client, server, endpoint or upstream system can try with events, and what a start costs."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Principal, Server
from dovetail.extensions import Event, EventBatch, Events, EventsClient, Extension, WebhookReceiver, Webhooks
from dovetail.extensions.events.webhook_signatures import new_secret, secret_bytes, signed_headers
from dovetail.model.meta import SUBSCRIPTION_ID
from dovetail.stores import RedisStore
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.events import (
    NAME,
    Endpoint,
    Incident,
    build,
    endpoint,
    numbers,
    poll,
    refused,
    subscribe,
    tokens,
)
from tests.support.redis import SERVER, RedisServer
from tests.support.waiting import turns, until
from tests.support.web import served

ID = "io.modelcontextprotocol/events"


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    async with served(server) as site, Client(f"http://127.0.0.1:{site.port}/mcp", auth="a") as client:
        yield client


def hostile(**methods: Any) -> Server:
    """A server that claims to have events, and answers as it likes."""
    extension = Extension(ID)
    for name, answer in methods.items():
        extension.method(f"events/{name}", opt_in=False)(answer)
    return Server("hostile", extensions=[extension])


@run
async def test_a_server_that_always_has_more_does_not_keep_a_client_busy() -> None:
    asked = 0

    async def answer(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"events": [], "cursor": "x", "hasMore": True, "nextPollMs": 0, "truncated": False}

    events = EventsClient(min_poll_interval=3600.0)
    async with Client(hostile(poll=answer), extensions=[events]), events.subscribe(NAME, delivery="poll"):
        await turns(500)
        assert asked == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"events": "x", "cursor": None},
        {"events": [{"eventId": 1}], "cursor": None},
        {"cursor": None},
        {"events": [], "cursor": 5},
        {"events": [], "cursor": None, "nextPollMs": "soon"},
    ],
)
@run
async def test_an_answer_that_makes_no_sense_is_an_error_of_the_program(answer: Any) -> None:
    async def reply(params: dict[str, Any]) -> dict[str, Any]:
        return answer

    events = EventsClient()
    async with Client(hostile(poll=reply), extensions=[events]):
        with pytest.raises(DovetailError):
            await events.subscribe(NAME, delivery="poll").__aenter__()


@run
async def test_a_confirmation_with_an_id_that_is_none_is_not_taken_for_that_of_a_stream() -> None:
    async def stream(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        for id in ([], {}, None, 1.5, ctx.request_id):
            meta = {SUBSCRIPTION_ID: id}
            await ctx.notify(
                "notifications/events/active", {"cursor": "x", "truncated": False, "_meta": meta}
            )
        await asyncio.Event().wait()
        return {}

    events = EventsClient(silence=5.0)
    async with Client(hostile(stream=stream), extensions=[events]), events.subscribe(NAME, delivery="push"):
        assert len(events.streams) == 1


@run
async def test_a_grant_that_is_no_time_ends_the_subscription_with_an_error() -> None:
    async def grant(params: dict[str, Any]) -> dict[str, Any]:
        return {"id": "sub_1", "refreshBefore": "tomorrow", "cursor": None}

    events = EventsClient(webhook=WebhookReceiver("https://example.com/"))
    async with (
        Client(hostile(subscribe=grant), extensions=[events]),
        events.subscribe(NAME, delivery="webhook") as found,
    ):
        with pytest.raises(DovetailError, match="no event message"):
            await anext(found)


@run
async def test_pages_of_event_types_that_never_end_are_bounded() -> None:
    pages = 0

    async def endless(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal pages
        pages += 1
        return {"events": [], "nextCursor": str(pages)}

    events = EventsClient()
    async with Client(hostile(list=endless), extensions=[events]):
        assert await events.list() == []
        assert pages == 100


@run
async def test_an_upstream_id_cannot_add_headers_to_a_delivery() -> None:
    async def read(arguments: Any, cursor: str | None, principal: Principal | None) -> EventBatch:
        return EventBatch(events=[Event(data={}, id="x\r\nX-Evil: 1", timestamp=0.0)], cursor="1")

    events = Events()
    events.add("letter", source=read)
    async with Client(Server("s", extensions=[events])) as client:
        start = (await poll(client, name="letter"))["cursor"]
        assert (await refused(poll(client, start, name="letter")))[0] == -32603


@run
async def test_a_source_may_not_return_more_than_it_may() -> None:
    async def read(arguments: Any, cursor: str | None, principal: Principal | None) -> EventBatch:
        found = [Event(data={}, id=str(number), timestamp=0.0) for number in range(1001)]
        return EventBatch(events=found, cursor="1")

    events = Events()
    events.add("letter", source=read)
    async with Client(Server("s", extensions=[events])) as client:
        assert (await refused(poll(client, name="letter")))[0] == -32603


@run
async def test_slow_endpoints_of_one_principal_do_not_delay_those_of_another(tmp_path: Path) -> None:
    authority, released, stalled = Authority(tmp_path), asyncio.Event(), 0
    slow = Endpoint()

    async def stall(request: Any) -> Any:
        nonlocal stalled
        if b"verification" not in request.body:
            stalled += 1
            await released.wait()
        return await slow.answer(request)

    webhooks = Webhooks(
        private_hosts=["localhost"], ssl=authority.client(), max_concurrent_requests=16, timeout=60.0
    )
    server, _, incidents = build(events={"webhooks": webhooks}, auth=tokens)
    async with endpoint(authority, stall) as stuck, endpoint(authority) as hook, served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as attacker, Client(url, auth="b") as victim:
            await subscribe(attacker, f"{stuck.url}?1", arguments={"severity": "P9"})
            await subscribe(attacker, f"{stuck.url}?2", arguments={"severity": "P9"})
            await subscribe(victim, hook.url, arguments={"severity": "P1"})
            for number in range(20):
                await incidents.emit(Incident(number, "P9"))
            await until(lambda: stalled == 2)  # an eighth of all requests
            for number in range(5):
                await incidents.emit(Incident(number))
            await hook.got(5)
            assert stalled == 2
            released.set()


@run
async def test_one_principal_cannot_take_all_interests() -> None:
    server, _, _ = build(
        {"on_subscribe": lambda arguments, principal: None}, {"max_interests": 20}, auth=tokens
    )
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as greedy, Client(url, auth="b") as other:
            for number in range(2):
                await poll(greedy, arguments={"severity": str(number)})
            assert (await refused(poll(greedy, arguments={"severity": "3"})))[0] == -32025
            assert (await poll(other, arguments={"severity": "3"}))["events"] == []


@run
async def test_a_stranger_cannot_make_a_receiver_try_its_secrets_on_a_large_body() -> None:
    secret = new_secret()
    receiver = WebhookReceiver("https://example.com/", clock=lambda: 1_800_000_000.0)
    receiver.expect(secret, lambda message: True)
    body = b"{" + b" " * 20_000 + b"}"
    headers = signed_headers([secret_bytes(secret)], "evt_1", 1_800_000_000, body)
    assert (await receiver.receive(headers, body)).status == 503
    receiver.bind(secret, "sub_1")
    assert (await receiver.receive({**headers, "x-mcp-subscription-id": "sub_1"}, body)).status == 200


@run
async def test_a_hook_that_fails_does_not_start_a_webhook_again_and_again(tmp_path: Path) -> None:
    calls = 0

    def broken(arguments: Any, principal: Principal | None) -> None:
        nonlocal calls
        calls += 1
        raise OSError("no")

    authority = Authority(tmp_path)
    webhooks = Webhooks(private_hosts=["localhost"], ssl=authority.client())
    server, _, incidents = build({"on_subscribe": broken}, {"webhooks": webhooks}, auth=tokens)
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url)
        await until(lambda: calls)
        await incidents.emit(Incident(1))
        await subscribe(client, hook.url)
        await turns(200)
        assert calls == 1


@run
async def test_the_same_subscription_made_twice_at_once_is_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    webhooks = Webhooks(
        private_hosts=["localhost"], ssl=authority.client(), max_subscriptions_per_principal=4
    )
    server, _, incidents = build(events={"webhooks": webhooks}, auth=tokens)
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        made = await asyncio.gather(*(subscribe(client, hook.url, secret) for _ in range(4)))
        assert len({one["id"] for one in made}) == 1
        await incidents.emit(Incident(1))
        await hook.got(1)
        for number in range(3):  # the places of the others are free again
            await subscribe(client, hook.url, arguments={"severity": str(number)})
        assert hook.numbers == [1]


@pytest.mark.skipif(SERVER is None, reason="redis-server is not installed")
@run
async def test_processes_share_events_and_streams_by_redis() -> None:
    with RedisServer() as redis:
        one, _, here = build(store=RedisStore(redis.url))
        other, _, there = build(store=RedisStore(redis.url))
        events = EventsClient()
        async with Client(one, extensions=[events]) as first, Client(other) as second:
            start = (await poll(second))["cursor"]
            async with events.subscribe(NAME, delivery="push") as found:
                await there.emit(Incident(1))
                await here.emit(Incident(2))
                assert [(await anext(found)).data["number"] for _ in range(2)] == [1, 2]
            assert numbers(await poll(second, start)) == [1, 2]
            assert numbers(await poll(first, start)) == [1, 2]


def test_nothing_of_events_is_loaded_before_it_is_used() -> None:
    program = (
        "import sys, dovetail; from dovetail import Server, Client; import dovetail.extensions;"
        "server = Server('s'); server.extensions;"
        "print([name for name in sys.modules if 'extensions.events' in name or 'server_card' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
