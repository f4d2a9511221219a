"""Webhooks: verification, signatures, retries, leases, restarts, bounds, and what an attacker could try."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from dovetail import Client, RegistrationError, RouteRequest, Server
from dovetail.extensions import Events, Webhooks
from dovetail.extensions.events.event_model import unix
from dovetail.extensions.events.webhook_signatures import is_signed, new_secret, secret_bytes
from dovetail.extensions.events.webhook_subscriptions import SubscribedPrincipal, WebhookRecord
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.events import (
    NAME,
    Endpoint,
    Filter,
    Incident,
    build,
    endpoint,
    fits,
    poll,
    refused,
    subscribe,
    tokens,
)
from tests.support.waiting import found, until
from tests.support.web import served


class Time:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def local(authority: Authority, **options: Any) -> Webhooks:
    """Webhooks that may reach this machine, and try again without pauses."""
    given = {"private_hosts": ["localhost"], "retry_delays": (0.001, 0.001), **options}
    return Webhooks(ssl=authority.client(), **given)


@asynccontextmanager
async def connected(server: Server, token: str = "a") -> AsyncIterator[Client]:
    async with served(server) as site, Client(f"http://127.0.0.1:{site.port}/mcp", auth=token) as client:
        yield client


def pager(authority: Authority, webhooks: dict[str, Any] | None = None, **options: Any) -> Any:
    options.setdefault("auth", tokens)
    return build(events={"webhooks": local(authority, **(webhooks or {}))}, **options)


@run
async def test_an_endpoint_is_verified_and_then_gets_signed_events(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        made = await subscribe(client, hook.url, secret, arguments={"severity": "P1"})
        assert made["id"].startswith("sub_")
        assert made["truncated"] is False
        assert unix(made["refreshBefore"]) > 0
        (challenge,) = hook.typed("verification")
        assert len(challenge["challenge"]) >= 32
        await incidents.emit(Incident(1, "P2"))
        await incidents.emit(Incident(2), id="INC-2")
        await hook.got(1)
        request = hook.requests[-1]
        assert request.headers["content-type"] == "application/json"
        assert request.headers["x-mcp-subscription-id"] == made["id"]
        assert request.headers["webhook-id"] == "INC-2"
        assert is_signed(secret_bytes(secret), request.headers, request.body)
        assert not is_signed(secret_bytes(secret), request.headers, request.body + b" ")
        assert not is_signed(secret_bytes(new_secret()), request.headers, request.body)
        event = hook.events[0]
        assert (event["eventId"], event["name"], event["data"]["number"]) == ("INC-2", NAME, 2)
        assert event["cursor"]


@run
async def test_a_subscription_is_refreshed_by_subscribing_again(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        first = await subscribe(client, hook.url, secret)
        await incidents.emit(Incident(1))
        await hook.got(1)
        again = await subscribe(client, hook.url, secret, cursor=first["cursor"], arguments={})
        assert again["id"] == first["id"]
        assert len(hook.typed("verification")) == 1
        status = again["deliveryStatus"]
        assert (status["active"], status["lastError"]) == (True, None)
        await incidents.emit(Incident(2))
        await hook.got(2)
        assert hook.numbers == [1, 2]


@run
async def test_the_server_decides_how_long_a_subscription_lasts(authority: Authority) -> None:
    time = Time()
    server, _, _ = pager(authority, {"min_ttl": 60, "default_ttl": 600, "max_ttl": 6000}, clock=time)
    async with endpoint(authority) as hook, connected(server) as client:

        async def granted(**params: Any) -> float:
            made = await subscribe(client, hook.url, **params)
            return round(unix(made["refreshBefore"]) - time.now)

        assert await granted() == 600
        assert await granted(ttlMs=300_000) == 300
        assert await granted(ttlMs=1) == 60
        assert await granted(ttlMs=-5) == 60
        assert await granted(ttlMs=10**15) == 6000
        assert await granted(ttlMs=10**400) == 6000
        assert await granted(ttlMs=-(10**400), maxAgeMs=10**400) == 60
        assert await granted(ttlMs=None) == 6000


@run
async def test_a_subscription_that_is_not_refreshed_ends(authority: Authority) -> None:
    time = Time()
    server, _, incidents = pager(authority, clock=time)
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, ttlMs=60_000)
        await incidents.emit(Incident(1))
        await hook.got(1)
        time.now += 61
        await incidents.emit(Incident(2))
        await subscribe(client, hook.url)
        await incidents.emit(Incident(3))
        await hook.got(2)
        assert hook.numbers == [1, 3]


@run
async def test_unsubscribing_ends_deliveries_at_once(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url)
        await incidents.emit(Incident(1))
        await hook.got(1)
        key = {"name": NAME, "arguments": {}, "delivery": {"url": hook.url}}
        await client.request("events/unsubscribe", key)
        assert await refused(client.request("events/unsubscribe", key)) == (-32023, {"kind": "subscription"})
        await incidents.emit(Incident(2))
        await subscribe(client, hook.url)
        await incidents.emit(Incident(3))
        await hook.got(2)
        assert hook.numbers == [1, 3]


@run
async def test_a_cursor_replays_what_a_subscription_has_missed(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        start = (await poll(client))["cursor"]
        for number in range(3):
            await incidents.emit(Incident(number))
        assert (await subscribe(client, hook.url, cursor=start))["truncated"] is False
        await hook.got(3)
        assert sorted(hook.numbers) == [0, 1, 2]
        other = await subscribe(client, hook.url, cursor="made up", arguments={"severity": "P1"})
        assert other["truncated"] is True


@run
async def test_deliveries_go_on_after_a_restart(authority: Authority, tmp_path: Path) -> None:
    path, secret = tmp_path / "events.db", new_secret()
    async with endpoint(authority) as hook:
        server, _, incidents = pager(authority, store=SqliteStore(path))
        async with connected(server) as client:
            made = await subscribe(client, hook.url, secret)
            await incidents.emit(Incident(1))
            await hook.got(1)
        server, _, incidents = pager(authority, store=SqliteStore(path))
        async with server.running():
            await incidents.emit(Incident(2))
            await until(lambda: 2 in hook.numbers)
        assert len(hook.typed("verification")) == 1
        request = hook.requests[-1]
        assert request.headers["x-mcp-subscription-id"] == made["id"]
        assert is_signed(secret_bytes(secret), request.headers, request.body)


@run
async def test_one_of_two_processes_delivers_and_the_other_takes_over(
    authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "events.db"
    one, _, here = pager(authority, store=SqliteStore(path))
    two, _, there = pager(authority, store=SqliteStore(path))
    async with endpoint(authority) as hook, two.running():
        async with connected(one) as client:
            await subscribe(client, hook.url)
            for number in range(10):
                await (here if number % 2 else there).emit(Incident(number))
            await hook.got(10)
            assert sorted(hook.numbers) == list(range(10))
        await there.emit(Incident(10))
        await until(lambda: 10 in hook.numbers)
        assert set(hook.numbers) == set(range(11))


async def failed(client: Client, url: str, secret: str) -> dict[str, Any] | None:
    """The status of a subscription, once a delivery has failed."""
    status = (await subscribe(client, url, secret))["deliveryStatus"]
    return None if status["lastError"] is None else status


# --- failures ---------------------------------------------------------------------------------------------------


@run
async def test_an_event_is_tried_again_with_a_new_signature(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, secret)
        answers = [500, 503]
        hook.status = lambda message: answers.pop(0) if answers else 200
        await incidents.emit(Incident(1))
        await hook.got(3)
        assert hook.numbers == [1, 1, 1]
        tries = hook.requests[-3:]
        assert len({request.headers["webhook-id"] for request in tries}) == 1
        assert all(is_signed(secret_bytes(secret), request.headers, request.body) for request in tries)
        await incidents.emit(Incident(2))
        await hook.got(4)


@run
async def test_an_event_that_fails_does_not_hold_up_the_others_nor_moves_the_cursor(
    authority: Authority,
) -> None:
    server, _, incidents = pager(authority, {"retry_delays": (3600.0,)})
    async with endpoint(authority) as hook, connected(server) as client:
        made = await subscribe(client, hook.url)
        hook.status = lambda message: 500 if message["data"]["number"] == 1 else 200
        await incidents.emit(Incident(1))
        await hook.got(1)
        await incidents.emit(Incident(2))
        await incidents.emit(Incident(3))
        await hook.got(3)
        again = await subscribe(client, hook.url, secret=new_secret())
        # Persisting this cursor must not skip the event that is still being tried.
        page = await poll(client, again["cursor"])
        assert [event["data"]["number"] for event in page["events"]] == [1, 2, 3]
        assert made["id"] == again["id"]


@run
async def test_an_event_that_hangs_does_not_hide_the_status_of_the_others(authority: Authority) -> None:
    server, _, incidents = pager(authority, {"retry_delays": (3600.0,)})
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, secret)
        hook.status = lambda message: 500 if message["data"]["number"] == 1 else 200
        await incidents.emit(Incident(1))
        await hook.got(1)

        async def delivered() -> str | None:
            await incidents.emit(Incident(2))
            return (await subscribe(client, hook.url, secret))["deliveryStatus"]["lastDeliveryAt"]

        assert await found(delivered)


@run
async def test_a_record_that_cannot_be_read_does_not_stop_the_others(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    folder = f"events-webhook/{hashlib.sha256(b'pager').hexdigest()[:16]}"
    async with endpoint(authority) as hook, connected(server) as client:
        await server.lifecycle.state_store.put(f"{folder}/sub_0", b"damaged", ttl=3600.0)
        await subscribe(client, hook.url)
        await incidents.emit(Incident(1))
        await hook.got(1)


@run
async def test_an_event_that_is_not_wanted_is_not_sent_again(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url)
        hook.status = lambda message: 410 if message["data"]["number"] == 1 else 413
        await incidents.emit(Incident(1))
        await incidents.emit(Incident(2))
        await hook.got(2)
        hook.status = lambda message: 200
        await incidents.emit(Incident(3))
        await hook.got(3)
        assert sorted(hook.numbers) == [1, 2, 3]


@run
async def test_deliveries_are_suspended_and_go_on_after_a_refresh(authority: Authority) -> None:
    server, _, incidents = pager(authority, {"retry_delays": (), "suspend_after": 3})
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, secret)
        hook.status = lambda message: 500
        for number in range(3):
            await incidents.emit(Incident(number))
            await hook.got(number + 1)

        async def suspended() -> dict[str, Any] | None:
            status = (await subscribe(client, hook.url, secret))["deliveryStatus"]
            if not status["active"]:
                return status
            await incidents.emit(Incident(9))
            return None

        status = await found(suspended)
        assert status["lastError"] == "http_5xx"
        assert status["failedSince"]
        hook.status = lambda message: 200
        await incidents.emit(Incident(50))
        await until(lambda: 50 in hook.numbers)


def test_failures_before_a_refresh_do_not_suspend_it_again() -> None:
    who = SubscribedPrincipal("a", None, [], {}, None)
    stored = WebhookRecord(
        id="sub_1", name=NAME, arguments=Raw(b"{}"), url="https://example.com/", principal=who, expires=1.0,
        secret="", cursor=None, made="1",
    )  # fmt: skip
    known = replace(stored, active=False, failures=4, last_error="http_5xx")
    stored.take_outcomes(known, suspend_after=3)
    assert (stored.active, stored.failures, stored.last_error) == (True, 0, "http_5xx")
    stored.take_outcomes(replace(known, active=True), suspend_after=3)
    assert (stored.active, stored.failures) == (False, 4)


@run
async def test_the_status_says_nothing_of_what_the_endpoint_answered(authority: Authority) -> None:
    server, _, incidents = pager(authority, {"retry_delays": ()})
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, secret)
        hook.status = lambda message: 418
        await incidents.emit(Incident(1))
        await hook.got(1)
        status = await found(lambda: failed(client, hook.url, secret))
        assert status["lastError"] == "http_4xx"
        assert "418" not in json.dumps(status)


@run
async def test_a_secret_is_replaced_and_the_old_one_signs_for_a_while(authority: Authority) -> None:
    time = Time()
    server, _, incidents = pager(authority, {"secret_grace_period": 600}, clock=time)
    old, new = new_secret(), new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, old)
        await subscribe(client, hook.url, new)
        await incidents.emit(Incident(1))
        await hook.got(1)
        request = hook.requests[-1]
        assert is_signed(secret_bytes(old), request.headers, request.body)
        assert is_signed(secret_bytes(new), request.headers, request.body)
        time.now += 601
        await incidents.emit(Incident(2))
        await hook.got(2)
        request = hook.requests[-1]
        assert not is_signed(secret_bytes(old), request.headers, request.body)
        assert is_signed(secret_bytes(new), request.headers, request.body)


@run
async def test_lost_rights_end_a_subscription_with_a_signed_reason(authority: Authority) -> None:
    allowed = True
    secret = new_secret()
    server, _, incidents = pager(authority, options={"auth": lambda principal: allowed})
    async with endpoint(authority) as hook, connected(server) as client:
        made = await subscribe(client, hook.url, secret)
        allowed = False
        await incidents.emit(Incident(1))
        await until(lambda: hook.typed("terminated"))
        request = hook.requests[-1]
        assert hook.typed("terminated")[0]["error"]["code"] == -32023  # `auth` hides the type
        assert request.headers["webhook-id"].startswith("msg_terminated_")
        assert request.headers["x-mcp-subscription-id"] == made["id"]
        assert is_signed(secret_bytes(secret), request.headers, request.body)
        assert hook.events == []


@run
async def test_a_type_that_is_removed_ends_its_subscriptions(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    async with endpoint(authority) as hook:
        server, _, _ = pager(authority, store=SqliteStore(path))
        async with connected(server) as client:
            await subscribe(client, hook.url)
        other = Events(webhooks=local(authority))
        other.add("other")
        async with Server("pager", extensions=[other], store=SqliteStore(path), auth=tokens).running():
            await until(lambda: hook.typed("terminated"))
        assert hook.typed("terminated")[0]["error"]["data"] == {"kind": "event"}


@run
async def test_a_gap_is_reported_to_the_endpoint(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    webhooks = local(authority)
    async with endpoint(authority) as hook:
        server, _, incidents = build(
            events={"webhooks": webhooks, "keep_events": 2}, store=SqliteStore(path), auth=tokens
        )
        async with connected(server) as client:
            await subscribe(client, hook.url)
        plain, _, incidents = build(events={"keep_events": 2}, store=SqliteStore(path))
        async with plain.running():
            for number in range(5):
                await incidents.emit(Incident(number))
        server, _, incidents = build(
            events={"webhooks": webhooks, "keep_events": 2}, store=SqliteStore(path), auth=tokens
        )
        async with server.running():
            await hook.got(2)
            assert sorted(hook.numbers) == [3, 4]
            assert hook.typed("gap")[0]["cursor"]


@run
async def test_hooks_run_for_a_webhook(authority: Authority) -> None:
    seen: list[str] = []
    hooks = {
        "on_subscribe": lambda arguments, principal: seen.append(f"on {principal.subject}"),
        "on_unsubscribe": lambda arguments, principal: seen.append("off"),
    }
    server, _, _ = pager(authority, options=hooks)
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url)
        await until(lambda: seen == ["on a"])
        await client.request("events/unsubscribe", {"name": NAME, "delivery": {"url": hook.url}})
        await until(lambda: seen == ["on a", "off"])


# --- who may, and how much --------------------------------------------------------------------------------------


@run
async def test_webhooks_need_a_principal(authority: Authority) -> None:
    server, _, _ = pager(authority, auth=None)
    async with endpoint(authority) as hook, served(server) as site:
        async with Client(f"http://127.0.0.1:{site.port}/mcp") as client:
            assert (await refused(subscribe(client, hook.url)))[0] == -32024
            ended = client.request("events/unsubscribe", {"name": NAME, "delivery": {"url": hook.url}})
            assert (await refused(ended))[0] == -32024
        assert hook.requests == []


@run
async def test_one_principal_cannot_touch_the_subscription_of_another(authority: Authority) -> None:
    server, _, incidents = pager(authority)
    secret = new_secret()
    async with endpoint(authority) as hook, served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as ann, Client(url, auth="b") as ben:
            first = await subscribe(ann, hook.url, secret)
            key = {"name": NAME, "delivery": {"url": hook.url}}
            assert (await refused(ben.request("events/unsubscribe", key)))[0] == -32023
            second = await subscribe(ben, hook.url)
            assert second["id"] != first["id"]
            # The endpoint was verified for Ann; Ben has to verify it himself.
            assert len(hook.typed("verification")) == 2
            await incidents.emit(Incident(1))
            await hook.got(2)
            mine = [one for one in hook.requests if one.headers["x-mcp-subscription-id"] == first["id"]]
            assert is_signed(secret_bytes(secret), mine[-1].headers, mine[-1].body)


@run
async def test_subscriptions_are_bounded_and_freed(authority: Authority) -> None:
    limits = {"max_subscriptions": 3, "max_subscriptions_per_principal": 2}
    server, _, _ = pager(authority, limits)
    async with endpoint(authority) as hook, served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as ann, Client(url, auth="b") as ben:
            await subscribe(ann, hook.url, arguments={"severity": "1"})
            await subscribe(ann, hook.url, arguments={"severity": "2"})
            code, data = await refused(subscribe(ann, hook.url, arguments={"severity": "3"}))
            assert (code, data["limit"]) == (-32025, "subscriptions")
            await subscribe(ann, hook.url, arguments={"severity": "2"})  # a refresh needs no place
            await subscribe(ben, hook.url)
            assert (await refused(subscribe(ben, hook.url, arguments={"severity": "1"})))[0] == -32025
            key = {"name": NAME, "arguments": {"severity": "1"}, "delivery": {"url": hook.url}}
            await ann.request("events/unsubscribe", key)
            await subscribe(ann, hook.url, arguments={"severity": "3"})


@run
async def test_a_subscription_that_fails_takes_no_place(authority: Authority) -> None:
    server, _, _ = pager(authority, {"max_subscriptions_per_principal": 1})
    async with endpoint(authority) as hook, connected(server) as client:
        hook.echo = lambda challenge: {"challenge": "wrong"}
        for _ in range(3):
            assert (await refused(subscribe(client, hook.url)))[0] == -32027
        hook.echo = lambda challenge: {"challenge": challenge}
        await subscribe(client, hook.url)


# --- attacks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/hook",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///hook",
        "https://user:pass@example.com/",
        "https://example.com/#fragment",
        "https://example.com/a b",
        "https://example.com/\r\nX-Evil: 1",
        "https://example.com:99999/",
        "https://[::1/",
        "HTTPS",
        "",
        "https://example.com/" + "x" * 5000,
        "https://exämple.com/",
    ],
)
@run
async def test_a_url_that_is_no_callback_url_is_refused(authority: Authority, url: str) -> None:
    server, _, _ = pager(authority)
    async with connected(server) as client:
        assert (await refused(subscribe(client, url)))[0] == -32602


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]",
        "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "[fe80::1]", "[fc00::1]", "100.64.0.1",
        "[64:ff9b::7f00:1]", "localhost.", "LOCALHOST", "224.0.0.1", "192.0.0.8", "[::ffff:169.254.169.254]",
    ],
)  # fmt: skip
@run
async def test_a_private_address_is_never_reached(authority: Authority, host: str) -> None:
    options = Webhooks(ssl=authority.client(), retry_delays=(), timeout=2.0)
    server, _, _ = build(events={"webhooks": options}, auth=tokens)
    async with endpoint(authority) as hook, connected(server) as client:
        code, data = await refused(subscribe(client, f"https://{host}:{hook.site.port}/hooks"))
        # The same response as for a closed port, so that it does not reveal which names are private.
        assert (code, data["reason"]) in {(-32027, "connection_refused"), (-32027, "timeout")}
        assert hook.requests == []


@run
async def test_a_name_that_becomes_private_later_gets_no_events(authority: Authority) -> None:
    """DNS rebinding: the address is checked for each delivery, whatever it was when the client subscribed."""
    options = Webhooks(
        ssl=authority.client(), verified_urls=["https://localhost/"], retry_delays=(), suspend_after=1
    )
    server, _, incidents = build(events={"webhooks": options}, auth=tokens)
    secret = new_secret()
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, "https://localhost/hooks", secret)
        await incidents.emit(Incident(1))
        status = await found(lambda: failed(client, "https://localhost/hooks", secret))
        assert status["lastError"] == "connection_refused"
        assert hook.requests == []


@run
async def test_only_allowed_hosts_are_reached(authority: Authority) -> None:
    server, _, _ = pager(authority, {"allowed_hosts": ["hooks.example.com"]})
    async with endpoint(authority) as hook, connected(server) as client:
        assert (await refused(subscribe(client, hook.url)))[0] == -32602
        assert hook.requests == []


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "secret",
        "whsec_c2hvcnQ=",
        "whsec_" + "QUFB" * 40,
        "whsec_" + "!" * 44,
        "WHSEC_" + "QUFB" * 10,
    ],
)
@run
async def test_a_secret_that_is_none_is_refused(authority: Authority, secret: str) -> None:
    server, _, _ = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        delivery = {"mode": "webhook", "url": hook.url, "secret": secret}
        asked = client.request("events/subscribe", {"name": NAME, "delivery": delivery})
        assert (await refused(asked))[0] == -32602
        del delivery["secret"]
        asked = client.request("events/subscribe", {"name": NAME, "delivery": delivery})
        assert (await refused(asked))[0] == -32602


@pytest.mark.parametrize(
    "echo",
    [
        lambda challenge: {"challenge": challenge + "x"},
        lambda challenge: {"challenge": None},
        lambda challenge: [challenge],
        lambda challenge: challenge,
        lambda challenge: {"challenge": challenge, "padding": "x" * 100_000},
        lambda challenge: {"challenge": "ü"},
    ],
)
@run
async def test_an_endpoint_that_does_not_echo_the_challenge_gets_nothing(
    authority: Authority, echo: Callable[[str], Any]
) -> None:
    server, _, incidents = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        hook.echo = echo
        assert (await refused(subscribe(client, hook.url)))[0] == -32027
        await incidents.emit(Incident(1))
        assert hook.events == []


@run
async def test_a_redirect_is_not_followed(authority: Authority) -> None:
    server, _, _ = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        url = hook.url.replace("/hooks", "/elsewhere")
        code, data = await refused(subscribe(client, url))
        assert (code, data["reason"]) == (-32027, "http_4xx")
        assert hook.requests == []


@run
async def test_an_endpoint_with_another_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    server, _, _ = pager(authority)
    async with endpoint(Authority(tmp_path)) as hook, connected(server) as client:
        code, data = await refused(subscribe(client, hook.url))
        assert (code, data["reason"]) == (-32027, "tls_error")


@run
async def test_an_endpoint_that_never_answers_costs_a_bounded_time(authority: Authority) -> None:
    never = asyncio.Event()

    async def silent(request: RouteRequest) -> None:
        await never.wait()

    server, _, _ = pager(authority, {"timeout": 0.05})
    async with endpoint(authority, silent) as hook, connected(server) as client:
        code, data = await refused(subscribe(client, hook.url))
        assert (code, data["reason"]) == (-32027, "timeout")
        never.set()


@run
async def test_verifications_of_one_host_are_bounded(authority: Authority) -> None:
    """An attacker cannot make the server flood a host with challenges."""
    server, _, _ = pager(authority, {"max_verifications_per_host": 3})
    async with endpoint(authority) as hook, connected(server) as client:
        hook.echo = lambda challenge: {}
        codes = [(await refused(subscribe(client, f"{hook.url}?{number}")))[0] for number in range(6)]
        assert codes == [-32027] * 3 + [-32025] * 3
        assert len(hook.requests) == 3


@run
async def test_many_arguments_cause_one_verification(authority: Authority) -> None:
    server, _, _ = pager(authority)
    async with endpoint(authority) as hook, connected(server) as client:
        for number in range(5):
            await subscribe(client, hook.url, arguments={"severity": str(number)})
        assert len(hook.requests) == 1


@run
async def test_a_url_beside_a_verified_one_is_not_verified(authority: Authority) -> None:
    server, _, _ = build(
        events={"webhooks": local(authority, verified_urls=["https://localhost:1/mine/"])}, auth=tokens
    )
    async with connected(server) as client:
        for path in ("/other", "/mine/../other", "/mine/%2e%2e/other", "/mine"):
            assert (await refused(subscribe(client, f"https://localhost:1{path}")))[0] == -32027
        assert (await subscribe(client, "https://localhost:1/mine/hook"))["id"]


@run
async def test_a_slow_endpoint_does_not_delay_other_subscriptions(authority: Authority) -> None:
    released = asyncio.Event()
    slow = Endpoint()

    async def wait(request: RouteRequest) -> Any:
        if b"verification" not in request.body:
            await released.wait()
        return await slow.answer(request)

    server, _, incidents = pager(authority)
    async with endpoint(authority, wait) as stuck, endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, stuck.url)
        await subscribe(client, hook.url)
        await incidents.emit(Incident(1))
        await hook.got(1)
        assert slow.events == []
        released.set()
        await slow.got(1)


@run
async def test_events_that_wait_are_bounded(authority: Authority) -> None:
    server, _, incidents = pager(authority, {"max_pending_events": 4, "retry_delays": (3600.0,)})
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url)
        hook.status = lambda message: 500
        for number in range(20):
            await incidents.emit(Incident(number))
        await hook.got(4)
        await poll(client)
        assert sorted(hook.numbers) == [0, 1, 2, 3]


def contents(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


@run
async def test_the_store_has_no_secret_in_clear(authority: Authority, tmp_path: Path) -> None:
    path, secret = tmp_path / "events.db", new_secret()
    server, _, _ = pager(authority, store=SqliteStore(path))
    async with endpoint(authority) as hook, connected(server) as client:
        await subscribe(client, hook.url, secret)
    files = contents(tmp_path)
    assert hook.url.encode() in files
    assert secret.encode() not in files
    assert secret_bytes(secret) not in files


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed_hosts": "example.com"}, "allowed_hosts of Webhooks is a list"),
        ({"verified_urls": ["http://example.com/"]}, "verified_urls of Webhooks"),
        ({"verified_urls": ["https://example.com"]}, "verified_urls of Webhooks"),
        ({"min_ttl": 0}, "the times of Webhooks"),
        ({"max_ttl": 1}, "the times of Webhooks"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Webhooks(**options)


def test_servers_without_webhooks_do_not_offer_them() -> None:
    events = Events()
    added = events.add(NAME, payload=Incident, arguments=Filter, match=fits)
    assert added.definition.delivery == ["poll", "push"]
    assert "events/subscribe" not in events.methods
