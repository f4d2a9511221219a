"""Legacy sessions in a store: any process serves them, whichever has opened them, asked in them or streams to them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dovetail import Client, Context, Server
from dovetail.cluster.stored_sessions import storage_name
from dovetail.stores import SqliteStore
from tests.http.children import ANSWER
from tests.http.talk import NEWEST, begin, data, post, resume, stream
from tests.support.aio import run
from tests.support.waiting import turns, until
from tests.support.web import Site, Web, legacy_headers, messages, request, served, text

STOCK = "shop://stock"


class Shop:
    """One process of a server: what its handlers do is known to the test."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.server = server = Server("shop", store=SqliteStore(path), **options)
        self.cancelled, self.begun, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @server.resource(STOCK)
        async def stock() -> str:
            return "42"

        @server.tool
        async def sell() -> str:
            await server.notify_resource_updated(STOCK)
            return "sold"

        @server.tool
        async def ask(ctx: Context) -> str:
            return (await ctx.sample("?", max_tokens=5)).text

        @server.tool
        async def story(ctx: Context) -> str:
            await ctx.info("one")
            self.begun.set()
            await self.go_on.wait()
            await ctx.info("two")
            return "the end"

        @server.tool
        async def nap() -> str:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
            return ""

        @server.tool
        async def loud(ctx: Context) -> str:
            await ctx.debug("hear me")
            return "said"


@asynccontextmanager
async def two(path: Path, **options: Any) -> AsyncIterator[tuple[Shop, Site, Shop, Site]]:
    one, other = Shop(path, **options), Shop(path, **options)
    async with served(one.server) as first, served(other.server) as second:
        yield one, first, other, second


@run
async def test_an_input_request_asked_by_one_process_is_answered_through_another(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        connection, events = await begin(first, session, "ask")
        await anext(events)
        question = await data(events)
        assert question["method"] == "sampling/createMessage"
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}
        assert (await post(second, session, answer)).status == 202
        assert text((await data(events))["result"]) == "yes"
        late = await post(second, session, answer)
        assert late.status in (202, 400)
        unknown = await post(second, session, answer | {"id": question["id"] + "9"})
        assert unknown.status == 400
        await connection.close()


@run
async def test_an_answer_in_an_array_finds_its_way_as_well(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize("2025-03-26")
        connection = await first.connect()
        body = json.dumps(request("tools/call", {"name": "ask"}, id=1)).encode()
        connection.request("POST", "/mcp", legacy_headers("2025-03-26", session), body)
        await connection.head()
        events = connection.events()
        question = await data(events)
        answer = [{"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}]
        assert (await post(second, session, answer, "2025-03-26")).status == 202
        assert text((await data(events))["result"]) == "yes"


@run
async def test_a_response_in_another_session_does_not_answer_an_input_request(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        stranger, _ = await Web(second).initialize(NEWEST)
        connection, events = await begin(first, session, "ask")
        await anext(events)
        question = await data(events)
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}
        assert (await post(second, stranger, answer)).status == 400
        assert (await post(second, session, answer)).status == 202
        assert text((await data(events))["result"]) == "yes"
        await connection.close()


@run
async def test_ids_that_name_no_process_are_unknown(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        for id in ("", "-1", "mail/0-1", "x" * 70_000, "00000000-1", "0000000000-1", 7):
            answer = {"jsonrpc": "2.0", "id": id, "result": ANSWER}
            assert (await post(second, session, answer)).status == 400
        for last in ("00000000-1.1", "0-1.1", "x" * 5_000):
            headers = legacy_headers(NEWEST, session) | {"Last-Event-ID": last}
            assert (await Web(second).ask("GET", headers)).status == 400
        path = "/messages?session_id=abc."
        for worker in ("", "00000000", "..%2F..%2Fx", "x" * 3_000):
            headers = {"Content-Type": "application/json"}
            assert (await Web(second).ask("POST", headers, b"{}", path + worker)).status == 404
        assert (await Web(second).legacy(NEWEST, session, "ping")).status == 200


@run
async def test_a_call_is_cancelled_wherever_it_runs(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (shop, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        body = json.dumps(request("tools/call", {"name": "nap"}, id="n")).encode()
        asked = asyncio.create_task(Web(first).ask("POST", legacy_headers(NEWEST, session), body))
        await shop.begun.wait()
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "n"}}
        assert (await post(second, session, notice)).status == 202
        await shop.cancelled.wait()
        assert (await asked).status == 202


@run
async def test_what_one_process_changes_of_a_session_holds_in_all(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        quiet = {"name": "loud"}
        loud = await Web(second).legacy(NEWEST, session, "tools/call", quiet)
        assert next(message.get("method") for message in messages(loud.body)) == "notifications/message"
        await Web(first).legacy(NEWEST, session, "logging/setLevel", {"level": "error"})
        for site in (first, second):
            silent = await Web(site).legacy(NEWEST, session, "tools/call", quiet)
            assert text(silent.message["result"]) == "said"


@run
async def test_updates_reach_the_general_stream_in_whichever_process_it_is(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        connection, events = await stream(second, session)
        await anext(events)
        await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        for site in (first, second):
            await Web(site).legacy(NEWEST, session, "tools/call", {"name": "sell"})
            assert (await data(events))["params"]["uri"] == STOCK
        await Web(second).legacy(NEWEST, session, "resources/unsubscribe", {"uri": STOCK})
        await Web(first).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        await turns()
        await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        await Web(first).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        assert (await data(events))["method"] == "notifications/resources/updated"
        await connection.close()


@run
async def test_a_general_stream_goes_on_in_another_process_with_what_it_missed(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        connection, events = await stream(first, session)
        await anext(events)
        await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        seen = await anext(events)
        await connection.close()
        await until(lambda: not first.app.state.streams)
        await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        again, later = await resume(second, session, seen.id)
        missed = [await anext(later), await anext(later)]
        assert [event.id.partition(".")[2] for event in missed] == ["2", "3"]
        await Web(first).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        assert (await anext(later)).id.endswith(".4")
        await again.close()


class KeepsNoEvents(SqliteStore):
    """That of a process which is killed before the events it sent were written."""

    async def append(self, log: str, value: bytes, **options: Any) -> str:
        return "" if log.startswith("events/") else await super().append(log, value, **options)


@run
async def test_a_general_stream_goes_on_though_what_it_said_last_was_lost_with_its_process(
    tmp_path: Path,
) -> None:
    doomed, other = Shop(tmp_path / "s.db"), Shop(tmp_path / "s.db")
    doomed.server.lifecycle.store = KeepsNoEvents(tmp_path / "s.db")
    async with served(other.server) as second:
        async with served(doomed.server) as first:
            session, _ = await Web(first).initialize(NEWEST)
            await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
            _, events = await stream(first, session)
            await anext(events)
            await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell"})
            seen = await anext(events)
        again, later = await resume(second, session, seen.id)
        # Changes without a running process are unknown, so every subscription counts as changed.
        while (await data(later))["method"] != "notifications/resources/updated":
            pass
        await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        newest = await anext(later)
        assert json.loads(newest.data)["params"]["uri"] == STOCK
        number = int(newest.id.partition(".")[2])
        assert number > int(seen.id.partition(".")[2]) + 1
        await again.close()
        # Whatever a client says it has seen last: it is heard of from then on.
        for claimed in ("1", str(number + 1_000_000)):
            again, later = await resume(second, session, f"{newest.id.partition('.')[0]}.{claimed}")
            while (await data(later))["method"] != "notifications/resources/updated":
                pass
            await again.close()


class CountsEvents(SqliteStore):
    """Notes what is written down of event logs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.events: list[bytes] = []

    async def append(self, log: str, value: bytes, **options: Any) -> str:
        if log.startswith("events/"):
            self.events.append(value)
        return await super().append(log, value, **options)


@run
async def test_a_change_that_is_refreshed_anyway_costs_no_write_per_subscriber(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "s.db")
    store = shop.server.lifecycle.store = CountsEvents(tmp_path / "s.db")
    async with served(shop.server) as site:
        session, _ = await Web(site).initialize(NEWEST)
        await Web(site).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        connection, events = await stream(site, session)
        await anext(events)
        await Web(site).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        assert (await data(events))["params"]["uri"] == STOCK
        await connection.close()
    assert not any(b"resources/updated" in value for value in store.events)


@run
async def test_of_two_general_streams_in_two_processes_the_one_that_is_left_goes_on(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        await Web(first).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        kept, older = await stream(first, session)
        await anext(older)
        left, newer = await stream(second, session)
        await anext(newer)
        await Web(first).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        assert (await data(newer))["params"]["uri"] == STOCK
        await left.close()
        await until(lambda: not second.app.state.streams)
        heard = asyncio.ensure_future(data(older))
        while not heard.done():
            await Web(second).legacy(NEWEST, session, "tools/call", {"name": "sell"})
            await asyncio.wait({heard}, timeout=0.01)
        assert heard.result()["params"]["uri"] == STOCK
        await kept.close()


@run
async def test_the_stream_of_a_call_goes_on_in_another_process(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (shop, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        connection, events = await begin(first, session, "story", id="s")
        priming = await anext(events)
        await shop.begun.wait()
        await connection.close()
        again, later = await resume(second, session, priming.id)
        assert (await data(later))["params"]["data"] == "one"
        shop.go_on.set()
        assert (await data(later))["params"]["data"] == "two"
        end = await data(later)
        assert (end["id"], text(end["result"])) == ("s", "the end")
        assert [event async for event in later] == []
        await again.close()
        repeated, once_more = await resume(second, session, priming.id)
        assert len([event async for event in once_more]) == 3
        await repeated.close()


@run
async def test_a_client_that_moves_during_an_input_request_answers_it_on_another_worker(
    tmp_path: Path,
) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        connection, events = await begin(first, session, "ask", id="q")
        priming = await anext(events)
        await connection.close()
        again, later = await resume(second, session, priming.id)
        question = await data(later)
        assert question["method"] == "sampling/createMessage"
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}
        assert (await post(second, session, answer)).status == 202
        assert text((await data(later))["result"]) == "yes"
        await again.close()


@run
async def test_a_session_that_was_ended_is_unknown_everywhere(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        session, _ = await Web(first).initialize(NEWEST)
        _, events = await stream(second, session)
        await anext(events)
        assert (await Web(first).ask("DELETE", legacy_headers(NEWEST, session))).status == 204
        assert [event async for event in events] == []
        for site in (first, second):
            assert (await Web(site).legacy(NEWEST, session, "ping")).status == 404


@run
async def test_a_session_is_whole_after_a_restart_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with served(Shop(path).server) as site:
        session, _ = await Web(site).initialize(NEWEST)
        stranded, _ = await Web(site).initialize(NEWEST)
        await Web(site).legacy(NEWEST, session, "resources/subscribe", {"uri": STOCK})
        await Web(site).legacy(NEWEST, session, "logging/setLevel", {"level": "error"})
        _, events = await stream(site, session)
        await anext(events)
        await Web(site).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        seen = await anext(events)
    store = SqliteStore(path)
    for folder in await folders(store, stranded):
        await store.delete(folder)
    await store.close()
    async with served(Shop(path).server) as site:
        assert (await Web(site).legacy(NEWEST, stranded, "ping")).status == 404
        said = await Web(site).legacy(NEWEST, session, "tools/call", {"name": "loud"})
        assert text(said.message["result"]) == "said"
        connection, later = await resume(site, session, seen.id)
        # No process ran in between: anything may have changed.
        told = {(await data(later))["method"] for _ in range(3)}
        assert "notifications/resources/updated" in told
        await Web(site).legacy(NEWEST, session, "tools/call", {"name": "sell"})
        assert (await data(later))["params"]["uri"] == STOCK
        await connection.close()


async def folders(store: SqliteStore, session: str) -> list[str]:
    return [key for key, _ in await store.scan(f"session/{storage_name(session)}")]


@run
async def test_http_and_sse_may_be_served_by_two_processes(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        connection = await first.connect()
        connection.request("GET", "/sse", {"Accept": "text/event-stream"})
        assert (await connection.head()).status == 200
        events = connection.events()
        path = (await anext(events)).data.decode()

        async def say(message: Any) -> int:
            headers = {"Content-Type": "application/json"}
            return (await Web(second).ask("POST", headers, json.dumps(message).encode(), path)).status

        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {"sampling": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        assert await say(request("initialize", params, id=1)) == 202
        assert (await data(events))["result"]["protocolVersion"] == "2024-11-05"
        assert await say({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        assert await say(request("tools/call", {"name": "ask"}, id=2)) == 202
        question = await data(events)
        assert await say({"jsonrpc": "2.0", "id": question["id"], "result": ANSWER}) == 202
        assert text((await data(events))["result"]) == "yes"
        path = path.replace("session_id=", "session_id=x")
        assert await say(request("ping", id=3)) == 404
        await connection.close()


@run
async def test_modern_listeners_of_every_process_are_notified_of_changes(tmp_path: Path) -> None:
    async with two(tmp_path / "s.db") as (_, first, _, second):
        heard: list[str] = []
        url = f"http://127.0.0.1:{second.port}/mcp"
        async with Client(url, revision="modern", on_resource_updated=heard.append) as client:
            await client.subscribe_resource(STOCK)
            await Web(first).call("sell")
            await until(lambda: heard)


@run
async def test_when_letters_may_be_lost_sessions_are_read_again(tmp_path: Path) -> None:
    async with two(tmp_path / "state.db") as (one, first, _, second):
        store = one.server.lifecycle.store
        assert store is not None
        ended, _ = await Web(first).initialize(NEWEST)
        idle, _ = await Web(first).initialize(NEWEST)
        listening, _ = await Web(first).initialize(NEWEST)
        for session in (ended, idle, listening):
            assert (await Web(second).legacy(NEWEST, session, "ping")).status == 200
        await Web(second).legacy(NEWEST, listening, "resources/subscribe", {"uri": STOCK})
        general, told = await stream(second, listening)
        await anext(told)
        # Another process has ended one, and its letter was lost with the connection.
        await store.delete(f"session/{storage_name(ended)}/state")
        assert (await Web(second).legacy(NEWEST, ended, "ping")).status == 200
        await store.publish("", b"")
        heard = [await data(told) for _ in range(3)]
        assert {"uri": STOCK} in [message.get("params") for message in heard]
        assert (await Web(second).legacy(NEWEST, ended, "ping")).status == 404
        for session in (idle, listening):
            assert (await Web(second).legacy(NEWEST, session, "ping")).status == 200
        await general.close()
