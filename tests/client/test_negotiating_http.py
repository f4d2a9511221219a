"""Servers over HTTP, and what they answer to the probe: the legacy ones are all reached."""

from __future__ import annotations

import asyncio

import pytest

from dovetail import Reconnect, Timeouts
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.client.http_client import StatusError
from dovetail.errors import DovetailError, ProtocolError, TransportError

from ..support.aio import run
from ..support.http_clients import BringingClient as Client
from .fake_http import JSON, Reply, Request, error, legacy, modern, result, serving

pytestmark = pytest.mark.usefixtures("http_library")

PROBES = {
    "-32601": lambda request: error(request, -32601),
    "-32602": lambda request: error(request, -32602),
    "-32602 with 400": lambda request: error(request, -32602, 400),
    "-32601 with 404": lambda request: error(request, -32601, 404),
    "error without an id": lambda request: error(request, -32000, 400, id=None),
    "drop": lambda request: Reply(drop=True),
    "silent": lambda request: Reply(hang=True),
    "garbage": lambda request: Reply(200, {"Content-Type": "application/json"}, b"{]"),
    "400": lambda request: Reply(400),
    "401": lambda request: Reply(401, {"WWW-Authenticate": "Bearer"}),
    "404": lambda request: Reply(404),
    "405": lambda request: Reply(405),
    "406": lambda request: Reply(406),
    "415": lambda request: Reply(415),
    "422": lambda request: Reply(422, {}, b"unprocessable"),
    "500": lambda request: Reply(500),
    "502": lambda request: Reply(502),
    "empty 200": lambda request: Reply(200),
    "202": lambda request: Reply(202),
    "HTML": lambda request: Reply(200, {"Content-Type": "text/html"}, b"<html>hello</html>"),
    "strange result": lambda request: result(request, {"hello": 1}),
}


@pytest.mark.parametrize("probe", PROBES)
@run
async def test_a_legacy_server_is_reached_whatever_it_answers_to_the_probe(probe: str) -> None:
    known = ServerCache()
    limit = 0.7 if probe == "silent" else 20  # only silence waits for it

    def handler(request: Request) -> Reply:
        return PROBES[probe](request) if request.method == "server/discover" else legacy(request)

    async with serving(handler) as (fake, url):
        for _ in range(2):
            async with Client(url, server_cache=known, discovery_timeout=limit) as client:
                assert client.revision == "2025-06-18"
                assert (await client.call_tool("echo", {"a": 1})).text == '{"a": 1}'
        assert fake.heard().count("server/discover") == 1, "the second connect must not probe"
        assert fake.heard("DELETE") == ["", ""]


@run
async def test_a_modern_server_gets_complete_metadata_in_every_request() -> None:
    async with serving(modern) as (fake, url), Client(url, server_cache=ServerCache()) as client:
        assert client.revision == "2026-07-28"
        await client.call_tool("echo", {"a": 1})
        request = fake.requests[-1]
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["mcp-method"] == "tools/call"
        assert request.headers["mcp-name"] == "echo"
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert "mcp-session-id" not in request.headers
        meta = request.message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


@run
async def test_an_unsupported_version_is_asked_again_with_one_that_is_listed() -> None:
    refused = 0

    def handler(request: Request) -> Reply:
        nonlocal refused
        if request.method == "server/discover" and not refused:
            refused += 1
            return error(request, -32022, 400, {"supported": ["2026-07-28"], "requested": "x"})
        return modern(request)

    async with serving(handler) as (fake, url), Client(url, server_cache=ServerCache()) as client:
        assert client.revision == "2026-07-28"
        assert fake.heard() == ["server/discover", "server/discover"]


@run
async def test_no_common_revision_names_both_lists() -> None:
    def handler(request: Request) -> Reply:
        return error(request, -32022, 400, {"supported": ["2031-01-01"], "requested": "2026-07-28"})

    async with serving(handler) as (_, url):
        with pytest.raises(
            ProtocolError, match=r"supports 2031-01-01; the client supports 2026-07-28, 2025-11-25"
        ):
            await Client(url, server_cache=ServerCache()).open()


@run
async def test_a_401_is_reported_when_initialize_is_refused_too() -> None:
    async with serving(lambda request: Reply(401, {"WWW-Authenticate": "Bearer"})) as (fake, url):
        with pytest.raises(StatusError, match="set auth=") as caught:
            await Client(url, server_cache=ServerCache()).open()
        assert (caught.value.status, caught.value.kind) == (401, "authentication_failed")
        assert caught.value.challenge == "Bearer"
        assert fake.heard() == ["server/discover", "initialize"]


@pytest.mark.parametrize("status", [403, 404, 405, 406, 410, 429, 500, 503])
@run
async def test_an_http_status_on_every_request_is_an_error_that_names_it_and_decides_no_revision(
    status: int,
) -> None:
    known = ServerCache()
    async with serving(lambda request: Reply(status, {"Retry-After": "7"}, b"go away")) as (_, url):
        client = Client(url, server_cache=known)
        with pytest.raises(TransportError, match=f"HTTP {status}.*go away") as caught:
            await client.open()
        assert isinstance(caught.value, StatusError)
        assert caught.value.retry_after == 7.0
        assert known.get(url) is None
        await client.close()


@run
async def test_a_redirect_inside_the_origin_is_followed() -> None:
    def handler(request: Request) -> Reply:
        if request.path == "/mcp":
            return Reply(307, {"Location": "/moved"})
        return modern(request)

    async with serving(handler) as (fake, url), Client(url, server_cache=ServerCache()):
        assert [request.path for request in fake.requests] == ["/mcp", "/moved"]


@run
async def test_a_redirect_to_another_origin_is_refused() -> None:
    async with serving(modern) as (elsewhere, other):
        redirect = Reply(308, {"Location": other})
        async with serving(lambda request: redirect) as (_, url):
            with pytest.raises(TransportError, match="another origin") as caught:
                await Client(url, headers={"Authorization": "secret"}, server_cache=ServerCache()).open()
            assert caught.value.cause == "redirect"
            assert elsewhere.requests == []


@run
async def test_a_refused_connection_does_not_decide_the_revision() -> None:
    async with serving(modern) as (_, url):
        pass
    known = ServerCache()
    with pytest.raises(TransportError) as caught:
        await Client(url, server_cache=known).open()
    assert caught.value.cause == "refused"
    assert known.get(url) is None


@run
async def test_an_expired_verification_is_repeated() -> None:
    known = ServerCache()
    now: list[object] = [legacy]

    def handler(request: Request) -> Reply:
        serve = now[0]
        assert callable(serve)
        return serve(request)

    async with serving(handler) as (_, url):
        async with Client(url, server_cache=known) as client:
            assert client.revision == "2025-06-18"
        now[0] = modern
        async with Client(url, server_cache=known) as client:
            assert client.revision == "2026-07-28"


@run
async def test_the_two_endpoints_of_http_sse_are_found_at_the_same_url() -> None:
    outboxes: list[asyncio.Queue[bytes]] = []

    async def events() -> object:
        outbox: asyncio.Queue[bytes] = asyncio.Queue()
        outboxes.append(outbox)
        yield b"event: endpoint\ndata: /messages?session=1\n\n"
        while True:
            yield b"event: message\ndata: " + await outbox.get() + b"\n\n"

    def handler(request: Request) -> Reply:
        if request.verb == "GET":
            return Reply(200, {"Content-Type": "text/event-stream"}, stream=events())  # type: ignore[arg-type]
        if request.path == "/mcp":
            return Reply(405)
        answer = legacy(request)
        if answer.body:
            outboxes[-1].put_nowait(answer.body)
        return Reply(202)

    known = ServerCache()
    async with serving(handler) as (fake, url):
        for _ in range(2):
            async with Client(url, server_cache=known) as client:
                assert (await client.call_tool("echo", {"b": 2})).text == '{"b": 2}'
        assert fake.heard().count("server/discover") == 1


@run
async def test_an_endpoint_on_another_origin_is_refused() -> None:
    async def events() -> object:
        yield b"event: endpoint\ndata: http://127.0.0.2:9/messages\n\n"

    def handler(request: Request) -> Reply:
        if request.verb == "GET":
            return Reply(200, {"Content-Type": "text/event-stream"}, stream=events())  # type: ignore[arg-type]
        return Reply(405)

    async with serving(handler) as (_, url):
        with pytest.raises(DovetailError):
            await Client(url, server_cache=ServerCache(), timeouts=Timeouts(connect=3)).open()


@run
async def test_a_json_error_counts_whatever_the_status() -> None:
    def handler(request: Request) -> Reply:
        if request.method == "tools/call":
            return error(request, -32602, 422, {"kind": "tool_not_found"})
        return legacy(request) if request.method != "server/discover" else Reply(400, dict(JSON))

    async with serving(handler) as (_, url), Client(url, server_cache=ServerCache()) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("nothing")
        assert (caught.value.code, caught.value.kind) == (-32602, "tool_not_found")


@run
async def test_a_stream_of_a_lost_session_is_reopened_and_the_call_retried() -> None:
    outboxes: list[asyncio.Queue[bytes]] = []

    async def events() -> object:
        outbox: asyncio.Queue[bytes] = asyncio.Queue()
        outboxes.append(outbox)
        yield f"event: endpoint\ndata: /messages?session={len(outboxes)}\n\n".encode()
        while True:
            yield b"event: message\ndata: " + await outbox.get() + b"\n\n"

    def handler(request: Request) -> Reply:
        if request.verb == "GET":
            return Reply(200, {"Content-Type": "text/event-stream"}, stream=events())  # type: ignore[arg-type]
        if request.path == "/mcp":
            return Reply(405)
        if request.method == "tools/call" and request.path == "/messages?session=1":
            return Reply(404)
        answer = legacy(request)
        if answer.body:
            outboxes[-1].put_nowait(answer.body)
        return Reply(202)

    quick = Reconnect(initial_delay=0.01)
    async with (
        serving(handler) as (fake, url),
        Client(url, server_cache=ServerCache(), reconnect=quick) as client,
    ):
        assert (await client.call_tool("echo", {"b": 2})).text == '{"b": 2}'
        assert fake.heard().count("tools/call") == 2
