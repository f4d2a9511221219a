"""What belongs to a principal does not exist for another one: everything that outlives a request, with real tokens."""

import json
from typing import Any

import pytest

from dovetail import Context, Handle, Principal, Server
from dovetail.auth import StaticTokens
from dovetail.middleware import Caching
from tests.support.aio import run
from tests.support.web import Response, Site, Web, legacy_headers, modern, modern_headers, served

ANN, BOB = ({"Authorization": f"Bearer {name}-token"} for name in ("ann", "bob"))
ISSUER = "https://id.example"
TOKENS = {
    "ann-token": Principal("ann", ISSUER),
    "ann-again": Principal("ann", ISSUER, frozenset({"more"})),
    "bob-token": Principal("bob", ISSUER),
    "other-ann": Principal("ann", "https://other.example"),
}
STRANGERS = (BOB, {"Authorization": "Bearer other-ann"})
AGAIN = {"Authorization": "Bearer ann-again"}


def shop(**options: Any) -> Server:
    server = Server("shop", "1", auth=StaticTokens(TOKENS), page_size=2, **options)

    for number in range(5):

        @server.tool(name=f"filler{number}")
        async def filler() -> str:
            """One of many."""
            return ""

    @server.tool(annotations={"readOnlyHint": True})
    async def who(ctx: Context) -> str:
        """Who is calling."""
        return f"{ctx.principal} of {ctx.principal.issuer if ctx.principal else None}"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask once."""
        answer = await ctx.elicit("Shall I?", bool)
        return f"{ctx.principal}: {answer.action}"

    @server.tool
    async def keep(ctx: Context) -> str:
        """Keep something."""
        return await ctx.create_handle({"of": str(ctx.principal)})

    @server.tool
    async def look(it: Handle[dict[str, str]]) -> str:
        """Look at it."""
        return it.value["of"]

    @server.tool(task="required")
    async def render(ctx: Context) -> str:
        """Run as a task."""
        return str(ctx.principal)

    return server


async def call(site: Site, method: str, params: dict[str, Any], headers: dict[str, str]) -> Response:
    message = modern(method, params)
    return await Web(site).ask("POST", modern_headers(message) | headers, json.dumps(message).encode())


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@run
async def test_an_input_request_is_answered_by_the_client_that_received_it() -> None:
    async with served(shop()) as site:
        asked = (await call(site, "tools/call", tool("ask"), ANN)).message["result"]
        [name] = asked["inputRequests"]
        reply = {"action": "accept", "content": {"value": True}}
        answer = {**tool("ask"), "requestState": asked["requestState"], "inputResponses": {name: reply}}
        for stranger in STRANGERS:
            assert "error" in (await call(site, "tools/call", answer, stranger)).message
        found = (await call(site, "tools/call", answer, AGAIN)).message["result"]
        assert found["content"][0]["text"] == "ann: accept"


@run
async def test_a_cursor_belongs_to_the_caller_that_received_it() -> None:
    async with served(shop()) as site:
        cursor = (await call(site, "tools/list", {}, ANN)).message["result"]["nextCursor"]
        for stranger in STRANGERS:
            answer = await call(site, "tools/list", {"cursor": cursor}, stranger)
            assert answer.message["error"]["code"] == -32602
        assert (await call(site, "tools/list", {"cursor": cursor}, AGAIN)).message["result"]["tools"]


@run
async def test_a_handle_belongs_to_the_caller_that_created_it() -> None:
    async with served(shop()) as site:
        kept = (await call(site, "tools/call", tool("keep"), ANN)).message["result"]["content"][0]["text"]
        for stranger in STRANGERS:
            found = (await call(site, "tools/call", tool("look", it=kept), stranger)).message["result"]
            assert found["isError"] is True
            assert "ann" not in json.dumps(found)
        found = (await call(site, "tools/call", tool("look", it=kept), AGAIN)).message["result"]
        assert found["content"][0]["text"] == "ann"


@run
async def test_a_cached_result_belongs_to_the_caller_that_received_it() -> None:
    async with served(shop(middleware=[Caching(60)])) as site:
        for headers, name in (
            (ANN, f"ann of {ISSUER}"),
            (BOB, f"bob of {ISSUER}"),
            (ANN, f"ann of {ISSUER}"),
        ):
            found = (await call(site, "tools/call", tool("who"), headers)).message["result"]
            assert found["content"][0]["text"] == name
        found = (await call(site, "tools/call", tool("who"), STRANGERS[1])).message["result"]
        assert found["content"][0]["text"] == "ann of https://other.example"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
@run
async def test_a_task_belongs_to_the_caller_that_started_it(method: str) -> None:
    tasks = {
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    }
    async with served(shop()) as site:
        message = modern("tools/call", tool("render"), meta=tasks)
        begun = await Web(site).ask("POST", modern_headers(message) | ANN, json.dumps(message).encode())
        id = begun.message["result"]["taskId"]
        for stranger in STRANGERS:
            message = modern(method, {"taskId": id}, meta=tasks)
            answer = await Web(site).ask(
                "POST", modern_headers(message) | {"Mcp-Name": id} | stranger, json.dumps(message).encode()
            )
            unknown = modern(method, {"taskId": "0" * 32}, meta=tasks)
            other = await Web(site).ask(
                "POST",
                modern_headers(unknown) | {"Mcp-Name": "0" * 32} | stranger,
                json.dumps(unknown).encode(),
            )
            assert answer.message["error"]["code"] == other.message["error"]["code"]
            assert answer.message["error"]["message"] == other.message["error"]["message"]


@run
async def test_sessions_and_their_logs_of_events_are_of_who_opened_them() -> None:
    async with served(shop()) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-11-25", ANN)
        mine = legacy_headers("2025-11-25", session)
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "x://y"}}
        for stranger in STRANGERS:
            assert (await web.ask("POST", mine | stranger, ping)).status == 404
            assert (await web.ask("POST", mine | stranger, json.dumps(subscribe).encode())).status == 404
            assert (await web.ask("GET", mine | stranger | {"Last-Event-ID": "1"})).status == 404
            assert (await web.ask("DELETE", mine | stranger)).status == 404
        assert (await web.ask("POST", mine | AGAIN, ping)).status == 200
