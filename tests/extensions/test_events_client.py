"""`EventsClient` and `WebhookReceiver`: subscriptions as iterators, whichever way the events come."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import CapabilityError, Client, ProtocolError, Server, StateError
from dovetail.extensions import Events, EventsClient, WebhookReceiver, Webhooks
from dovetail.extensions.events.client_events import EventSubscription
from dovetail.extensions.events.webhook_receiver import WebhookMessage, WebhookReply
from dovetail.extensions.events.webhook_signatures import new_secret, secret_bytes, signed_headers
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.events import NAME, Incident, build, endpoint, tokens
from tests.support.waiting import until
from tests.support.web import served

MODES = pytest.mark.parametrize("delivery", ["poll", "push"])


def client_events(**options: Any) -> EventsClient:
    return EventsClient(min_poll_interval=0.01, **options)


def quick(**options: Any) -> Any:
    return build({"poll_interval": 0.01}, **options)


@asynccontextmanager
async def opened(server: Server, events: EventsClient, **options: Any) -> AsyncIterator[Client]:
    async with (
        served(server) as site,
        Client(f"http://127.0.0.1:{site.port}/mcp", extensions=[events], **options) as client,
    ):
        yield client


async def take(subscription: EventSubscription, count: int) -> list[int]:
    return [(await anext(subscription)).data["number"] for _ in range(count)]


@MODES
@run
async def test_a_subscription_yields_events(delivery: Any) -> None:
    server, _, incidents = quick()
    events = client_events()
    async with opened(server, events):
        async with events.subscribe(NAME, {"severity": "P1"}, delivery=delivery) as found:
            await incidents.emit(Incident(1, "P2"))
            await incidents.emit(Incident(2), id="INC-2", timestamp=1_800_000_000.0)
            event = await anext(found)
            assert (event.id, event.name, event.data["number"]) == ("INC-2", NAME, 2)
            assert event.timestamp == "2027-01-15T08:00:00.000Z"
            assert found.gaps == 0
        with pytest.raises(StopAsyncIteration):
            await anext(found)


@run
async def test_the_list_is_typed_and_the_mode_is_chosen() -> None:
    server, extension, _ = quick()
    extension.add("polled", delivery=["poll"])
    events = client_events()
    async with opened(server, events):
        assert [one.name for one in await events.list()] == [NAME, "polled"]
        async with events.subscribe(NAME) as pushed, events.subscribe("polled") as polled:
            assert (pushed.delivery, polled.delivery) == ("push", "poll")
        with pytest.raises(CapabilityError, match="no event type 'nothing'"):
            await events.subscribe("nothing").__aenter__()


@MODES
@run
async def test_a_program_that_comes_back_gets_the_event_it_was_not_done_with(
    delivery: Any, tmp_path: Path
) -> None:
    server, _, incidents = quick(store=SqliteStore(tmp_path / "events.db"))
    events = client_events()
    async with opened(server, events), events.subscribe(NAME, delivery=delivery) as found:
        for number in range(5):
            await incidents.emit(Incident(number))
        assert await take(found, 3) == [0, 1, 2]  # it is still busy with 2
        cursor = found.cursor
    server, _, incidents = quick(store=SqliteStore(tmp_path / "events.db"))
    async with opened(server, events), events.subscribe(NAME, delivery=delivery, cursor=cursor) as found:
        again = await take(found, 1)
        while again[-1] != 4:
            again += await take(found, 1)
        # Polling knows the position of a whole page, so it may bring more of it again.
        assert again in ([2, 3, 4], [0, 1, 2, 3, 4])
        assert found.gaps == 0


@run
async def test_several_streams_of_one_client_do_not_mix() -> None:
    server, extension, incidents = quick()
    other = extension.add("other", payload=Incident)
    events = client_events()
    async with (
        opened(server, events),
        events.subscribe(NAME, {"severity": "P1"}) as one,
        events.subscribe(NAME, {"severity": "P2"}) as two,
        events.subscribe("other") as three,
    ):
        await other.emit(Incident(3))
        await incidents.emit(Incident(2, "P2"))
        await incidents.emit(Incident(1, "P1"))
        assert await take(one, 1) == [1]
        assert await take(two, 1) == [2]
        assert await take(three, 1) == [3]


@run
async def test_a_slow_program_gets_everything_though_the_queue_is_short() -> None:
    server, _, incidents = quick()
    for delivery in ("push", "poll"):
        events = client_events(max_queued_events=5)
        async with Client(server, extensions=[events]), events.subscribe(NAME, delivery=delivery) as found:
            for number in range(200):
                await incidents.emit(Incident(number))
            assert await take(found, 200) == list(range(200))


@MODES
@run
async def test_a_refusal_is_raised_when_the_subscription_is_entered(delivery: Any) -> None:
    server, _, _ = quick()
    events = client_events()
    async with opened(server, events):
        with pytest.raises(ProtocolError) as error:
            await events.subscribe("nothing", delivery=delivery).__aenter__()
        assert error.value.code == -32023
        with pytest.raises(ProtocolError):
            await events.subscribe(NAME, {"severity": 1}, delivery=delivery).__aenter__()


@MODES
@run
async def test_lost_rights_are_raised_to_the_program(delivery: Any) -> None:
    allowed = True
    extension = Events(heartbeat=0.02)
    incidents = extension.add(NAME, payload=Incident, auth=lambda principal: allowed, poll_interval=0.01)
    events = client_events()
    server = Server("s", extensions=[extension])
    async with opened(server, events), events.subscribe(NAME, delivery=delivery) as found:
        await incidents.emit(Incident(1))
        assert await take(found, 1) == [1]
        allowed = False
        with pytest.raises(ProtocolError) as error:
            await anext(found)
        assert error.value.code in (-32023, -32024)


@MODES
@run
async def test_a_subscription_outlives_a_restart_of_its_server(delivery: Any, tmp_path: Path) -> None:
    server, _, incidents = quick(store=SqliteStore(tmp_path / "events.db"))
    events = client_events()
    async with AsyncExitStack() as stack:
        async with served(server) as site:
            url = f"http://127.0.0.1:{site.port}/mcp"
            await stack.enter_async_context(Client(url, extensions=[events]))
            found = await stack.enter_async_context(events.subscribe(NAME, delivery=delivery))
            await incidents.emit(Incident(1))
            assert await take(found, 1) == [1]
        server, _, incidents = quick(store=SqliteStore(tmp_path / "events.db"))
        async with server.running():
            await incidents.emit(Incident(2))
            async with served(server, port=site.port):
                await incidents.emit(Incident(3))
                assert await take(found, 2) == [2, 3]
                assert found.gaps == 0
                await found.end()


@run
async def test_a_silent_stream_is_opened_again() -> None:
    server, _, incidents = build(events={"heartbeat": 3600.0})
    events = client_events(silence=0.1)
    async with opened(server, events), events.subscribe(NAME, delivery="push") as found:
        first = set(events.streams)
        await until(lambda: events.streams and set(events.streams) != first)
        await incidents.emit(Incident(1))
        assert await take(found, 1) == [1]


@run
async def test_a_server_without_events_and_a_client_that_is_closed_say_so() -> None:
    events = client_events()
    async with opened(Server("plain"), events):
        with pytest.raises(CapabilityError):
            await events.list()
        with pytest.raises(CapabilityError):
            await events.subscribe(NAME, delivery="push").__aenter__()
        with pytest.raises(StateError, match="needs a receiver"):
            await events.subscribe(NAME, delivery="webhook").__aenter__()
        with pytest.raises(ValueError, match="delivery is one of"):
            await events.subscribe(NAME, delivery="smoke").__aenter__()  # type: ignore[arg-type]
    with pytest.raises(StateError, match="not open"):
        await events.list()


@run
async def test_closing_the_client_ends_its_subscriptions() -> None:
    server, extension, _ = quick()
    events = client_events()
    async with opened(server, events):
        found = await events.subscribe(NAME).__aenter__()
        await until(lambda: extension.streams == 1)
    with pytest.raises(StopAsyncIteration):
        await anext(found)


# --- webhooks ---------------------------------------------------------------------------------------------------


@run
async def test_a_webhook_subscription_is_an_iterator_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    webhooks = Webhooks(private_hosts=["localhost"], ssl=authority.client(), retry_delays=(0.001,) * 5)
    server, _, incidents = quick(events={"webhooks": webhooks}, auth=tokens)
    receiver = WebhookReceiver("https://localhost/")
    async with endpoint(authority, receiver.answer) as hook:
        receiver.url = hook.url
        events = client_events(webhook=receiver)
        async with opened(server, events, auth="a"):
            async with events.subscribe(NAME, {"severity": "P1"}) as found:
                assert found.delivery == "webhook"
                await incidents.emit(Incident(1, "P2"))
                await incidents.emit(Incident(2))
                assert await take(found, 1) == [2]
            await incidents.emit(Incident(3))
            async with events.subscribe(NAME) as found:
                await incidents.emit(Incident(4))
                assert await take(found, 1) == [4]


@run
async def test_a_webhook_subscription_is_refreshed_in_time(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    webhooks = Webhooks(
        private_hosts=["localhost"], ssl=authority.client(), min_ttl=0.01, default_ttl=2.0, max_ttl=2.0
    )
    server, _, _ = quick(events={"webhooks": webhooks}, auth=tokens)
    receiver = WebhookReceiver("https://localhost/")
    async with endpoint(authority, receiver.answer) as hook:
        receiver.url = hook.url
        events = client_events(webhook=receiver)
        async with opened(server, events, auth="a"), events.subscribe(NAME) as found:
            await until(lambda: found.status is not None)
            assert found.status is not None
            assert found.status.active


class Received:
    """A receiver with one secret, and deliveries made by hand."""

    def __init__(self) -> None:
        self.secret = new_secret()
        self.receiver = WebhookReceiver("https://example.com/hooks", clock=lambda: 1_800_000_000.0)
        self.messages: list[WebhookMessage] = []
        self.full = False
        self.receiver.expect(self.secret, self.take)

    def take(self, message: WebhookMessage) -> bool:
        self.messages.append(message)
        return not self.full

    async def post(
        self,
        message: Any,
        id: str = "evt_1",
        subscription: str = "sub_1",
        at: int = 1_800_000_000,
        secret: str | None = None,
        **headers: str,
    ) -> WebhookReply:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        signed = signed_headers([secret_bytes(secret or self.secret)], id, at, body)
        head = {"X-MCP-Subscription-Id": subscription, **signed, **headers}
        return await self.receiver.receive(head, body)


EVENT = {
    "eventId": "evt_1",
    "name": NAME,
    "timestamp": "2027-01-15T08:00:00Z",
    "data": {"number": 1},
    "cursor": None,
}


@run
async def test_a_receiver_takes_what_is_signed_once() -> None:
    received = Received()
    assert await received.post(EVENT) == (200, b"")
    assert await received.post(EVENT) == (200, b"")
    assert [message.data for message in received.messages] == [{"number": 1}]


@run
async def test_a_receiver_echoes_a_challenge_only_if_it_knows_the_secret() -> None:
    received = Received()
    challenge = {"type": "verification", "challenge": "abc"}
    assert (await received.post(challenge, secret=new_secret())).status == 503
    assert await received.post(challenge, "msg_1") == (200, b'{"challenge":"abc"}')
    assert received.messages == []
    assert (await received.post(EVENT, secret=new_secret())).status == 401


@run
async def test_a_receiver_refuses_what_is_forged_old_or_malformed() -> None:
    received = Received()
    received.receiver.bind(received.secret, "sub_1")
    assert (await received.post(EVENT, at=1_800_000_301)).status == 400
    assert (await received.post(EVENT, at=1_799_999_699)).status == 400
    assert (await received.post(b"not json")).status == 400
    assert (await received.post(b"[]")).status == 400
    assert (await received.post(b"x" * 300_000)).status == 413
    assert (await received.post(EVENT, secret=new_secret())).status == 401
    assert (await received.post(EVENT, **{"webhook-signature": ""})).status == 401
    assert (await received.post(EVENT, **{"webhook-signature": "v1, v1,x " * 1000})).status == 401
    assert (await received.post(EVENT, **{"webhook-timestamp": "x"})).status == 400
    assert (await received.post(EVENT, **{"webhook-timestamp": "9" * 400})).status == 400
    assert (await received.post(EVENT, **{"webhook-id": "evt_2"})).status == 401
    assert (await received.post(EVENT, subscription="sub_2", secret=new_secret())).status == 503
    assert (await received.receiver.receive({}, b"")).status == 400
    assert received.messages == []
    assert (await received.post(EVENT)).status == 200


@run
async def test_a_receiver_that_is_full_is_tried_again() -> None:
    received = Received()
    received.full = True
    assert (await received.post(EVENT)).status == 503
    received.full = False
    assert (await received.post(EVENT)).status == 200
    assert len(received.messages) == 2


@run
async def test_a_forgotten_secret_is_worth_nothing() -> None:
    received = Received()
    await received.post(EVENT)
    received.receiver.forget(received.secret)
    assert (await received.post(EVENT, "evt_2")).status == 503


@run
async def test_a_receiver_bounds_its_secrets() -> None:
    receiver = WebhookReceiver("https://example.com/")
    for _ in range(100):
        receiver.expect(new_secret(), lambda message: True)
    with pytest.raises(StateError, match="too many subscriptions"):
        receiver.expect(new_secret(), lambda message: True)
    with pytest.raises(ValueError, match="whsec_"):
        WebhookReceiver("https://example.com/").expect("secret", lambda message: True)
