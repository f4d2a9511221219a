"""erlmcp's documents, example by example: codes, constant texts, and the reason in ``data``."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Client, Completion, Limits, ProtocolError, Server, Timeouts, ToolError
from dovetail.errors import KINDS
from dovetail.transports import tcp
from dovetail.wire.dialects.dialect import wire_error
from dovetail.wire.dialects.erlmcp import ERLMCP, MESSAGES
from dovetail.wire.revisions import BY_NAME
from tests.support.aio import run
from tests.support.peer import Peer
from tests.support.waiting import HANG

R4 = BY_NAME["2025-11-25"]
CODES = {row.erlmcp: name for name, row in KINDS.items() if row.erlmcp is not None and row.erlmcp < -32000}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_constant_text_and_the_reason_in_its_data(code: int) -> None:
    kind = CODES[code]
    plain = wire_error(ProtocolError(kind), R4, ERLMCP)
    told = wire_error(ProtocolError(kind, "it rains", data={"uri": "x://y"}), R4, ERLMCP)
    assert plain[0] == told[0] == code
    assert plain[1] == told[1] == MESSAGES[kind]
    member = "details" if kind == "invalid_params" else "reason"
    assert told[2][member] == "it rains"
    assert told[2]["uri"] == "x://y"
    if kind != "tool_execution_failed":
        assert "reason" not in plain[2]


def shop(**options: Any) -> Server:
    server = Server("shop", "1", dialect="erlmcp", **options)

    @server.tool
    async def cancels() -> str:
        """Its own work is cancelled."""
        task = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return ""

    @server.resource("shop://{number}/price")
    def price(number: int) -> str:
        """A price."""
        return str(number)

    @server.prompt
    def plan(city: str) -> str:
        """A plan."""
        return city

    @server.tool
    def where(city: str) -> str:
        """Where."""
        return city

    @server.completion(ref="plan", argument="country")
    def countries(value: str) -> list[str]:
        return []

    return server


@run
async def test_a_subscription_that_fails_has_its_own_code() -> None:
    server = shop(limits=Limits(max_subscriptions=1))
    peer = Peer(server, "2025-11-25")
    missing = await peer.error("resources/subscribe", uri="shop://no/such/thing")
    assert (missing["code"], missing["message"]) == (-32006, "Subscription failed")
    assert missing["data"]["uri"] == "shop://no/such/thing"
    assert await peer.result("resources/subscribe", uri="shop://1/price") == {}
    another = await peer.error("resources/subscribe", uri="shop://2/price")
    assert (another["code"], another["message"]) == (-32006, "Subscription failed")
    await server.lifecycle.stop()


@run
async def test_work_that_is_cancelled_inside_of_a_tool_has_its_own_code() -> None:
    server = shop()
    error = await Peer(server, "2025-11-25").error("tools/call", name="cancels")
    assert (error["code"], error["message"]) == (-32033, "Tool execution cancelled")
    assert error["data"]["tool"] == "cancels"
    await server.lifecycle.stop()


@run
async def test_a_list_of_one_page_takes_no_cursor_and_an_offset_is_checked() -> None:
    server = shop()
    peer = Peer(server, "2025-11-25")
    assert (await peer.error("tools/list", cursor="abc"))["code"] == -32073
    for offset in (-1, "1", 1.5, None, 99):
        error = await peer.error("tools/list", offset=offset)
        assert (error["code"], error["message"]) == (-32076, "Invalid offset")
    assert [tool["name"] for tool in (await peer.result("tools/list", offset=1))["tools"]] == ["where"]
    official = Server("x", "1")
    official.add_tool(name="raw", input_schema={"type": "object"}, handler=lambda given: "")
    assert len((await Peer(official, "2025-11-25").result("tools/list", offset="x"))["tools"]) == 1
    await server.lifecycle.stop()


REFS: list[dict[str, str]] = [
    {"type": "ref/prompt", "name": "plan"},
    {"type": "prompt", "name": "plan"},
    {"type": "tool", "name": "where"},
    {"type": "ref/tool", "name": "where"},
    {"type": "ref/resource", "uri": "shop://{number}/price"},
    {"type": "resource", "uri": "shop://{number}/price"},
    {"type": "resource", "name": "shop://{number}/price"},
]


@pytest.mark.parametrize("key", ["ref", "reference"])
@pytest.mark.parametrize("ref", REFS, ids=lambda ref: ref["type"])
@run
async def test_a_bad_argument_of_a_completion_has_its_code_however_the_reference_is_written(
    key: str, ref: dict[str, str]
) -> None:
    server = shop()
    peer = Peer(server, "2025-11-25")
    for argument in (1, [], {"name": 5, "value": ""}, {"value": "x"}, {"name": "nope", "value": "x"}, "nope"):
        given: dict[str, Any] = {key: ref, "argument": argument}
        error = await peer.error("completion/complete", **given)
        assert (error["code"], error["message"]) == (-32112, "Invalid completion argument"), argument
    await server.lifecycle.stop()


@run
async def test_a_request_before_initialized_is_refused() -> None:
    server = shop()
    session = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}  # fmt: skip
    listener = await tcp.listen(server.dispatcher)
    reader, writer = await asyncio.open_connection(*listener.address[:2])

    async def ask(message: dict[str, Any]) -> Any:
        writer.write(json.dumps(message).encode() + b"\n")
        return json.loads(await asyncio.wait_for(reader.readline(), HANG)) if "id" in message else None

    assert "result" in await ask(session)
    early = await ask({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert early["error"]["code"] == -32005
    assert early["error"]["message"] == MESSAGES["not_initialized"]
    assert (await ask({"jsonrpc": "2.0", "id": 3, "method": "ping"}))["result"] == {}
    await ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert "result" in await ask({"jsonrpc": "2.0", "id": 4, "method": "tools/list"})
    writer.close()
    await listener.close()


LABELLED = {
    "pairs": [("OM", "Oman"), ("NO", "Norway")],
    "a Completion": Completion(["OM", "NO"], labels=["Oman", "Norway"]),
}


@pytest.mark.parametrize("given", LABELLED)
@run
async def test_a_completion_has_a_label_for_each_value(given: str) -> None:
    for dialect in ("erlmcp", "official"):
        server = Server("x", "1", dialect=dialect)

        @server.completion(ref="plan", argument="country")
        def countries(value: str) -> Any:
            return LABELLED[given]

        argument = {"name": "country", "value": ""}
        ref = {"type": "ref/prompt", "name": "plan"}
        result = await Peer(server, "2025-11-25").result("completion/complete", ref=ref, argument=argument)
        assert result["completion"]["values"] == ["OM", "NO"]
        assert "labels" not in result["completion"]
        if dialect == "official":
            assert result["_meta"] == {"dovetail/labels": ["Oman", "Norway"]}
        else:
            assert result["completions"] == [
                {"value": "OM", "label": "Oman"},
                {"value": "NO", "label": "Norway"},
            ]
        await server.lifecycle.stop()


@run
async def test_labels_that_do_not_fit_the_values_are_a_failure() -> None:
    server = Server("x", "1", dialect="erlmcp")

    @server.completion(ref="plan", argument="country")
    def countries(value: str) -> Completion:
        return Completion(["a", "b"], labels=["A"])

    argument, ref = {"name": "country", "value": ""}, {"type": "ref/prompt", "name": "plan"}
    error = await Peer(server, "2025-11-25").error("completion/complete", ref=ref, argument=argument)
    assert error["code"] == -32113
    await server.lifecycle.stop()


@pytest.mark.parametrize(("temperature", "good"), [(0.0, True), (2.0, True), (-0.1, False), (2.1, False)])
@run
async def test_a_temperature_is_between_0_and_2(temperature: float, good: bool) -> None:
    server = shop()
    preferences = {"temperature": temperature}
    reply = await Peer(server, "2025-11-25").ask(
        "prompts/get", name="plan", arguments={"city": "Oslo"}, modelPreferences=preferences
    )
    if good:
        assert "result" in reply
    else:
        assert (reply["error"]["code"], reply["error"]["message"]) == (-32048, "Invalid model preferences")
    await server.lifecycle.stop()


@run
async def test_the_answers_of_a_batch_have_the_order_of_its_requests() -> None:
    server = Server("x", "1", dialect="erlmcp")
    first = asyncio.Event()

    @server.tool
    async def slow() -> str:
        """Wait for the other."""
        await first.wait()
        return "slow"

    @server.tool
    async def fast() -> str:
        """Let the other go on."""
        first.set()
        return "fast"

    listener = await tcp.listen(server.dispatcher)
    reader, writer = await asyncio.open_connection(*listener.address[:2])

    def call(id: Any, method: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    async def ask(message: Any) -> Any:
        writer.write(json.dumps(message).encode() + b"\n")
        return json.loads(await asyncio.wait_for(reader.readline(), HANG))

    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    await ask(call(0, "initialize", **client))
    writer.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    answers = await ask(
        [
            call("slow", "tools/call", name="slow"),
            {"jsonrpc": "2.0", "method": "notifications/unknown"},
            call("none", "no/such"),
            call("fast", "tools/call", name="fast"),
            call("list", "tools/list"),
        ]
    )
    assert [answer["id"] for answer in answers] == ["slow", "none", "fast", "list"]
    writer.close()
    await listener.close()


@run
async def test_a_task_reports_that_its_work_has_begun() -> None:
    server = Server("x", "1", dialect="erlmcp")

    @server.tool(task="optional")
    async def work() -> str:
        """Work."""
        return "done"

    statuses: list[str] = []
    done = asyncio.Event()

    def on_task(params: Any) -> None:
        statuses.append(params.status)
        if params.status == "completed":
            done.set()

    async with Client(server, revision="2025-11-25", dialect="erlmcp", on_task=on_task) as client:
        await client.create_task("work", {})
        await asyncio.wait_for(done.wait(), HANG)
    assert statuses == ["working", "completed"]  # on the wire: processing


@pytest.mark.parametrize("dialect", ["official", "erlmcp"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_raw_schema_takes_a_text_as_long_as_a_message_may_be(dialect: str, revision: str) -> None:
    server = Server("x", "1", dialect=dialect)
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string", "minLength": 1}, "lines": {"type": "array"}},
        "required": ["text"],
    }
    server.add_tool(
        name="length", description="Count", input_schema=schema, handler=lambda given: str(len(given["text"]))
    )
    listener = await tcp.listen(server.dispatcher)
    try:
        host, port = listener.address[:2]
        patient = Timeouts(connect=HANG, idle=None, total=HANG)
        options: Any = {"revision": revision, "dialect": dialect, "timeouts": patient}
        async with Client(f"tcp://{host}:{port}", **options) as client:
            for size in (2 << 20, server.limits.max_message_bytes - 4096):
                assert (await client.call_tool("length", {"text": "x" * size})).text == str(size)
            with pytest.raises((ToolError, ProtocolError)):
                await client.call_tool("length", {"text": 5})
    finally:
        await listener.close()
