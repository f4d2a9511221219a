"""What a server counts, seen through ``/metrics`` and through ``server.metrics``."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail import Client, DovetailError, Principal, Refusal, Server, ToolError
from dovetail.auth import StaticTokens
from dovetail.middleware import Caching, CircuitBreaker, ConcurrencyLimit, RateLimit
from dovetail.stores import MemoryStore
from dovetail.telemetry.exposition import wants_openmetrics
from dovetail.telemetry.metric_definitions import FAMILIES, NAMES
from dovetail.telemetry.shared_registry import OTHER
from tests.drivers.parrot import connected
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.prometheus import problems
from tests.support.waiting import until
from tests.support.web import Web, legacy_headers, modern, modern_headers, served

ALL = [*LEGACY, MODERN]


def shop(*middleware: Any, **options: Any) -> Server:
    server = Server("shop", middleware=middleware, **options)

    @server.tool
    async def work(how: str = "fine") -> str:
        """Work."""
        if how == "broken":
            raise ConnectionError("the database is away")
        if how == "failed":
            raise ToolError("no such order")
        if how == "refused":
            raise Refusal(1056)
        return how

    @server.tool(annotations={"readOnlyHint": True})
    async def look() -> str:
        """Look."""
        return "seen"

    @server.resource("shop://hours")
    async def hours() -> str:
        return "nine to five"

    @server.resource("shop://{item}/price")
    async def price(item: str) -> str:
        return item

    @server.prompt
    async def greet() -> str:
        return "hello"

    return server


def samples(text: bytes) -> dict[str, float]:
    """Every sample of an exposition, by its name and labels as they are written."""
    lines = [line.rpartition(" ") for line in text.decode().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@pytest.mark.parametrize("revision", ALL)
@run
async def test_calls_are_counted_by_what_became_of_them(revision: str) -> None:
    server = shop()
    metrics = server.metrics
    peer = Peer(server, revision)
    for how in ("fine", "fine", "failed", "broken", "refused"):
        await peer.send("tools/call", name="work", arguments={"how": how})
    await peer.send("tools/call", name="work", arguments={"how": 5})
    await peer.send("prompts/get", name="greet")
    outcomes = {"ok": 2, "failed": 1, "broken": 1, "refused": 1}
    for outcome, count in outcomes.items():
        found = metrics.read("dovetail_calls_total", method="tools/call", name="work", outcome=outcome)
        assert found >= count, outcome
    assert metrics.read("dovetail_calls_total", name="work") == 6
    assert metrics.read("dovetail_call_seconds", method="tools/call", name="work") == 6
    assert metrics.read("dovetail_calls_total", method="prompts/get", name="greet", outcome="ok") == 1
    assert metrics.read("dovetail_refusals_total", code="1056") == 1
    assert metrics.read("dovetail_in_flight") == 0


@run
async def test_a_call_under_way_is_in_flight_and_one_given_up_is_cancelled() -> None:
    server, begun = Server("slow"), asyncio.Event()

    @server.tool
    async def nap() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    metrics = server.metrics
    peer = Peer(server)
    task = asyncio.ensure_future(peer.send("tools/call", name="nap"))
    await begun.wait()
    assert metrics.read("dovetail_in_flight") == 1
    task.cancel()
    await asyncio.wait({task})
    assert metrics.read("dovetail_in_flight") == 0
    assert metrics.read("dovetail_calls_total", name="nap", outcome="cancelled") == 1


@run
async def test_nothing_is_counted_and_there_is_no_such_page_unless_asked_for() -> None:
    server = shop()
    before = server.dispatcher.respond
    async with served(server) as site:
        web = Web(site)
        await web.call("look")
        assert (await web.ask("GET", {}, path="/metrics")).status == 404
    assert server.dispatcher.respond == before
    assert "metrics" not in vars(server)


@pytest.mark.parametrize("value", ["1", "true"])
@run
async def test_the_environment_opens_it_too(value: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOVETAIL_METRICS", value)
        async with served(shop()) as site:
            assert (await Web(site).ask("GET", {}, path="/metrics")).status == 200
        patch.setenv("DOVETAIL_METRICS", "0")
        async with served(shop()) as site:
            assert (await Web(site).ask("GET", {}, path="/metrics")).status == 404


@pytest.mark.prometheus
@run
async def test_promtool_finds_nothing_wrong_with_what_a_busy_server_says() -> None:
    server = shop(
        RateLimit(total="1000/s"),
        CircuitBreaker(failure_threshold=1),
        ConcurrencyLimit(total=5),
        Caching(60),
        store=MemoryStore(),
    )
    server.health.add("db", lambda: True)
    async with served(server, metrics=True) as site:
        web = Web(site)
        for how in ("fine", "failed", "broken", "broken"):
            await web.modern("tools/call", {"name": "work", "arguments": {"how": how}})
        await web.call("look")
        await web.ask("POST", modern_headers(modern("ping")), b"{rubbish")
        page = await web.ask("GET", {}, path="/metrics")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert problems(page.body) == ""
    assert problems(b"dovetail_x{ 1\n") != ""  # it would have said so


@run
async def test_openmetrics_is_sent_on_request() -> None:
    async with served(shop(), metrics=True) as site:
        web = Web(site)
        await web.call("look")
        page = await web.ask(
            "GET", {"Accept": "application/openmetrics-text;version=1.0.0,*/*;q=0.1"}, path="/metrics"
        )
        assert page.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        lines = page.body.decode().splitlines()
        assert lines[-1] == "# EOF"
        assert "# TYPE dovetail_calls counter" in lines
        assert 'dovetail_calls_total{method="tools/call",name="look",outcome="ok"} 1' in lines
        assert not [line for line in lines if line.startswith("# TYPE") and "_total" in line]


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; q=0.2, text/plain; q=0.5", False),
        ("text/plain;version=0.0.4;q=0.5, Application/OpenMetrics-Text;version=1.0.0", True),
        ("application/openmetrics-text;q=rubbish", False),
    ],
)
def test_the_accept_header_chooses(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted


@run
async def test_a_protected_server_wants_a_token_for_its_metrics() -> None:
    protected = shop(auth=StaticTokens({"ann-token": Principal("ann")}))
    async with served(protected, metrics=True) as site:
        web = Web(site)
        found = await web.ask("GET", {}, path="/metrics")
        assert (found.status, b"dovetail_" in found.body) == (401, False)
        assert "Bearer" in found.headers["www-authenticate"]
        assert (await web.ask("GET", {"Authorization": "Bearer no"}, path="/metrics")).status == 401
        found = await web.ask("GET", {"Authorization": "Bearer ann-token"}, path="/metrics")
        assert (found.status, b"dovetail_" in found.body) == (200, True)


@run
async def test_the_metrics_of_a_protected_server_can_be_open_or_have_a_token_of_their_own() -> None:
    tokens = StaticTokens({"ann-token": Principal("ann")})
    async with served(shop(auth=tokens), metrics=True, metrics_token="") as site:
        assert (await Web(site).ask("GET", {}, path="/metrics")).status == 200
    async with served(shop(auth=tokens), metrics=True, metrics_token="s3cret") as site:
        web = Web(site)
        assert (await web.ask("GET", {"Authorization": "Bearer ann-token"}, path="/metrics")).status == 401
        assert (await web.ask("GET", {"Authorization": "Bearer s3cret"}, path="/metrics")).status == 200


@run
async def test_who_may_scrape() -> None:
    async with served(shop(), metrics=True, metrics_token="s3cret") as site:
        web = Web(site)
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Basic s3cret"}):
            found = await web.ask("GET", headers, path="/metrics")
            assert (found.status, found.body) == (401, b"")
        mine = {"Authorization": "Bearer s3cret"}
        assert (await web.ask("GET", mine, path="/metrics")).status == 200
        assert (await web.ask("POST", mine, b"", path="/metrics")).status == 405
        page = await web.ask("GET", {**mine, "Origin": "https://evil.example"}, path="/metrics")
        assert page.status == 403
        for status, headers in ((200, mine), (401, {})):  # scrapers use the IP address of the machine
            found = await web.ask("GET", {**headers, "Host": "10.1.2.3:8000"}, path="/metrics")
            assert found.status == status
    async with served(shop(), metrics=True) as site:
        rebound = await Web(site).ask("GET", {"Host": "evil.example"}, path="/metrics")
        assert rebound.status == 403


def hostile_names() -> Iterator[str]:
    yield from ('a"b', "a\\", "a\nb", 'x"} 1\ndovetail_evil 1', "\x1b[2J", "\x00", "é" * 5000, "\ud800")


@run
async def test_names_that_clients_make_up_are_one_label() -> None:
    server = shop()
    metrics = server.metrics
    peer = Peer(server)
    await peer.send("tools/call", name="work")
    size = len(metrics.collect())
    for number in range(3_000):
        await server.handle(
            json.dumps(modern("tools/call", {"name": f"tool-{number}", "arguments": {}})).encode()
        )
    for method, member in (("prompts/get", "name"), ("resources/read", "uri")):
        for number in range(100):
            await server.handle(json.dumps(modern(method, {member: f"x:{number}"})).encode())
    assert metrics.read("dovetail_calls_total", method="tools/call", name=OTHER) == 3_000
    assert metrics.read("dovetail_calls_total", method="resources/read", name=OTHER) == 100
    assert len(metrics.collect()) <= size + 3 * 3  # ok, error and seconds of three methods


@run
async def test_a_server_with_too_many_tools_counts_the_rest_together() -> None:
    server = Server("many")
    for number in range(NAMES + 200):
        server.add_tool(name=f"t{number}", input_schema={"type": "object"}, handler=lambda arguments: "x")
    metrics = server.metrics
    for number in range(NAMES + 200):
        message = modern("tools/call", {"name": f"t{number}", "arguments": {}})
        await server.handle(json.dumps(message).encode())
    assert metrics.read("dovetail_calls_total", name="t1") == 1
    assert metrics.read("dovetail_calls_total", name=f"t{NAMES + 150}") == 0
    assert metrics.read("dovetail_calls_total", name=OTHER) >= 200
    assert metrics.read("dovetail_calls_total") == NAMES + 200


@pytest.mark.prometheus
@pytest.mark.parametrize("openmetrics", [False, True])
def test_labels_of_anybodys_text_are_escaped_and_cut(openmetrics: bool) -> None:
    metrics = Server("odd").metrics
    for name in hostile_names():
        metrics.count("dovetail_client_workarounds_total", name)
    text = metrics.text(openmetrics=openmetrics)
    assert not [line for line in text.splitlines() if line.startswith(b"dovetail_evil")]
    assert b"\x1b" not in text
    assert b"\x00" not in text
    assert max(map(len, text.splitlines())) < 500
    if not openmetrics:
        assert problems(text) == ""


@run
async def test_a_template_is_one_name_however_many_resources_it_has() -> None:
    server = shop()
    metrics = server.metrics
    peer = Peer(server)
    for item in ("tea", "milk", "bread"):
        await peer.send("resources/read", uri=f"shop://{item}/price")
    await peer.send("resources/read", uri="shop://hours")
    assert metrics.read("dovetail_calls_total", name="shop://{item}/price", outcome="ok") == 3
    assert metrics.read("dovetail_calls_total", name="shop://hours", outcome="ok") == 1


@run
async def test_refusals_and_violations_are_counted_before_there_is_a_call() -> None:
    server = shop(RateLimit(total="1/m", burst=1))
    async with served(server, metrics=True) as site:
        web, metrics = Web(site), server.metrics
        await web.call("look")
        assert (await web.modern("tools/call", {"name": "look", "arguments": {}})).status == 429
        await web.ask("POST", modern_headers(modern("ping")), b"{rubbish")
        unknown = {"jsonrpc": "2.0", "method": "notifications/unheard_of", "params": modern("x")["params"]}
        await web.ask("POST", modern_headers(unknown), json.dumps(unknown).encode())
    assert metrics.read("dovetail_refusals_total", code="1003") == 1
    assert metrics.read("dovetail_calls_total", name="look", outcome="refused") == 1
    assert metrics.read("dovetail_refusals_total", code="-32700") == 1
    assert metrics.read("dovetail_violations_total", kind="parse_error") == 1
    assert metrics.read("dovetail_violations_total", kind="invalid_notification_type") == 1


@run
async def test_the_circuit_breaker_reports_its_states() -> None:
    server = shop(CircuitBreaker(failure_threshold=2, reset_timeout=3600))
    metrics = server.metrics
    peer = Peer(server)
    assert metrics.read("dovetail_circuit_breaker_state", name="work") == 0
    for _ in range(2):
        await peer.send("tools/call", name="work", arguments={"how": "broken"})
    assert metrics.read("dovetail_circuit_breaker_state", name="work") == 2
    await peer.send("tools/call", name="work")
    assert metrics.read("dovetail_refusals_total", code="1008") == 1


@run
async def test_a_circuit_that_has_closed_again_is_shown_as_closed() -> None:
    server = shop(CircuitBreaker(failure_threshold=1, reset_timeout=1e-6, success_threshold=1))
    metrics = server.metrics
    peer = Peer(server)
    await peer.send("tools/call", name="work", arguments={"how": "broken"})
    assert metrics.read("dovetail_circuit_breaker_state", name="work") == 2
    await peer.send("tools/call", name="work")
    assert metrics.read("dovetail_circuit_breaker_state", name="work") == 0
    assert 'dovetail_circuit_breaker_state{name="work"} 0' in metrics.text().decode()


@run
async def test_what_layers_store_and_health_know_is_shown() -> None:
    store = MemoryStore()
    server = shop(Caching(60), ConcurrencyLimit(total=1), store=store)
    server.health.add("db", lambda: False, interval=0.01, failure_threshold=1)
    metrics = server.metrics
    peer = Peer(server)
    async with server.running():
        for _ in range(3):
            await peer.send("tools/call", name="look")
        await until(lambda: metrics.read("dovetail_component_ok", name="db") == 0)
        server.health.remove("db")
        assert metrics.read("dovetail_component_ok", name="db") == 1
        await store.put("a/b", b"1")
        await store.get("a/b")
    assert metrics.read("dovetail_cache_hits_total") == 2
    assert metrics.read("dovetail_cache_misses_total") == 1
    assert metrics.read("dovetail_queue", queue="concurrency") == 0
    assert metrics.read("dovetail_store_seconds", verb="put") >= 1
    assert metrics.read("dovetail_store_seconds", verb="get") >= 1


@run
async def test_what_a_store_cannot_do_is_counted() -> None:
    class Full(MemoryStore):
        async def put(self, key: str, *args: Any, **options: Any) -> Any:
            if key == "a/b":
                raise OSError("no space left")
            return await super().put(key, *args, **options)

    metrics = (server := shop(store=Full())).metrics
    async with server.running():
        assert server.lifecycle.store is not None
        with pytest.raises(OSError, match="no space"):
            await server.lifecycle.store.put("a/b", b"1")
    assert metrics.read("dovetail_store_failures_total", verb="put") == 1
    assert metrics.read("dovetail_store_failures_total", verb="get") == 0


@run
async def test_calls_that_wait_for_a_place_are_the_queue() -> None:
    guard = ConcurrencyLimit(total=1)
    server, begun, go = Server("narrow", middleware=[guard]), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        await go.wait()
        return "done"

    metrics = server.metrics
    peer = Peer(server)
    tasks = [asyncio.ensure_future(peer.send("tools/call", name="wait")) for _ in range(3)]
    await begun.wait()
    await until(lambda: guard.waiting == 2)
    assert metrics.read("dovetail_queue", queue="concurrency") == 2
    assert metrics.read("dovetail_in_flight") == 3
    go.set()
    await asyncio.gather(*tasks)


@run
async def test_sessions_streams_subscriptions_and_reconnects() -> None:
    server = shop()
    async with served(server, metrics=True) as site:
        web, metrics, newest = Web(site), server.metrics, LEGACY[-1]
        session, _ = await web.initialize(newest)
        await web.initialize(newest)
        assert metrics.read("dovetail_sessions") == 2
        await web.legacy(newest, session, "resources/subscribe", {"uri": "shop://hours"})
        assert metrics.read("dovetail_subscriptions") == 1
        async with await site.connect() as connection:
            headers = legacy_headers(newest, session)
            connection.request("GET", "/mcp", headers)
            assert (await connection.head()).status == 200
            event = await anext(connection.events())
            assert metrics.read("dovetail_streams") == 1
            async with await site.connect() as again:
                again.request("GET", "/mcp", headers | {"Last-Event-ID": str(event.id)})
                assert (await again.head()).status == 200
                await until(lambda: metrics.read("dovetail_reconnects_total") == 1)
        await until(lambda: metrics.read("dovetail_streams") == 0)
        await web.legacy(newest, session, "resources/unsubscribe", {"uri": "shop://hours"})
        assert metrics.read("dovetail_subscriptions") == 0
        await web.ask("DELETE", legacy_headers(newest, session))
        assert metrics.read("dovetail_sessions") == 1


@run
async def test_a_stream_that_listens_is_no_call_in_flight() -> None:
    server = shop()
    async with served(server, metrics=True) as site:
        message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with await site.connect() as connection:
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
            assert (await connection.head()).status == 200
            assert server.metrics.read("dovetail_streams") == 1
            assert server.metrics.read("dovetail_in_flight") == 0
        await until(lambda: server.metrics.read("dovetail_streams") == 0)
    assert server.metrics.read("dovetail_call_seconds", method="subscriptions/listen") == 0


@run
async def test_a_source_that_breaks_breaks_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    server = shop()
    server.metrics.watch(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    peer = Peer(server)
    await peer.send("tools/call", name="look")
    assert server.metrics.read("dovetail_calls_total", name="look") == 1
    assert "ZeroDivisionError" in caplog.text


def test_a_metric_that_is_none_is_said_to_be_none() -> None:
    with pytest.raises(KeyError):
        Server("x").metrics.read("dovetail_nonsense")


def test_every_metric_is_named_before_anything_is_counted() -> None:
    said = Server("new").metrics.text().decode()
    assert re.findall(r"^# TYPE (\w+) \w+$", said, re.M) == list(FAMILIES)
    assert re.findall(r"^# HELP (\w+) .+$", said, re.M) == list(FAMILIES)


def test_every_metric_has_a_name_that_says_its_kind_and_a_help() -> None:
    for name, family in FAMILIES.items():
        assert name.startswith("dovetail_")
        assert name.endswith("_total") == (family.kind == "counter")
        assert name.endswith("_seconds") == (family.kind == "histogram")
        assert family.help.endswith(".")


@run
async def test_a_server_that_gets_a_store_later_goes_on_counting() -> None:
    server = shop()
    metrics = server.metrics
    server.lifecycle.use_store(store := MemoryStore())
    async with server.running():
        await Peer(server).send("tools/call", name="look")
        await store.put("a/b", b"1")
    assert metrics.read("dovetail_calls_total", name="look", outcome="ok") == 1
    assert metrics.read("dovetail_store_seconds") > 0


@run
async def test_the_work_of_a_task_is_counted_when_it_ends() -> None:
    server, go = Server("works"), asyncio.Event()

    @server.tool(task="required")
    async def render() -> str:
        await go.wait()
        raise ConnectionError("the printer is away")

    metrics = server.metrics
    peer = Peer(server, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}})
    await peer.send("tools/call", name="render", arguments={})
    assert metrics.read("dovetail_calls_total", method="tools/call", name="render", outcome="ok") == 1
    assert metrics.read("dovetail_calls_total", method="task") == 0
    go.set()
    await until(
        lambda: metrics.read("dovetail_calls_total", method="task", name="render", outcome="broken") == 1
    )
    assert metrics.read("dovetail_call_seconds", method="task", name="render") == 1


@run
async def test_tools_of_a_mounted_server_have_names_and_what_it_does_not_have_has_none() -> None:
    server, child = Server("whole"), shop()
    server.mount(child, prefix="shop")
    metrics = server.metrics
    async with Client(server) as client:
        await client.call_tool("shop_look")
        await client.call_tool("shop_look")
        for number in range(20):
            with pytest.raises(DovetailError):
                await client.call_tool(f"shop_nothing_{number}")
    assert metrics.read("dovetail_calls_total", name="shop_look", outcome="ok") == 2
    assert metrics.read("dovetail_call_seconds", name="shop_look") == 2
    assert metrics.read("dovetail_calls_total", method="tools/call", name=OTHER) == 20


@run
async def test_resources_of_a_mounted_server_are_counted_by_how_they_begin_and_never_without_end() -> None:
    server, child = Server("whole"), Server("child")

    @child.resource("city://{name}/weather")
    async def weather(name: str) -> str:
        return name

    for number in range(NAMES + 200):
        child.add_resource(f"s{number}://{{name}}", weather)
    server.mount(child, prefix="world")
    metrics = server.metrics
    async with Client(server) as client:
        for name in ("oslo", "bergen", "oslo"):
            await client.read_resource(f"city://world/{name}/weather")
        with pytest.raises(DovetailError):
            await client.read_resource("city://elsewhere/oslo")
        assert metrics.read("dovetail_calls_total", name="city://world", outcome="ok") == 3
        assert metrics.read("dovetail_call_seconds", name="city://world") == 3
        assert metrics.read("dovetail_calls_total", method="resources/read", name=OTHER) == 1
        for number in range(NAMES + 200):
            await client.read_resource(f"s{number}://world/oslo")
        await client.read_resource("city://world/oslo/weather")
    assert metrics.read("dovetail_calls_total", name="city://world", outcome="ok") == 4
    assert metrics.read("dovetail_calls_total", method="resources/read", name=OTHER) > 200


@run
async def test_calls_that_wait_for_their_turn_at_a_handler_are_a_queue_of_their_own() -> None:
    server, begun, go = Server("narrow"), asyncio.Event(), asyncio.Event()

    @server.tool(limit=1)
    async def wait() -> str:
        begun.set()
        await go.wait()
        return "done"

    metrics = server.metrics
    tasks = [asyncio.ensure_future(Peer(server).send("tools/call", name="wait")) for _ in range(3)]
    await begun.wait()
    await until(lambda: metrics.read("dovetail_queue", queue="handlers") == 2)
    go.set()
    await asyncio.gather(*tasks)
    assert metrics.read("dovetail_queue", queue="handlers") == 0


@run
async def test_a_call_that_comes_while_a_connection_is_drained_is_a_refusal() -> None:
    server, begun, go = Server("slow"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def nap() -> str:
        begun.set()
        await go.wait()
        return "rested"

    metrics = server.metrics
    client, duplex = await connected(server)
    first = client.start("tools/call", {"name": "nap", "arguments": {}})
    await begun.wait()
    closing = asyncio.ensure_future(duplex.close(drain=60))
    await asyncio.sleep(0)
    late = client.start("tools/call", {"name": "nap", "arguments": {}})
    assert (await client.response(late))["error"]["code"] == 1008
    go.set()
    await client.response(first)
    await closing
    await client.over
    assert metrics.read("dovetail_refusals_total", code="1008") == 1
