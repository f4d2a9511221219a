"""The small middleware: what each does, and what it leaves alone."""

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from dovetail import Client, Context, ProtocolError, Refusal, RequestTimeout, Server, TextContent, ToolError
from dovetail.middleware import (
    Caching,
    Logging,
    Policy,
    RateLimit,
    Redaction,
    ResponseLimit,
    Retry,
    Timeout,
    Timing,
)
from dovetail.middleware.sensitive_data import redacted
from tests.client.scripted import Peer as ScriptedPeer
from tests.client.scripted import legacy
from tests.middleware.test_rate_limit import Hand
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import until


class Shop:
    """A server whose tools count how often they ran."""

    def __init__(self, *middleware: Any, **options: Any) -> None:
        self.ran: list[str] = []
        self.server = server = Server("shop", middleware=middleware, **options)

        @server.tool(annotations={"readOnlyHint": True})
        async def look(item: str = "tea", fails: int = 0) -> str:
            """Look something up."""
            self.ran.append("look")
            if self.ran.count("look") <= fails:
                raise ConnectionError("away")
            return f"{item} {len(self.ran)}"

        @server.tool
        async def buy(item: str = "tea") -> str:
            """Buy it."""
            self.ran.append("buy")
            if item == "broken":
                raise ConnectionError("away")
            return f"bought {item}"

        @server.tool
        async def never() -> str:
            """Wait for ever."""
            await asyncio.Event().wait()
            return ""

        @server.resource("shop://stock")
        def stock() -> str:
            self.ran.append("stock")
            return "mail ann@example.com"

    def peer(self, revision: str = MODERN, **options: Any) -> Peer:
        return Peer(self.server, revision, **options)


# --- Timeout ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_a_call_ends_at_its_deadline_with_a_timeout_error(revision: str) -> None:
    peer = Shop(Timeout(0.02)).peer(revision)
    answer = await peer.send("tools/call", name="never")
    assert answer["result"]["isError"] is True
    assert "within its timeout of 0.02 s" in answer["result"]["content"][0]["text"]
    assert await peer.text("buy") == "bought tea"


@run
async def test_on_erlmcps_wire_a_deadline_is_its_own_code_and_on_a_client_a_timeout() -> None:
    answer = await Shop(Timeout(0.02), dialect="erlmcp").peer("2025-11-25").send("tools/call", name="never")
    assert answer["error"]["code"] == -32032
    async with Client(Shop().server, middleware=[Timeout(0.02)]) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("never")


# --- Retry ---------------------------------------------------------------------------------------------------------


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


@run
async def test_only_what_is_safe_is_tried_again() -> None:
    middleware = Retry(attempts=3, sleep=at_once)
    shop = Shop(middleware)
    assert await shop.peer().text("look", fails=2) == "tea 3"
    answer = await shop.peer().send("tools/call", name="buy", arguments={"item": "broken"})
    assert answer["result"]["isError"] is True
    assert shop.ran.count("buy") == 1
    assert middleware.retries == 2


@run
async def test_attempts_end_and_tool_errors_are_not_repeated() -> None:
    shop = Shop(Retry(attempts=2, sleep=at_once))

    @shop.server.tool(annotations={"idempotentHint": True})
    async def sorry() -> str:
        shop.ran.append("sorry")
        raise ToolError("no such thing")

    answer = await shop.peer().send("tools/call", name="look", arguments={"fails": 9})
    assert answer["result"]["isError"] is True
    assert shop.ran == ["look", "look"]
    assert (await shop.peer().send("tools/call", name="sorry"))["result"]["isError"] is True
    assert shop.ran.count("sorry") == 1


@run
async def test_a_clients_retry_honours_retry_after_and_repeats_only_safe_calls() -> None:
    waits: list[float] = []
    clock = Hand()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.now += seconds

    shop = Shop(RateLimit(per_tool="1/s", clock=clock))
    async with Client(shop.server, middleware=[Retry(sleep=wait, initial_delay=0.001)]) as client:
        await client.list_tools()
        assert [(await client.call_tool("look")).text for _ in range(3)] == ["tea 1", "tea 2", "tea 3"]
        assert all(0.9 < seconds <= 1 for seconds in waits)
        assert len(waits) == 2
        await client.call_tool("buy")
        with pytest.raises(Refusal):
            await client.call_tool("buy")


@run
async def test_a_clients_retry_repeats_internal_errors_of_any_server() -> None:
    calls: list[str] = []
    listed = [
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
        {"name": "buy", "inputSchema": {"type": "object"}},
    ]

    def answer(peer: ScriptedPeer, message: dict[str, Any]) -> None:
        if message.get("method") == "tools/list":
            peer.result(message, {"tools": listed})
        elif message.get("method") == "tools/call":
            name = message["params"]["name"]
            calls.append(name)
            if calls.count(name) == 1:
                peer.error(message, -32603, "Internal error")
            else:
                peer.result(message, {"content": [{"type": "text", "text": "ok"}]})

    async with Client(legacy(answer), revision="legacy", middleware=[Retry(sleep=at_once)]) as client:
        await client.list_tools()
        for name in ("look", "set"):
            assert (await client.call_tool(name)).text == "ok"
        with pytest.raises(ProtocolError):
            await client.call_tool("buy")
        assert calls == ["look", "look", "set", "set", "buy"]


# --- Caching ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_the_same_input_request_of_the_same_client_is_answered_from_memory(revision: str) -> None:
    clock = Hand()
    middleware = Caching(ttl=10, clock=clock)
    shop = Shop(middleware)
    ann, bob = shop.peer(revision, principal="ann"), shop.peer(revision, principal="bob")
    assert await ann.text("look", item="a", fails=0) == "a 1"
    assert await ann.text("look", fails=0, item="a") == "a 1"
    assert await ann.text("look", item="b") == "b 2"
    if revision == MODERN:
        assert await bob.text("look", item="a", fails=0) == "a 3"
    clock.now += 10.1
    assert (await ann.text("look", item="a", fails=0)).startswith("a ")
    assert await ann.text("buy") == await ann.text("buy")
    assert shop.ran.count("buy") == 2
    assert middleware.hits == 1


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_what_needed_an_answer_is_not_kept(revision: str, side: str) -> None:
    middleware = Caching(ttl=10, tools=["guess"])
    server = Server("asking", middleware=[middleware] if side == "server" else [])
    answers = iter("abc")

    @server.tool
    async def guess(ctx: Context) -> str:
        return str((await ctx.elicit("which?", str)).data)

    @server.resource("guess://it")
    async def it(ctx: Context) -> str:
        return str((await ctx.elicit("which?", str)).data)

    options: Any = {
        "middleware": [middleware] if side == "client" else [],
        "cache": False,
        "revision": revision,
    }
    async with Client(server, on_elicit=lambda: next(answers), **options) as client:
        assert [(await client.call_tool("guess")).text for _ in range(2)] == ["a", "b"]
        assert (await client.read_resource("guess://it")).contents[0].text == "c"
        assert len(middleware) == 0


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_a_resource_is_read_again_after_an_update_notification(revision: str) -> None:
    server = Server("docs", middleware=[Caching(ttl=3600)])
    text = {"docs://a": "old", "docs://b": "old"}
    server.add_resource("docs://a", lambda: text["docs://a"], name="a")
    server.add_resource("docs://b", lambda: text["docs://b"], name="b")
    peer = Peer(server, revision)

    async def read(uri: str) -> str:
        return (await peer.send("resources/read", uri=uri))["result"]["contents"][0]["text"]

    assert [await read(uri) for uri in text] == ["old", "old"]
    text |= {"docs://a": "new", "docs://b": "new"}
    assert [await read(uri) for uri in text] == ["old", "old"]
    await server.notify_resource_updated("docs://a")
    assert [await read(uri) for uri in text] == ["new", "old"]


@run
async def test_failures_are_not_kept_and_what_is_kept_is_bounded() -> None:
    middleware = Caching(ttl=10, max_entries=5)
    shop = Shop(middleware)
    for _ in range(2):
        await shop.peer().send("tools/call", name="look", arguments={"fails": 2})
    assert len(middleware) == 0
    for number in range(50):
        await shop.peer().text("look", item=str(number))
    assert len(middleware) == 5
    small = Caching(ttl=10, max_bytes=400)
    shop = Shop(small)
    for number in range(50):
        await shop.peer().text("look", item=str(number))
    assert 0 < len(small) < 10


# --- ResponseLimit ------------------------------------------------------------------------------------


def library(*middleware: ResponseLimit) -> Server:
    server = Server("library", middleware=middleware)

    @server.tool
    async def books(count: int) -> list[str]:
        return [f"book {number} " + "x" * 50 for number in range(count)]

    @server.tool(output_schema=None)
    async def pages(count: int) -> Any:
        return [TextContent(f"page {number} " + "y" * 50) for number in range(count)]

    return server


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_a_result_that_has_to_be_whole_is_too_large(revision: str) -> None:
    server = library(ResponseLimit(1000))
    server.add_tool(lambda: "x" * 5000, name="letter", output_schema={"type": "string"})
    async with Client(server, revision=revision) as client:
        with pytest.raises(ToolError, match="request less data") as caught:
            await client.call_tool("letter")
    assert caught.value.kind == "tool_result_too_large"


@run
async def test_what_one_budget_keeps_is_read_through_another_one() -> None:
    peer = Peer(library(ResponseLimit(1_000_000), ResponseLimit(2000)), MODERN)
    answer = await peer.send("tools/call", name="books", arguments={"count": 100})
    link = answer["result"]["content"][-1]
    assert link["type"] == "resource_link"
    read = await peer.send("resources/read", uri=link["uri"])
    assert json.loads(read["result"]["contents"][0]["text"])["items"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
@pytest.mark.parametrize("tool", ["books", "pages"])
def test_what_does_not_fit_is_read_page_by_page_and_nothing_is_cut(revision: str, tool: str) -> None:
    @run
    async def scenario() -> None:
        middleware = ResponseLimit(2000)
        peer = Peer(library(middleware), revision, principal="ann")
        small = await peer.send("tools/call", name=tool, arguments={"count": 2})
        assert "rest" not in json.dumps(small)
        answer = await peer.send("tools/call", name=tool, arguments={"count": 100})
        assert len(json.dumps(answer["result"])) < 2600
        *blocks, link = answer["result"]["content"]
        assert link["type"] == "resource_link"
        found = [str(block["text"]) for block in blocks]
        if tool == "books":
            found = json.loads(found[0])
            assert answer["result"]["structuredContent"] in ({"result": found}, found)
        uri: str | None = link["uri"]
        while uri is not None:
            contents = (await peer.send("resources/read", uri=uri))["result"]["contents"]
            page = json.loads(contents[0]["text"])
            assert len(contents[0]["text"]) < 2600
            found += [item if isinstance(item, str) else item["text"] for item in page["items"]]
            uri = page.get("next")
        word = "book" if tool == "books" else "page"
        assert [item.split(" ")[:2] for item in found] == [[word, str(n)] for n in range(100)]
        other = await Peer(peer.server, revision, principal="bob").send("resources/read", uri=link["uri"])
        assert other["error"]["data"]["kind"] == "resource_not_found"
        assert "error" in await peer.send("resources/read", uri=link["uri"] + "x")

    scenario()


# --- Policy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "disabled", "forbidden"), [("official", -32602, 1005), ("erlmcp", -32035, -32037)]
)
@run
async def test_what_is_disabled_or_not_allowed_is_refused(
    dialect: str, disabled: int, forbidden: int
) -> None:
    middleware = Policy(disabled=["bu*"], allow=["look", "buy"])
    shop = Shop(middleware, dialect=dialect)
    for revision in ("2025-06-18", "2025-11-25"):
        error = (await shop.peer(revision).send("tools/call", name="buy"))["error"]
        assert (error["code"], error["data"]["kind"]) == (disabled, "tool_disabled")
        error = (await shop.peer(revision).send("tools/call", name="never"))["error"]
        assert (error["code"], error["data"]["kind"]) == (forbidden, "tool_not_allowed")
        assert (await shop.peer(revision).text("look")).startswith("tea")
    assert "buy" not in shop.ran
    assert middleware.refused == 4


@run
async def test_arguments_have_to_match_as_a_whole() -> None:
    shop = Shop(Policy(arguments={"buy": {"item": "[a-z]+"}}))
    assert await shop.peer().text("buy", item="tea") == "bought tea"
    for wrong in ("tea; rm", "TEA", "", 7, None):
        error = (await shop.peer().send("tools/call", name="buy", arguments={"item": wrong}))["error"]
        assert error["code"] == 1005
        assert error["data"]["argument"] == "item"
    assert "error" in await shop.peer().send("tools/call", name="buy")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_the_user_is_asked_before_the_tool_runs(revision: str, action: str) -> None:
    @run
    async def scenario() -> None:
        shop = Shop(Policy(approve=["buy", "ask"]))

        @shop.server.tool
        async def ask(ctx: Context) -> str:
            return (await ctx.elicit("sure?", bool)).action

        asked: list[str] = []

        def answer(request: Any) -> Any:
            asked.append(request.message)
            content = {"value": True} if "sure" in request.message else {}
            return {"action": action, "content": content} if action == "accept" else {"action": action}

        async with Client(shop.server, revision=revision, on_elicit=answer) as client:
            if action == "accept":
                assert (await client.call_tool("buy", {"item": "tea"})).text == "bought tea"
                assert (await client.call_tool("ask")).text == "accept"
                assert len(asked) == 3
            else:
                with pytest.raises(Refusal, match="did not approve"):
                    await client.call_tool("buy", {"item": "tea"})
                assert shop.ran == []
            assert asked[0] == 'Allow the tool \'buy\' to run with {"item":"tea"}?'
        async with Client(shop.server, revision=revision) as client:
            with pytest.raises((ProtocolError, ToolError)):
                await client.call_tool("buy")
            assert shop.ran.count("buy") == (action == "accept")

    scenario()


# --- Redaction -------------------------------------------------------------------------------------------------------

SECRETS = [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "Bearer abcdefghijklmnop",
    "AKIAABCDEFGHIJKLMNOP",
    "sk-live-" + "a1" * 12,
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
def test_secrets_do_not_leave(secret: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        middleware = Redaction()
        shop = Shop(middleware)

        @shop.server.tool
        async def leak() -> dict[str, Any]:
            return {"notes": [f"the key is {secret} today"], "count": 3}

        answer = await shop.peer(revision).send("tools/call", name="leak")
        text = json.dumps(answer)
        assert json.dumps(secret)[1:-1] not in text
        assert "the key is [masked] today" in text
        assert sum(middleware.masked.values()) >= 1
        assert await shop.peer(revision).text("buy") == "bought tea"

    scenario()


@run
async def test_personal_data_and_patterns_of_ones_own() -> None:
    shop = Shop(Redaction("email", item=r"te[a]"))
    read = await shop.peer().send("resources/read", uri="shop://stock")
    assert read["result"]["contents"][0]["text"] == "mail [masked]"
    assert await shop.peer().text("buy") == "bought [masked]"
    with pytest.raises(ValueError, match="unknown pattern 'emails'"):
        Redaction("emails")


# --- Logging and Timing -------------------------------------------------------------------------------


@run
async def test_a_log_line_is_one_line_of_json_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(Logging(arguments=True))
    with caplog.at_level(logging.INFO, "dovetail.calls"):
        given = {"item": "a\nINFO forged\x1b[31m\x9b\u2028", "password": "hunter2", "deep": {"api_key": "k"}}
        await shop.peer(principal="ann\nroot").send("tools/call", name="buy", arguments=given)
        await shop.peer().send("tools/call", name="no\nsuch\x1b")
    lines = [record.getMessage() for record in caplog.records if record.name == "dovetail.calls"]
    assert len(lines) == 2
    for line in lines:
        assert line.isascii()
        assert line.isprintable()
    first, second = map(json.loads, lines)
    assert first["arguments"]["password"] == first["arguments"]["deep"]["api_key"] == "[masked]"
    assert (first["method"], first["name"], first["principal"]) == ("tools/call", "buy", "ann\nroot")
    assert (second["outcome"], second["code"]) == ("error", -32602)
    assert "hunter2" not in caplog.text


@run
async def test_timing_summarises_and_folds_names_that_are_too_many() -> None:
    clock = Hand()
    middleware = Timing(slow_threshold=1.0, clock=clock)
    shop = Shop(middleware)
    for number in range(700):
        await shop.peer().send("tools/call", name=f"guess {number}")
    summary = middleware.summary()
    assert len(summary) <= 501
    assert summary["other"]["count"] == 200
    assert set(summary["other"]) == {"count", "mean", "p50", "p95", "p99", "max"}


@pytest.mark.parametrize("option", ["disabled", "allow", "approve"])
def test_a_policy_takes_no_text_for_a_list_of_names(option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} is a list of strings.*, not 'drop_table'"):
        Policy(**{option: "drop_table"})


@pytest.mark.parametrize(
    "make", [lambda: Timeout(0), lambda: Retry(0), lambda: Caching(0), lambda: ResponseLimit(10)]
)
def test_figures_that_mean_nothing_are_said_at_once(make: Any) -> None:
    with pytest.raises(ValueError, match="not"):
        make()


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_forbidden_components_are_not_listed(revision: str) -> None:
    shop = Shop(Policy(disabled=["never"]))
    listed = await shop.peer(revision).result("tools/list")
    assert [tool["name"] for tool in listed["tools"]] == ["look", "buy"]
    shop = Shop(Policy(allow=["l*"]))
    listed = await shop.peer(revision).result("tools/list")
    assert [tool["name"] for tool in listed["tools"]] == ["look"]
    async with Client(Shop().server, middleware=[Policy(disabled=["buy"])]) as client:
        assert [tool.name for tool in await client.list_tools()] == ["look", "never"]


@pytest.mark.parametrize("own", [None, 5.0])
@run
async def test_the_time_a_user_takes_to_answer_is_not_the_tools(own: float | None) -> None:
    server = Server("shop", middleware=[Timeout(1.0)])

    @server.tool(timeout=own)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", {"type": "object", "properties": {}})).action

    async def think(question: Any) -> dict[str, Any]:
        end = time.monotonic() + 1.5
        await until(lambda: time.monotonic() > end)
        return {"action": "accept", "content": {}}

    async with Client(server, revision="2025-06-18", on_elicit=think) as client:
        assert (await client.call_tool("ask")).text == "accept"


def test_megabytes_are_not_searched_for_secrets_and_none_shows_where_they_are_cut() -> None:
    token = f"Bearer {'a' * 4000} "

    def seconds(text: str) -> float:
        begun = time.thread_time()
        shown = redacted(text)
        took = time.thread_time() - begun
        assert shown.endswith(f"… ({len(text)} characters)")
        assert "aaaa" not in shown
        return took

    large, small = token * 2500, token * 25  # a hundred times as much
    assert min(seconds(large) for _ in range(10)) < 10 * min(seconds(small) for _ in range(10))
    assert redacted("x" * 600) == "x" * 500 + "… (600 characters)"
