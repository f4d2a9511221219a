"""What a failure says: the server's own words and the true cause, never a guess."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Limits, Reconnect, Server, Timeouts
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.errors import (
    DovetailError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    TransportError,
)
from dovetail.transports.http.client import link as http
from tests.support.waiting import until

from ..support.aio import run
from ..support.waiting import HANG
from . import scripted
from .fake_http import INITIALIZED, JSON, Reply, Request, error, legacy, serving

SCRIPT = """
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
print("loading the model", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "server/discover":
        say(id=id, error={"code": -32601, "message": "no"})
    elif method == "initialize":
        ANSWER
    elif method == "tools/call" and message["params"]["name"] == "large":
        say(id=id, result={"content": [{"type": "text", "text": "x" * 3000}]})
    elif method == "tools/call" and message["params"]["name"] == "small":
        say(id=id, result={"content": []})
"""


def child(answer: str, **options: Any) -> Client:
    command = [sys.executable, "-c", SCRIPT.replace("ANSWER", answer)]
    return Client(
        command,
        server_cache=ServerCache(),
        reconnect=False,
        on_stderr=lambda data: None,
        **{"timeouts": Timeouts(connect=HANG, idle=HANG, total=HANG), **options},
    )


def answered(value: dict[str, Any]) -> str:
    return f"say(id=id, result={value!r})"


@run
async def test_capabilities_that_are_no_object_are_called_so() -> None:
    async with asyncio.timeout(HANG):
        with pytest.raises(RemoteProtocolError, match="capabilities") as caught:
            await child(answered({**INITIALIZED, "capabilities": []})).open()
    assert caught.value.kind == "validation_failed"


@run
async def test_an_error_of_the_servers_own_reaches_the_caller_as_it_is() -> None:
    with pytest.raises(ProtocolError, match="the database is down") as caught:
        await child('say(id=id, error={"code": -32603, "message": "the database is down"})').open()
    assert (caught.value.kind, caught.value.code) == ("internal_error", -32603)


@run
async def test_a_version_we_do_not_speak_is_named() -> None:
    with pytest.raises(ProtocolError, match="1999-01-01") as caught:
        await child(answered({**INITIALIZED, "protocolVersion": "1999-01-01"})).open()
    assert caught.value.kind == "unsupported_protocol_version"


@run
async def test_a_server_that_does_not_get_ready_is_quoted() -> None:
    noise = 'print("still loading", flush=True)'
    client = child(noise, timeouts=Timeouts(connect=3), discovery_timeout=1)
    with pytest.raises(RequestTimeout, match="within 3 s") as caught:
        await client.open()
    assert "loading the model" in caught.value.message
    assert "invalid messages" in caught.value.message
    assert "import json" in caught.value.message, "the command is named"
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600


@run
async def test_a_message_that_is_too_large_ends_the_call_it_answers_and_no_other() -> None:
    async with child(answered(INITIALIZED), limits=Limits(max_message_bytes=2000)) as client:
        with pytest.raises(TransportError, match="more than 2000 bytes") as caught:
            await client.call_tool("large")
        assert caught.value.cause == "protocol"
        assert (await client.call_tool("small")).content == []
        assert client.pending == 0


@run
async def test_a_timeout_error_mentions_an_invalid_message_that_may_have_been_the_response() -> None:
    async with child(answered(INITIALIZED), limits=Limits(max_message_bytes=2000)) as client:
        calls = [asyncio.create_task(client.call_tool("large", timeout=2)) for _ in range(2)]
        done = await asyncio.gather(*calls, return_exceptions=True)
    messages = [str(each) for each in done]
    assert all("more than 2000 bytes" in message for message in messages), messages


def at(method: str, reply: Any) -> Any:
    return lambda request: reply(request) if request.method == method else legacy(request)


async def failure(handler: Any, **options: Any) -> BaseException:
    async with serving(handler) as (_, url):
        client = Client(
            url,
            server_cache=ServerCache(),
            reconnect=Reconnect(enabled=False),
            discovery_timeout=0.2,
            **options,
        )
        try:
            async with asyncio.timeout(HANG):
                await client.open()
                await client.call_tool("echo", {})
        except Exception as error:
            return error
        finally:
            await client.close()
    raise AssertionError("nothing failed")


@run
async def test_a_web_page_in_place_of_initialize_is_quoted() -> None:
    page = Reply(200, {"Content-Type": "text/html"}, b"<html>Please log in</html>")
    caught = await failure(at("initialize", lambda request: page))
    assert isinstance(caught, TransportError)
    assert caught.cause == "protocol"
    assert "Please log in" in caught.message


@run
async def test_the_outcome_of_the_probe_is_reported_when_initialize_fails_too() -> None:
    def handler(request: Request) -> Reply:
        return Reply(hang=True) if request.method == "server/discover" else error(request, -32601, 404)

    caught = await failure(handler)
    assert "did not answer server/discover within 0.2 s" in str(caught)


@run
async def test_an_error_of_the_protocol_is_read_however_long_it_is() -> None:
    data = json.dumps(
        {"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "no", "data": "x" * 100_000}}
    )
    caught = await failure(at("tools/call", lambda request: Reply(400, dict(JSON), data.encode())))
    assert isinstance(caught, ProtocolError)
    assert caught.data == "x" * 100_000


@run
async def test_of_a_long_page_the_beginning_is_quoted() -> None:
    page = Reply(500, {"Content-Type": "text/html"}, b"<h1>Out of order</h1>" + b"." * 300_000)
    caught = await failure(at("tools/call", lambda request: page))
    assert "Out of order" in str(caught)


@run
async def test_a_ring_of_redirects_is_called_one() -> None:
    ring = Reply(307, {"Location": "/mcp"})
    caught = await failure(at("tools/call", lambda request: ring))
    assert isinstance(caught, TransportError)
    assert caught.cause == "redirect"


@run
async def test_a_server_that_never_confirms_initialized_is_used_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "BACKGROUND_POST_TIMEOUT", 2)

    def handler(request: Request) -> Reply:
        return Reply(hang=True) if request.method.startswith("notifications/") else legacy(request)

    async with (
        serving(handler) as (fake, url),
        Client(url, server_cache=ServerCache()) as client,
    ):
        assert (await client.call_tool("echo", {"a": 1})).text == '{"a": 1}'
        await until(lambda: "notifications/initialized" in fake.heard())
        await until(lambda: not fake.hanging)  # what is never taken is given up, and holds no connection


@run
async def test_a_wrong_option_of_a_request_is_named_before_anything_is_sent() -> None:
    async with serving(legacy) as (fake, url), Client(url, server_cache=ServerCache()) as client:
        heard = len(fake.requests)
        with pytest.raises(ValueError, match=r"one of debug, info.*not 'loud'"):
            await client.set_logging_level("loud")
        with pytest.raises(LocalProtocolError, match=r"resources/read.*uri"):
            await client.request("resources/read", {"url": "x"})
        assert [request for request in fake.requests[heard:] if request.verb == "POST"] == []


@run
async def test_a_byte_order_mark_before_a_message_does_not_matter() -> None:
    def answer(peer: scripted.Peer, message: dict[str, Any]) -> None:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": scripted.text("hello")}
        peer.say(b"\xef\xbb\xbf" + json.dumps(reply).encode())

    async with Client(scripted.legacy(answer)) as client:
        assert (await client.call_tool("x")).text == "hello"


@run
async def test_a_server_in_this_process_that_cannot_start_is_the_cause() -> None:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        raise LookupError("no database")
        yield

    with pytest.raises(DovetailError, match="no database") as caught:
        async with Client(Server("unwell", lifespan=lifespan)):
            pass
    assert isinstance(caught.value.__cause__, LookupError)
