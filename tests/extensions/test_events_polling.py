"""`events/list` and `events/poll`: cursors, filters, errors, rights and bounds, over real sockets."""

import asyncio
import re
from collections.abc import Iterable
from inspect import signature as signature_of
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, DovetailError, Principal, RegistrationError, Server, StateError, StoreFull
from dovetail.extensions import Event, EventBatch, Events, EventsClient, ServerCard, Webhooks
from dovetail.extensions.events.event_types import EventType, EventTypeOptions
from dovetail.stores import MemoryStore, SqliteStore
from tests.support.aio import run
from tests.support.events import NAME, Filter, Incident, build, numbers, poll, refused, tokens
from tests.support.waiting import turns, until
from tests.support.web import Web, served


def signature(function: Any) -> list[str]:
    return [*signature_of(function).parameters]


class Time:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@run
async def test_a_client_over_http_gets_what_happened_since_its_cursor() -> None:
    server, _, incidents = build()
    async with served(server) as site, Client(f"http://127.0.0.1:{site.port}/mcp") as client:
        assert client.server_capabilities.extension("io.modelcontextprotocol/events") == {}
        first = await poll(client)
        assert first["events"] == []
        assert (first["truncated"], first["hasMore"], first["nextPollMs"]) == (False, False, 5000)
        for number in range(3):
            await incidents.emit(Incident(number), id=f"INC-{number}", timestamp=1_800_000_000.25)
        page = await poll(client, first["cursor"])
        assert page["events"][0] == {
            "eventId": "INC-0",
            "name": NAME,
            "timestamp": "2027-01-15T08:00:00.250Z",
            "data": {"number": 0, "severity": "P1"},
        }
        assert numbers(page) == [0, 1, 2]
        assert (await poll(client, page["cursor"]))["events"] == []
        assert numbers(await poll(client, first["cursor"])) == [0, 1, 2]


@run
async def test_the_bytes_of_a_poll_are_those_of_the_specification() -> None:
    server, _, incidents = build()
    async with served(server) as site:
        web = Web(site)
        first = (await web.modern("events/poll", {"name": NAME, "cursor": None})).message["result"]
        assert first["resultType"] == "complete"
        await incidents.emit(Incident(7), id="INC-7")
        found = await web.modern("events/poll", {"name": NAME, "arguments": {}, "cursor": first["cursor"]})
        assert found.status == 200
        assert set(found.message["result"]) >= {
            "resultType", "events", "cursor", "truncated", "hasMore", "nextPollMs",
        }  # fmt: skip
        (event,) = found.message["result"]["events"]
        assert set(event) == {"eventId", "name", "timestamp", "data"}


@run
async def test_the_list_has_schemas_delivery_modes_and_pages() -> None:
    server, events, _ = build({"description": "A new incident."})
    for number in range(120):
        events.add(f"more.{number:03}", delivery=["poll"])
    async with Client(server) as client:
        page = await client.request("events/list")
        entry = page["events"][0]
        assert (entry["name"], entry["description"]) == (NAME, "A new incident.")
        assert entry["delivery"] == ["poll", "push"]
        assert entry["payloadSchema"]["required"] == ["number"]
        assert set(entry["inputSchema"]["properties"]) == {"severity"}
        rest = await client.request("events/list", {"cursor": page["nextCursor"]})
        assert len(page["events"]) + len(rest["events"]) == 121
        assert "nextCursor" not in rest
        for wrong in ("x", "-1", "999", "9" * 5000):
            assert (await refused(client.request("events/list", {"cursor": wrong})))[0] == -32602


@run
async def test_arguments_filter_and_transform_what_a_subscription_gets() -> None:
    def shorten(incident: Incident, wanted: Filter, principal: Principal | None) -> dict[str, Any]:
        return {"number": incident.number * 10}

    server, _, incidents = build({"transform": shorten})
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        for number, severity in enumerate(["P1", "P2", "P1"]):
            await incidents.emit(Incident(number, severity))
        page = await poll(client, start, arguments={"severity": "P2"})
        assert [event["data"] for event in page["events"]] == [{"number": 10}]
        assert numbers(await poll(client, page["cursor"], arguments={"severity": "P2"})) == []


@run
async def test_a_filter_that_fails_lets_nothing_through(caplog: pytest.LogCaptureFixture) -> None:
    def broken(incident: Incident, wanted: Any, principal: Principal | None) -> bool:
        raise RuntimeError("no")

    events = Events()
    incidents = events.add("a", payload=Incident, match=broken)
    async with Client(Server("s", extensions=[events])) as client:
        start = (await poll(client, name="a"))["cursor"]
        await incidents.emit(Incident(1))
        assert (await poll(client, start, name="a"))["events"] == []
    assert "the filter of the event type a failed" in caplog.text


@run
async def test_pages_are_bounded_and_a_client_can_drain_them() -> None:
    server, _, incidents = build()
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        for number in range(250):
            await incidents.emit(Incident(number))
        found, cursor, pages = [], start, 0
        while True:
            page = await poll(client, cursor, maxEvents=1_000_000)
            found += numbers(page)
            pages, cursor = pages + 1, page["cursor"]
            if not page["hasMore"]:
                break
        assert found == list(range(250))
        assert pages >= 3
        small = await poll(client, start, maxEvents=2)
        assert (numbers(small), small["hasMore"]) == ([0, 1], True)
        for wrong in (0, -1):
            assert (await refused(poll(client, start, maxEvents=wrong)))[0] == -32602


@run
async def test_events_that_are_gone_are_reported_as_truncated() -> None:
    server, _, incidents = build(events={"keep_events": 3})
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        await incidents.emit(Incident(0))
        assert not (await poll(client, start))["truncated"]
        for number in range(1, 6):
            await incidents.emit(Incident(number))
        page = await poll(client, start)
        # The process still has in memory what the store has dropped; another process does not.
        assert numbers(page)[-3:] == [3, 4, 5]
        assert page["truncated"] == (len(page["events"]) < 6)


@run
async def test_a_log_that_has_dropped_events_says_so_to_a_process_that_starts(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    keys = "k" * 32
    server, _, incidents = build(events={"keep_events": 3}, store=SqliteStore(path), seal_keys=keys)
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        for number in range(6):
            await incidents.emit(Incident(number))
    again, _, _ = build(events={"keep_events": 3}, store=SqliteStore(path), seal_keys=keys)
    async with Client(again) as client:
        page = await poll(client, start)
        assert (numbers(page), page["truncated"]) == ([3, 4, 5], True)


@run
async def test_a_cursor_survives_a_restart_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    server, _, incidents = build(store=SqliteStore(path))
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        await incidents.emit(Incident(1))
        middle = (await poll(client, start))["cursor"]
        await incidents.emit(Incident(2))
    again, _, incidents = build(store=SqliteStore(path))
    async with Client(again) as client:
        await incidents.emit(Incident(3))
        page = await poll(client, start)
        assert (numbers(page), page["truncated"]) == ([1, 2, 3], False)
        assert numbers(await poll(client, middle)) == [2, 3]


@run
async def test_two_servers_with_one_store_share_their_events(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    one, _, here = build(store=SqliteStore(path))
    other, _, there = build(store=SqliteStore(path))
    async with Client(one) as first, Client(other) as second:
        start = (await poll(first))["cursor"]
        await there.emit(Incident(1))
        await here.emit(Incident(2))
        await there.emit(Incident(3))
        assert numbers(await poll(first, start)) == [1, 2, 3]
        assert numbers(await poll(second, start)) == [1, 2, 3]


@run
async def test_a_store_that_was_lost_gives_a_gap_and_not_silence() -> None:
    keys = "k" * 32
    server, _, incidents = build(store=MemoryStore(), seal_keys=keys)
    async with Client(server) as client:
        await incidents.emit(Incident(1))
        cursor = (await poll(client))["cursor"]
    again, _, incidents = build(store=MemoryStore(), seal_keys=keys)
    async with Client(again) as client:
        await incidents.emit(Incident(2))
        page = await poll(client, cursor)
        assert (page["events"], page["truncated"]) == ([], True)
        await incidents.emit(Incident(3))
        assert numbers(await poll(client, page["cursor"])) == [3]


@run
async def test_old_events_are_left_out_when_the_client_wants_no_old_ones() -> None:
    time = Time()
    server, _, incidents = build(clock=time)
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        await incidents.emit(Incident(1))
        time.now += 100
        await incidents.emit(Incident(2))
        page = await poll(client, start, maxAgeMs=50_000)
        assert (numbers(page), page["truncated"]) == ([2], True)
        page = await poll(client, start, maxAgeMs=500_000)
        assert (numbers(page), page["truncated"]) == ([1, 2], False)


@run
async def test_events_expire() -> None:
    time = Time()
    server, _, incidents = build(events={"keep_seconds": 60.0}, clock=time)
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        await incidents.emit(Incident(1))
        time.now += 61
        page = await poll(client, start)
        assert (page["events"], page["truncated"]) == ([], True)
        await incidents.emit(Incident(2))
        page = await poll(client, page["cursor"])
        assert (numbers(page), page["truncated"]) == ([2], False)


# --- refusals ---------------------------------------------------------------------------------------------------


@run
async def test_a_cursor_cannot_be_made_up_or_moved_to_another_type() -> None:
    server, events, incidents = build()
    other = events.add("secret", payload=Incident)
    async with Client(server) as client:
        foreign = (await poll(client, name="secret"))["cursor"]
        await other.emit(Incident(1))
        await incidents.emit(Incident(2))
        real = (await poll(client))["cursor"]
        forged = real[:-2] + ("AA" if real[-2:] != "AA" else "BB")
        for wrong in (foreign, forged, "", "0", "v2.a.b", "x" * 100_000, "\x00", "💥"):
            page = await poll(client, wrong)
            assert (page["events"], page["truncated"]) == ([], True), wrong[:20]


@run
async def test_what_does_not_fit_is_refused_with_the_code_of_the_specification() -> None:
    server, events, _ = build()
    events.add("pushed", delivery=["push"])
    async with Client(server) as client:
        assert await refused(poll(client, name="nothing")) == (-32023, {"kind": "event"})
        code, data = await refused(poll(client, name="pushed"))
        assert (code, data["feature"], data["value"]) == (-32026, "deliveryMode", "poll")
        assert (await refused(poll(client, arguments={"severity": 1})))[0] == -32602
        assert (await refused(poll(client, arguments={"severity": "x" * 20_000})))[0] == -32602
        assert (await refused(poll(client, name="x" * 100_000)))[0] == -32023
        assert (await refused(client.request("events/poll", {"cursor": None})))[0] == -32602
        assert (await refused(client.request("events/poll", {"name": NAME, "arguments": []})))[0] == -32602
        assert (await refused(client.request("events/subscribe", {"name": NAME})))[0] == -32601


@run
async def test_older_revisions_and_servers_without_the_extension_have_no_such_method() -> None:
    server, _, _ = build()
    async with Client(server, revision="2025-11-25") as client:
        assert (await refused(client.request("events/list")))[0] == -32601
    async with Client(Server("plain")) as client:
        assert (await refused(client.request("events/list")))[0] == -32601


@run
async def test_rights_are_those_of_the_principal() -> None:
    server, events, _ = build({"scopes": ["read"]}, auth=tokens)
    events.add("own", auth=lambda principal: principal is not None and principal.subject == "a")
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as ann, Client(url, auth="B") as ben:
            assert [one["name"] for one in (await ann.request("events/list"))["events"]] == ["own"]
            assert [one["name"] for one in (await ben.request("events/list"))["events"]] == [NAME]
            code, _ = await refused(poll(ann))
            assert code == -32024
            assert (await poll(ben))["events"] == []
            assert await refused(poll(ben, name="own")) == (-32023, {"kind": "event"})
        with pytest.raises(DovetailError) as error:
            await Client(url).open()
        assert error.value.kind == "authentication_failed"


@run
async def test_a_filter_sees_the_principal() -> None:
    def own(incident: Incident, wanted: Any, principal: Principal | None) -> bool:
        return principal is not None and principal.subject == incident.severity

    events = Events()
    incidents = events.add("mine", payload=Incident, match=own)
    async with served(Server("s", extensions=[events], auth=tokens)) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as ann, Client(url, auth="b") as ben:
            start = (await poll(ann, name="mine"))["cursor"]
            await incidents.emit(Incident(1, "a"))
            await incidents.emit(Incident(2, "b"))
            assert numbers(await poll(ann, start, name="mine")) == [1]
            assert numbers(await poll(ben, start, name="mine")) == [2]


@run
async def test_what_is_emitted_is_checked() -> None:
    server, events, incidents = build(events={"max_payload_bytes": 100})
    big = events.add("big")
    async with server.running():
        with pytest.raises(ValueError, match="does not fit its type"):
            await incidents.emit({"number": "x"})
        with pytest.raises(ValueError, match="at most 100"):
            await big.emit({"text": "x" * 200})
        with pytest.raises(ValueError, match="does not fit"):
            await big.emit([1])
        for id in ("", "a b", "x" * 300, "ü", "a\r\nb"):
            with pytest.raises(ValueError, match="the id of an event"):
                await incidents.emit(Incident(1), id=id)
        for timestamp in (1_800_000_000_000.0, float("nan"), float("inf"), -1e18):
            with pytest.raises(ValueError, match="a Unix time in seconds"):
                await incidents.emit(Incident(1), timestamp=timestamp)


@run
async def test_an_age_of_any_size_is_read() -> None:
    server, _, incidents = build()
    async with Client(server) as client:
        start = (await poll(client))["cursor"]
        await incidents.emit(Incident(1))
        assert numbers(await poll(client, start, maxAgeMs=10**400)) == [1]
        assert numbers(await poll(client, start, maxAgeMs=-(10**400))) == []


async def fill(big: EventType) -> None:
    for _ in range(100):
        await big.emit({"text": "x" * 500})


@run
async def test_a_full_store_refuses_events_and_the_server_goes_on() -> None:
    server, events, _ = build(store=MemoryStore(max_bytes=5000))
    big = events.add("big")
    async with Client(server) as client:
        with pytest.raises(StoreFull):
            await fill(big)
        assert "events" in await poll(client)


# --- sources ----------------------------------------------------------------------------------------------------


class Mailbox:
    """An upstream system with cursors."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.asked: list[tuple[Any, str | None]] = []
        self.fails = False

    async def read(self, arguments: Any, cursor: str | None, principal: Principal | None) -> EventBatch:
        self.asked.append((arguments, cursor))
        if self.fails:
            raise OSError("the mailbox is closed")
        start = len(self.letters) if cursor is None else int(cursor)
        found = [
            Event(data={"text": text}, id=f"letter-{number}", timestamp=1_800_000_000.0)
            for number, text in enumerate(self.letters[start:], start)
        ]
        return EventBatch(events=found, cursor=str(len(self.letters)))


@run
async def test_a_source_is_asked_with_its_own_cursor() -> None:
    mailbox, events = Mailbox(), Events()
    letters = events.add("letter", source=mailbox.read, poll_interval=60.0)
    async with Client(Server("s", extensions=[events])) as client:
        mailbox.letters.append("before")
        first = await poll(client, name="letter")
        assert (first["events"], first["nextPollMs"]) == ([], 60_000)
        mailbox.letters += ["one", "two"]
        page = await poll(client, first["cursor"], name="letter")
        assert [(event["eventId"], event["data"]["text"]) for event in page["events"]] == [
            ("letter-1", "one"),
            ("letter-2", "two"),
        ]
        forged = await poll(client, "1; drop table", name="letter")
        assert (forged["events"], forged["truncated"]) == ([], True)
        assert [cursor for _, cursor in mailbox.asked] == [None, "1", None]
        with pytest.raises(StateError, match="come from its source"):
            await letters.emit({})
        mailbox.fails = True
        assert (await refused(poll(client, name="letter")))[0] == -32603


# --- hooks ------------------------------------------------------------------------------------------------------


@run
async def test_hooks_run_once_for_a_subscription_that_polls_and_the_lease_ends() -> None:
    seen: list[tuple[str, str | None]] = []
    hooks = {
        "on_subscribe": lambda arguments, principal: seen.append(("on", arguments.severity)),
        "on_unsubscribe": lambda arguments, principal: seen.append(("off", arguments.severity)),
    }
    server, events, _ = build(hooks)
    async with Client(server) as client:
        for _ in range(3):
            await poll(client, arguments={"severity": "P1"})
        await poll(client, arguments={"severity": "P2"})
        assert seen == [("on", "P1"), ("on", "P2")]
        assert events.interests is not None
        events.interests.lapse_all()
        await until(lambda: len(seen) == 4)
        assert sorted(seen[2:]) == [("off", "P1"), ("off", "P2")]
        await poll(client, arguments={"severity": "P1"})
        assert seen[-1] == ("on", "P1")


@run
async def test_leases_are_bounded_and_a_hook_that_fails_refuses_the_poll() -> None:
    def broken(arguments: Filter, principal: Principal | None) -> None:
        if arguments.severity == "bad":
            raise OSError("no")

    server, _, _ = build({"on_subscribe": broken}, {"max_interests": 2})
    async with Client(server) as client:
        assert (await refused(poll(client, arguments={"severity": "bad"})))[0] == -32603
        await poll(client, arguments={"severity": "1"})
        await poll(client, arguments={"severity": "2"})
        code, data = await refused(poll(client, arguments={"severity": "3"}))
        assert (code, data["limit"], data["max"]) == (-32025, "subscriptions", 2)
        await poll(client, arguments={"severity": "2"})


@run
async def test_a_poll_that_is_cancelled_while_another_calls_the_hook_leaves_no_interest() -> None:
    called, finish, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hook(arguments: Filter, principal: Principal | None) -> None:
        called.set()
        await finish.wait()

    server, events, incidents = build(
        {"on_subscribe": hook, "on_unsubscribe": lambda arguments, principal: ended.set()}
    )
    async with server.running():
        interests, subscriber = events.interests, incidents.subscriber({}, None)

        async def hold() -> None:
            async with interests.hold(subscriber):
                pass

        first = asyncio.create_task(hold())
        await called.wait()
        second = asyncio.create_task(hold())
        await turns(5)
        first.add_done_callback(lambda _: second.cancel())  # it waits for the end of the hook no more
        finish.set()
        await asyncio.wait((first, second))
        await ended.wait()
        assert len(interests) == 0


# --- registration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"payload": int}, "is no object"),
        ({"delivery": []}, "delivery of the event type"),
        ({"delivery": ["webhook"]}, "delivery of the event type"),
        ({"delivery": ["smoke"]}, "delivery of the event type"),
        ({"scopes": "read"}, "the scopes of event type"),
        ({"source": lambda *_: None}, "is an async function"),
        ({"poll_interval": 0}, "more than 0 seconds"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((RegistrationError, TypeError), match=message):
        Events().add("a", **options)


def test_names_are_checked_and_belong_to_one_server() -> None:
    events = Events()
    events.add("a")
    for wrong in ("", "a b", "x" * 200, "é"):
        with pytest.raises(RegistrationError):
            events.add(wrong)
    with pytest.raises(RegistrationError, match="already registered"):
        events.add("a")
    Server("one", extensions=[events])
    with pytest.raises(RegistrationError, match="belong to the server 'one'"):
        Server("two", extensions=[events])
    with pytest.raises(RegistrationError, match="more than 0"):
        Events(keep_events=0)


@run
async def test_a_type_can_be_added_and_removed_while_the_server_runs() -> None:
    server, events, _ = build()
    async with Client(server) as client:
        late = events.add("late", payload=Incident)
        start = (await poll(client, name="late"))["cursor"]
        await late.emit(Incident(5))
        assert numbers(await poll(client, start, name="late")) == [5]
        events.remove("late")
        assert (await refused(poll(client, name="late")))[0] == -32023


@run
async def test_an_event_type_without_a_server_says_so() -> None:
    with pytest.raises(StateError, match="belongs to no server"):
        await Events().add("a").emit({})


@run
async def test_clients_of_the_earlier_draft_find_the_capability() -> None:
    server, _, _ = build(events={"draft_capability": True})
    async with Client(server) as client:
        assert client.server_capabilities.has("events")


@run
async def test_many_events_at_once_are_each_delivered_once() -> None:
    server, _, incidents = build()
    async with Client(server) as client:
        cursor = (await poll(client))["cursor"]
        await asyncio.gather(*(incidents.emit(Incident(number)) for number in range(150)))
        found: list[int] = []
        while len(found) < 150:
            page = await poll(client, cursor)
            assert page["events"]
            found += numbers(page)
            cursor = page["cursor"]
        assert sorted(found) == list(range(150))


# --- the page ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "first", "options"),
    [
        ("events.md", "option of `Events`", signature(Events)),
        ("events.md", "option of `Events.add`", EventTypeOptions.__annotations__),
        ("events.md", "option of `Webhooks`", Webhooks.__struct_fields__),
        ("events.md", "option of `EventsClient`", signature(EventsClient)),
        ("events.md", "option of `subscribe`", signature(EventsClient.subscribe)),
        ("extensions.md", "option of `ServerCard`", signature(ServerCard)),
    ],
)
def test_the_page_has_a_row_for_every_option(page: str, first: str, options: Iterable[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    table = text.partition(f"| {first} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^\n]* \|$", table, re.MULTILINE)
    assert rows == [name for name in options if name != "self"]
