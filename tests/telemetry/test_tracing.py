"""Spans: one trace from client through server to task, on every transport, without effect on calls."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dovetail import Client, Context, DovetailError, ProtocolError, Refusal, Server, ToolError
from dovetail.middleware import Tracing
from dovetail.stores import SqliteStore
from dovetail.transports import tcp
from tests.http.children import child
from tests.support.aio import run
from tests.support.collector import Collected, Collector
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.redis import free_port
from tests.support.waiting import until
from tests.support.web import served

ALL = [*LEGACY, MODERN]
SENT, SERVED = trace.SpanKind.CLIENT, trace.SpanKind.SERVER


class Watched:
    """Providers of a test's own, and what they have seen."""

    def __init__(self, *more: SpanProcessor) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        for processor in (*more, SimpleSpanProcessor(self._exporter)):
            self.tracers.add_span_processor(processor)
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def middleware(self) -> Tracing:
        return Tracing(tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def one(self, name: str, kind: trace.SpanKind) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name and span.kind is kind]
        return found

    @property
    def root(self) -> Any:
        return self.tracers.get_tracer("test").start_as_current_span("root")

    def durations(self) -> dict[str, list[dict[str, Any]]]:
        """The recorded attributes, by the name of the instrument."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: [dict(point.attributes or {}) for point in metric.data.data_points]
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def shop(*middleware: Any, **options: Any) -> Server:
    server = Server("shop", middleware=middleware, **options)

    @server.tool
    async def work(how: str = "fine") -> str:
        """Work."""
        if how == "failed":
            raise ToolError("no such order")
        if how == "refused":
            raise Refusal(1003, hint="later")
        return trace.format_span_id(trace.get_current_span().get_span_context().span_id)

    @server.tool
    def threaded() -> str:
        return trace.format_span_id(trace.get_current_span().get_span_context().span_id)

    @server.tool
    async def bag() -> str:
        return str(baggage.get_baggage("who"))

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", ["yes", "no"])
        return f"{answer.action} {answer.data}"

    @server.tool(task="required")
    async def render() -> str:
        return trace.format_span_id(trace.get_current_span().get_span_context().span_id)

    @server.resource("shop://hours")
    async def hours() -> str:
        return "nine to five"

    @server.prompt
    async def greet() -> str:
        return "hello"

    return server


@asynccontextmanager
async def reached(server: Server, transport: str) -> AsyncIterator[Any]:
    """Where a client finds ``server`` on ``transport``."""
    async with AsyncExitStack() as stack:
        if transport == "memory":
            yield server
        elif transport == "tcp":
            port = free_port()
            task = asyncio.create_task(tcp.serve(server.dispatcher, "127.0.0.1", port))
            stack.callback(task.cancel)
            await until(lambda: _listens(port))
            yield f"tcp://127.0.0.1:{port}"
        else:
            site = await stack.enter_async_context(served(server))
            scheme, path = {"http": ("http", "mcp"), "ws": ("ws", "mcp"), "sse": ("http", "sse")}[transport]
            yield f"{scheme}://127.0.0.1:{site.port}/{path}"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


@pytest.mark.parametrize("transport", ["memory", "tcp", "http", "ws", "sse"])
@pytest.mark.parametrize("revision", ALL)
def test_one_trace_on_every_transport(transport: str, revision: str) -> None:
    if transport == "sse" and revision == MODERN:
        pytest.skip("HTTP+SSE exists on a legacy revision only")

    @run
    async def scenario() -> None:
        watched = Watched()
        async with (
            reached(shop(watched.middleware()), transport) as target,
            Client(target, revision=revision, middleware=[watched.middleware()]) as client,
        ):
            with watched.root as root:
                seen = (await client.call_tool("work")).text
                await client.read_resource("shop://hours")
                await client.get_prompt("greet")
        whole = root.get_span_context()
        sent = watched.one("tools/call work", trace.SpanKind.CLIENT)
        answered = watched.one("tools/call work", trace.SpanKind.SERVER)
        assert parent_of(sent) == whole.span_id
        assert parent_of(answered) == sent.context.span_id
        assert seen == trace.format_span_id(answered.context.span_id)
        for name in ("tools/call work", "resources/read", "prompts/get greet"):
            both = [span for span in watched.spans if span.name == name]
            assert {span.context.trace_id for span in both} == {whole.trace_id}
            assert {span.kind for span in both} == {trace.SpanKind.CLIENT, trace.SpanKind.SERVER}

    scenario()


@run
async def test_spans_say_what_the_conventions_ask_for() -> None:
    watched = Watched()
    async with (
        reached(shop(watched.middleware()), "http") as target,
        Client(target, revision=LEGACY[-1], middleware=[watched.middleware()]) as client,
    ):
        await client.call_tool("work", {"how": "fine"})
        await client.read_resource("shop://hours")
        with pytest.raises(ToolError):
            await client.call_tool("work", {"how": "failed"})
    fine, failed = [one for one in watched.spans if one.name == "tools/call work" and one.kind is SERVED]
    sent = next(one for one in watched.spans if one.name == "tools/call work" and one.kind is SENT)
    about, told = dict(fine.attributes or {}), dict(sent.attributes or {})
    assert about["jsonrpc.request.id"] == told.pop("jsonrpc.request.id")
    assert told == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": LEGACY[-1],
        "gen_ai.tool.name": "work",
        "gen_ai.operation.name": "execute_tool",
    }
    network = {"network.transport": "tcp", "network.protocol.name": "http"}
    assert about.items() >= {**told, **network}.items()
    assert len(str(about["mcp.session.id"])) == 32  # a hash, not the id, which is a credential
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "tool_error"
    read = watched.one("resources/read", trace.SpanKind.SERVER)
    assert (read.attributes or {})["mcp.resource.uri"] == "shop://hours"


@run
async def test_failures_are_distinguished_by_their_code() -> None:
    watched = Watched()
    peer = Peer(shop(watched.middleware()))
    await peer.send("tools/call", name="work", arguments={"how": "refused"})
    await peer.send("tools/call", name="nobody's", arguments={})
    refused = watched.one("tools/call work", trace.SpanKind.SERVER)
    assert (refused.attributes or {})["error.type"] == "1003"
    assert (refused.attributes or {})["rpc.response.status_code"] == "1003"
    unknown = watched.one("tools/call", trace.SpanKind.SERVER)  # a name of a client is not the name of a span
    assert (unknown.attributes or {})["gen_ai.tool.name"] == "nobody's"
    assert unknown.status.status_code is trace.StatusCode.ERROR
    points = watched.durations()["mcp.server.operation.duration"]
    assert {point.get("gen_ai.tool.name") for point in points} == {"work", None}


@run
async def test_a_call_that_is_given_up_is_no_error() -> None:
    watched, begun = Watched(), asyncio.Event()
    server = Server("slow", middleware=[watched.middleware()])

    @server.tool
    async def nap() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(Peer(server).send("tools/call", name="nap"))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    span = watched.one("tools/call nap", trace.SpanKind.SERVER)
    assert (span.attributes or {})["error.type"] == "cancelled"
    assert span.status.status_code is trace.StatusCode.UNSET


@pytest.mark.parametrize("revision", ALL)
@run
async def test_an_input_request_and_its_answer_belong_to_the_trace(revision: str) -> None:
    watched, seen = Watched(), list[int]()

    async def answer(request: Any) -> Any:
        seen.append(trace.get_current_span().get_span_context().trace_id)
        return {"action": "accept", "content": {"value": "yes"}}

    if revision < "2025-06-18":
        return  # nothing can be asked this way
    async with (
        reached(shop(watched.middleware()), "http") as target,
        Client(target, revision=revision, on_elicit=answer, middleware=[watched.middleware()]) as client,
    ):
        with watched.root as root:
            assert (await client.call_tool("ask")).text == "accept yes"
    assert seen == [root.get_span_context().trace_id]
    if revision == MODERN:
        return  # there an input request is not a JSON-RPC request
    answered, asked = watched.one("elicitation/create", SERVED), watched.one("elicitation/create", SENT)
    assert parent_of(answered) == asked.context.span_id
    assert parent_of(asked) == watched.one("tools/call ask", SERVED).context.span_id
    assert (asked.attributes or {})["jsonrpc.request.id"]


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_the_handshake_of_a_client_is_a_span_that_the_servers_belongs_to(revision: str) -> None:
    watched = Watched()
    method = "server/discover" if revision == MODERN else "initialize"
    async with (
        reached(shop(watched.middleware()), "http") as target,
        Client(target, revision=revision, middleware=[watched.middleware()]) as client,
    ):
        await client.list_tools()
    sent = watched.one(method, SENT)
    assert parent_of(watched.one(method, SERVED)) == sent.context.span_id
    assert sent.end_time is not None


@run
async def test_an_input_request_that_fails_says_so_in_its_span() -> None:
    watched = Watched()

    async def answer(request: Any) -> Any:
        raise RuntimeError("nobody is there")

    async with (
        reached(shop(watched.middleware()), "http") as target,
        Client(target, revision="2025-06-18", on_elicit=answer, middleware=[watched.middleware()]) as client,
    ):
        with pytest.raises(DovetailError):
            await client.call_tool("ask")
    assert watched.one("elicitation/create", SENT).status.status_code is trace.StatusCode.ERROR


@run
async def test_threads_are_inside_the_span_and_baggage_travels() -> None:
    watched = Watched()
    async with (
        reached(shop(watched.middleware()), "tcp") as target,
        Client(target, middleware=[watched.middleware()]) as client,
    ):
        token = context.attach(baggage.set_baggage("who", "ann"))
        assert (await client.call_tool("bag")).text == "ann"
        context.detach(token)
        assert (await client.call_tool("bag")).text == "None"
        seen = (await client.call_tool("threaded")).text
    span = watched.one("tools/call threaded", trace.SpanKind.SERVER)
    assert seen == trace.format_span_id(span.context.span_id)


@run
async def test_what_a_caller_puts_into_meta_wins() -> None:
    watched = Watched()
    given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with (
        reached(shop(watched.middleware()), "memory") as target,
        Client(target, middleware=[watched.middleware()]) as client,
    ):
        await client.call_tool("work", meta={"traceparent": given})
    span = watched.one("tools/call work", trace.SpanKind.SERVER)
    assert trace.format_trace_id(span.context.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert parent_of(span) == 0x00F067AA0BA902B7
    assert [link.context.is_valid for link in span.links] == [True]  # the span around it, which is another's


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": 5},
        {"traceparent": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]},
        {"traceparent": "rubbish", "tracestate": "\n\x00"},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"tracestate": "a=b," * 10_000, "baggage": "x=" + "y" * 100_000},
        {"baggage": {"who": "me"}, "tracestate": None},
    ],
    ids=["number", "list", "rubbish", "zeros", "huge", "object"],
)
@run
async def test_a_context_of_rubbish_is_none(revision: str, meta: dict[str, Any]) -> None:
    watched = Watched()
    peer = Peer(shop(watched.middleware()), revision)
    peer.meta = dict(meta)
    assert await peer.text("bag") == "None"
    span = watched.one("tools/call bag", trace.SpanKind.SERVER)
    assert span.parent is None


class Broken(SpanProcessor):
    """An exporter's worst day."""

    def __init__(self, where: str) -> None:
        self.where = where

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.where == "start":
            raise RuntimeError("no more room")

    def on_end(self, span: Any) -> None:
        if self.where == "end":
            raise RuntimeError("the collector is away")


@pytest.mark.parametrize("where", ["start", "end"])
@run
async def test_what_breaks_in_opentelemetry_breaks_no_call(where: str) -> None:
    watched, heard = Watched(Broken(where)), list[logging.LogRecord]()
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    logging.getLogger("dovetail.tracing").addHandler(handler)
    try:
        async with (
            reached(shop(watched.middleware()), "http") as target,
            Client(target, middleware=[watched.middleware()]) as client,
        ):
            for _ in range(3):
                assert (await client.call_tool("work")).text
            with pytest.raises(ProtocolError):
                await client.call_tool("nobody's")
    finally:
        logging.getLogger("dovetail.tracing").removeHandler(handler)
    assert len(heard) == 2  # once on each side


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@run
async def test_a_task_belongs_to_the_call_that_began_it(revision: str) -> None:
    watched = Watched()
    async with (
        reached(shop(watched.middleware()), "http") as target,
        Client(target, revision=revision, middleware=[watched.middleware()]) as client,
    ):
        with watched.root as root:
            task = await client.create_task("render")
            seen = (await task.result()).text
    span = watched.one("task render", trace.SpanKind.INTERNAL)
    assert seen == trace.format_span_id(span.context.span_id)
    assert parent_of(span) == watched.one("tools/call render", trace.SpanKind.SERVER).context.span_id
    assert span.context.trace_id == root.get_span_context().trace_id


@run
async def test_a_task_that_another_worker_takes_up_stays_in_its_trace(tmp_path: Path) -> None:
    late, watched = [0.0], Watched()

    def worker(gate: asyncio.Event, now: Any = time.time) -> Server:
        store = SqliteStore(tmp_path / "tasks.db", clock=now)
        server = Server("works", store=store, clock=now, middleware=[watched.middleware()])

        @server.tool(task="required", resume=True)
        async def again() -> str:
            await gate.wait()
            return "done"

        return server

    first, second = worker(asyncio.Event()), worker(go := asyncio.Event(), lambda: time.time() + late[0])
    go.set()
    given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with first.running():
        peer = Peer(
            first, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}}, principal="ann"
        )
        peer.meta = {"traceparent": given}
        await peer.send("tools/call", name="again", arguments={})
        late[0] = 60.0  # to the other one its lease has run out
        async with second.running():
            await until(lambda: [span for span in watched.spans if span.name == "task again"])
    begun = watched.one("tools/call again", trace.SpanKind.SERVER)
    taken_up = next(span for span in watched.spans if span.name == "task again")
    assert trace.format_trace_id(taken_up.context.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert parent_of(taken_up) == begun.context.span_id


@run
async def test_a_mounted_server_is_inside_the_span_of_the_one_it_is_mounted_in() -> None:
    watched = Watched()
    server = Server("whole", middleware=[watched.middleware()])
    server.mount(shop(watched.middleware()), prefix="shop")
    async with reached(server, "http") as target, Client(target, middleware=[watched.middleware()]) as client:
        await client.call_tool("shop_work")
        await client.call_tool("shop_work")  # the second time nothing is left of the first
    outer = [span for span in watched.spans if span.name == "tools/call" and span.kind is SERVED]
    inner = [span for span in watched.spans if span.name == "tools/call work" and span.kind is SERVED]
    sent = [span for span in watched.spans if span.name == "tools/call shop_work" and span.kind is SENT]
    assert [parent_of(span) for span in outer] == [span.context.span_id for span in sent]
    assert [parent_of(span) for span in inner] == [span.context.span_id for span in outer]


# --- without anybody doing anything, in processes of their own ---------------------------------------------------

SETUP = """
import os, sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import {processor}

provider = TracerProvider(resource=Resource({{"service.name": "{name}"}}), shutdown_on_exit=False)
provider.add_span_processor({processor}(OTLPSpanExporter("{url}/v1/traces")))
trace.set_tracer_provider(provider)
"""
SERVER = """
from dovetail import Server
server = Server("shop")

@server.tool(task="required")
async def render() -> str:
    return "rendered"

@server.tool
async def work() -> str:
    return "worked"
"""
CLIENT = """
import asyncio
from dovetail import Client

async def main() -> None:
    with trace.get_tracer("app").start_as_current_span("root"):
        async with Client(eval(sys.argv[1]), env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")}) as client:
            await client.call_tool("work")
            task = await client.create_task("render")
            assert (await task.result()).text == "rendered"

asyncio.run(main())
provider.shutdown()
"""


def setup(name: str, url: str, processor: str = "SimpleSpanProcessor") -> str:
    return SETUP.format(name=name, url=url, processor=processor)


def ran(program: str, *arguments: str) -> None:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def check_one_trace(spans: list[Collected]) -> None:
    by_name = {(span.service, span.name): span for span in spans}
    root = by_name["client", "root"]
    assert {span.trace for span in spans if span.name != "server/discover"} == {root.trace}
    for name in ("tools/call work", "tools/call render"):
        sent, answered = by_name["client", name], by_name["server", name]
        assert (sent.parent, answered.parent) == (root.id, sent.id)
        assert sent.attributes["jsonrpc.request.id"] == answered.attributes["jsonrpc.request.id"]
    assert by_name["server", "task render"].parent == by_name["server", "tools/call render"].id


def test_a_collector_sees_one_trace_from_client_through_server_to_task_over_http(tmp_path: Path) -> None:
    with Collector() as collector:
        path = tmp_path / "server.py"
        path.write_text(setup("server", collector.url) + SERVER)

        @run
        async def scenario() -> None:
            async with child(
                str(path), "--port", "0", "--workers", "2", "--store", f"{tmp_path}/state.db"
            ) as one:
                url = f"http://127.0.0.1:{one.address[1]}/mcp"
                await asyncio.to_thread(ran, setup("client", collector.url) + CLIENT, repr(url))
                await until(lambda: collector.named("task render"))

        scenario()
        check_one_trace(collector.spans)


def test_a_collector_sees_one_trace_over_stdio(tmp_path: Path) -> None:
    with Collector() as collector:
        path = tmp_path / "server.py"
        path.write_text(setup("server", collector.url) + SERVER)
        command = [sys.executable, "-m", "dovetail.cli.main", "run", str(path)]
        ran(setup("client", collector.url) + CLIENT, repr(command))
        check_one_trace(collector.spans)


def test_a_failing_exporter_does_not_affect_calls(tmp_path: Path) -> None:
    """The collector does not run: calls are as fast as before, and succeed."""
    nobody = f"http://127.0.0.1:{free_port()}"
    path = tmp_path / "server.py"
    path.write_text(setup("server", nobody, "BatchSpanProcessor") + SERVER)
    program = """
import asyncio
from dovetail import Client

async def main() -> None:
    command = [sys.executable, "-m", "dovetail.cli.main", "run", sys.argv[1]]
    async with Client(command, env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")}) as client:
        async with asyncio.timeout(60):  # each would wait for the exporter for seconds
            for _ in range(200):
                assert (await client.call_tool("work")).text == "worked"

asyncio.run(main())
"""
    ran(setup("client", nobody, "BatchSpanProcessor") + program, str(path))


METERED = """
import asyncio, os, sys
from opentelemetry import metrics
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(sys.argv[1] + "/v1/metrics"))])
metrics.set_meter_provider(provider)
from dovetail import Client, DovetailError, Server
server = Server("shop")

@server.tool
async def work() -> str:
    return "worked"

async def main() -> None:
    async with Client(server) as client:
        await client.call_tool("work")
    assert server.metrics.read("dovetail_calls_total", name="work") == 1

asyncio.run(main())
provider.shutdown()
"""


def test_metrics_are_exported_to_opentelemetry_if_it_is_configured() -> None:
    with Collector() as collector:
        ran(METERED, collector.url)
        assert {
            "dovetail.calls",
            "dovetail.call_seconds.count",
            "dovetail.call_seconds.sum",
            "dovetail.in_flight",
            "mcp.server.operation.duration",
            "mcp.client.operation.duration",
        } <= collector.metrics


QUIET = """
import asyncio, sys
from dovetail import Client, DovetailError, Server
server = Server("shop")
before = server.dispatcher.respond

@server.tool
async def work() -> str:
    return "worked"

async def main() -> None:
    async with Client(server) as client:
        await client.call_tool("work")
    assert server.dispatcher.respond == before, "something was put around the calls"
    assert server.dispatcher.admission.meta_provider is None
    loaded = [name for name in sys.modules if name.startswith(("opentelemetry", "dovetail.telemetry.tracing"))]
    assert {loading} or not loaded, loaded

asyncio.run(main())
"""


@pytest.mark.parametrize("loading", [False, True])
def test_nothing_is_traced_or_loaded_where_no_provider_is_set(loading: bool) -> None:
    """Neither without OpenTelemetry, nor with an imported OpenTelemetry without providers."""
    before = "import opentelemetry.trace, opentelemetry.metrics\n" if loading else ""
    ran(before + QUIET.replace("{loading}", str(loading)))


def test_a_server_without_the_package_is_a_server() -> None:
    """As if it were not installed, whatever the environment asks for."""
    block = "import sys; sys.modules['opentelemetry'] = None\n"
    program = block + QUIET.replace("{loading}", "True")
    environment = {**os.environ, "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr


FRONT = """
from dovetail.gateway import Proxy
server = Proxy("{target}")
"""


def test_a_proxy_is_part_of_the_trace(tmp_path: Path) -> None:
    with Collector() as collector:
        back, front = tmp_path / "back.py", tmp_path / "front.py"
        back.write_text(setup("back", collector.url) + SERVER)

        @run
        async def scenario() -> None:
            async with child(str(back), "--port", "0") as one:
                target = FRONT.replace("{target}", f"http://127.0.0.1:{one.address[1]}/mcp")
                front.write_text(setup("front", collector.url) + target)
                async with child(str(front), "--port", "0") as two:
                    program = CLIENT.replace("            task = ", "            return\n            task = ")
                    url = f"http://127.0.0.1:{two.address[1]}/mcp"
                    await asyncio.to_thread(ran, setup("client", collector.url) + program, repr(url))
                    await until(lambda: [span for span in collector.spans if span.service == "back"])

        scenario()
        called = [span for span in collector.spans if span.name.startswith("tools/call")]
        by_side = {(span.service, span.kind): span for span in called}
        served_kind, sent_kind = 2, 3  # OTLP's numbers
        chain = [("client", sent_kind), ("front", served_kind), ("front", sent_kind), ("back", served_kind)]
        parents = {span.id: span.parent for span in collector.spans}
        for before, after in pairwise(chain):
            # A call that the upstream server runs as a task has a separate span in the gateway.
            above = by_side[after].parent
            assert by_side[before].id in (above, parents.get(above)), (before, after, called)
        assert len({span.trace for span in called}) == 1
