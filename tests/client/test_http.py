"""Streamable HTTP on legacy and modern revisions: bodies, streams, sessions, headers, and broken responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from dovetail import Reconnect, Timeouts
from dovetail.client.connecting.server_cache import ServerCache
from dovetail.client.http_client import StatusError
from dovetail.drivers.clock import LoopClock
from dovetail.errors import ProtocolError, RequestTimeout, SessionLost, TransportError
from dovetail.settings import Limits

from ..support.aio import run
from ..support.http_clients import BringingClient as Client
from ..support.waiting import HANG, turns, until
from .fake_http import DISCOVERED, EVENTS, JSON, Reply, Request, error, legacy, modern, result, serving

pytestmark = pytest.mark.usefixtures("http_library")

own = pytest.mark.parametrize("http_library", [None], indirect=True, ids=["own"])
"""Behaviour that does not depend on the HTTP library is tested once."""
QUICK = Reconnect(initial_delay=0.01, max_delay=0.02, jitter=0)


def event(message: Any, id: str | None = None, retry: int | None = None) -> bytes:
    lines = [f"data: {json.dumps(message) if message is not None else ''}"]
    if id is not None:
        lines.append(f"id: {id}")
    if retry is not None:
        lines.append(f"retry: {retry}")
    return ("\n".join(lines) + "\n\n").encode()


def answer(request: Request, text: str = "hello", **more: Any) -> dict[str, Any]:
    value = {"content": [{"type": "text", "text": text}], **more}
    return {"jsonrpc": "2.0", "id": request.id, "result": value}


def events(*pieces: bytes) -> Reply:
    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return Reply(200, dict(EVENTS), stream=stream())


def modern_client(url: str, **options: Any) -> Client:
    return Client(url, revision="modern", server_cache=ServerCache(), **options)


def legacy_client(url: str, **options: Any) -> Client:
    return Client(url, revision="legacy", server_cache=ServerCache(), **options)


def on_call(reply: Any, otherwise: Any = modern) -> Any:
    """``reply(request)`` answers tools/call, ``otherwise`` everything else."""
    return lambda request: reply(request) if request.method == "tools/call" else otherwise(request)


# --- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@run
async def test_an_event_stream_cut_into_pieces_comes_out_whole(size: int) -> None:
    seen: list[float] = []

    def reply(request: Request) -> Reply:
        token = request.message["params"]["_meta"]["progressToken"]
        notice = {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
        data = (
            b": comment\r\n\r\n"
            + event({"jsonrpc": "2.0", **notice})
            + event(answer(request, "schön", resultType="complete"))
        )
        return events(*(data[at : at + size] for at in range(0, len(data), size)))

    async with serving(on_call(reply)) as (_, url), modern_client(url) as client:
        outcome = await client.call_tool("x", on_progress=lambda *report: seen.append(report[0]))
        assert outcome.text == "schön"
    assert seen == [1]


@run
async def test_a_legacy_stream_is_resumed_where_it_broke_after_the_time_it_named() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    call: list[Request] = []

    def handler(request: Request) -> Reply:
        if request.verb == "GET" and "last-event-id" in request.headers:
            times.append(loop.time())
            assert request.headers["last-event-id"] == "e1"
            assert request.headers["mcp-session-id"] == "s1"
            return events(event(answer(call[0], "resumed"), id="e2"))
        if request.method == "tools/call":
            call.append(request)
            times.append(loop.time())
            return events(event(None, id="e1", retry=150))
        return legacy(request)

    async with serving(handler) as (_, url), legacy_client(url) as client:
        assert (await client.call_tool("x")).text == "resumed"
    assert times[1] - times[0] >= 0.14


@run
async def test_a_legacy_stream_that_cannot_be_resumed_leaves_open_whether_its_call_was_made() -> None:
    def handler(request: Request) -> Reply:
        if request.verb == "GET" and "last-event-id" in request.headers:
            return Reply(400)  # what followed was lost with the process that wrote it
        if request.method == "tools/call":
            return events(event(None, id="e1", retry=1))
        return legacy(request)

    async with serving(handler) as (_, url), legacy_client(url) as client:
        with pytest.raises(SessionLost, match="resuming the stream of tools/call") as caught:
            await client.call_tool("x")
        assert caught.value.maybe_executed


@pytest.mark.parametrize("make", [modern_client, legacy_client])
@run
async def test_a_stream_that_ends_without_an_answer_says_so(make: Any) -> None:
    handler = on_call(lambda request: events(b": nothing\n\n"), modern if make is modern_client else legacy)
    async with serving(handler) as (_, url), make(url) as client:
        with pytest.raises(SessionLost) as caught:
            await client.call_tool("x")
        assert (caught.value.cause, caught.value.maybe_executed) == ("eof", True)
        assert client.pending == 0
        assert client.state == "ready"


@run
async def test_an_input_request_on_the_stream_is_answered_by_its_own_post() -> None:
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def handler(request: Request) -> Reply:
        if request.method == "tools/call":

            async def stream() -> AsyncIterator[bytes]:
                params = {"messages": [], "maxTokens": 5}
                yield event({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": params})
                words = (await answered)["result"]["content"]["text"]
                yield event(answer(request, words))

            return Reply(200, dict(EVENTS), stream=stream())
        if request.verb == "POST" and not request.method:
            answered.set_result(request.message)
            return Reply(202)
        return legacy(request)

    async with (
        serving(handler) as (_, url),
        legacy_client(url, on_sample=lambda request: "sampled") as client,
    ):
        assert (await client.call_tool("x")).text == "sampled"


@own  # other libraries get no limit
@run
async def test_calls_that_all_wait_for_a_callback_leave_a_connection_for_its_response() -> None:
    calls = 150
    answers: dict[int, asyncio.Future[None]] = {}
    together = asyncio.Event()

    def handler(request: Request) -> Reply:
        if request.method == "tools/call":
            number = 1000 + request.id
            answers[number] = asyncio.get_running_loop().create_future()

            async def stream() -> AsyncIterator[bytes]:
                if len(answers) == calls:
                    together.set()  # now every connection there may be is taken
                await together.wait()
                yield event({"jsonrpc": "2.0", "id": number, "method": "roots/list"})
                await answers[number]
                yield event(answer(request))

            return Reply(200, dict(EVENTS), stream=stream())
        if request.verb == "POST" and not request.method:
            answers[request.id].set_result(None)
            return Reply(202)
        return legacy(request)

    async with serving(handler) as (_, url), legacy_client(url, on_roots=["file:///a"]) as client:
        await asyncio.gather(*(client.call_tool("x", timeout=HANG) for _ in range(calls)))


@run
async def test_what_belongs_to_no_request_comes_by_the_get_stream() -> None:
    changed: list[str] = []
    heard = asyncio.Event()

    def note(kind: str) -> None:
        changed.append(kind)
        heard.set()

    def handler(request: Request) -> Reply:
        if request.verb == "GET":

            async def stream() -> AsyncIterator[bytes]:
                yield event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="g1")
                await asyncio.Event().wait()

            return Reply(200, dict(EVENTS), stream=stream())
        return legacy(request)

    async with serving(handler) as (_, url), legacy_client(url, on_list_changed=note):
        await asyncio.wait_for(heard.wait(), HANG)
    assert changed == ["tools"]


# --- sessions --------------------------------------------------------------------------------------------------------


@own
@run
async def test_a_get_stream_that_is_refused_at_first_for_want_of_something_is_opened_later() -> None:
    gets = 0
    heard = asyncio.Event()

    def handler(request: Request) -> Reply:
        nonlocal gets
        if request.verb != "GET":
            return legacy(request)
        gets += 1
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return Reply(503) if gets == 1 else events(event(notice))

    async with serving(handler) as (_, url), legacy_client(url, on_list_changed=lambda kind: heard.set()):
        async with asyncio.timeout(HANG):
            await heard.wait()


@run
async def test_the_get_stream_is_opened_again_after_a_proxy_was_in_the_way() -> None:
    gets = 0
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def handler(request: Request) -> Reply:
        nonlocal gets
        if request.verb != "GET":
            return legacy(request)
        gets += 1
        if gets == 1:
            return events(b"retry: 1\n\n")
        if gets == 2:
            return Reply(502)
        return events(event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))

    def tell(what: str) -> None:
        if not heard.done():
            heard.set_result(what)

    async with serving(handler) as (_, url), legacy_client(url, on_list_changed=tell):
        async with asyncio.timeout(HANG):
            assert await heard == "tools"


@run
async def test_a_get_stream_that_cannot_be_resumed_restarts_and_watched_resources_count_as_changed() -> None:
    gets: list[str | None] = []
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def handler(request: Request) -> Reply:
        if request.method == "resources/subscribe":
            return result(request, {})
        if request.verb != "GET":
            return legacy(request)
        gets.append(request.headers.get("last-event-id"))
        if len(gets) == 1:
            return events(event(None, id="g1", retry=1))
        if gets[-1] is not None:
            return Reply(400)

        async def stream() -> AsyncIterator[bytes]:
            yield b":\n\n"
            await asyncio.Event().wait()

        return Reply(200, dict(EVENTS), stream=stream())

    def tell(uri: str) -> None:
        if not heard.done() and len(gets) == 3:
            heard.set_result(uri)

    async with serving(handler) as (_, url), legacy_client(url, on_resource_updated=tell) as client:
        await client.subscribe_resource("x://a")
        async with asyncio.timeout(HANG):
            assert await heard == "x://a"
    assert gets == [None, "g1", None]


@run
async def test_notifications_during_a_broken_listen_stream_count_as_changes() -> None:
    heard: list[str] = []
    back, acknowledge = asyncio.Event(), asyncio.Event()

    def handler(request: Request) -> Reply:
        if request.method == "server/discover":
            return result(request, {**DISCOVERED, "capabilities": {"resources": {"subscribe": True}}})
        if request.method != "subscriptions/listen":
            return modern(request)
        params = {
            "notifications": request.message["params"]["notifications"],
            "_meta": {"io.modelcontextprotocol/subscriptionId": request.id},
        }
        method = "notifications/subscriptions/acknowledged"
        again = bool(listens)
        listens.append(request)

        async def stream() -> AsyncIterator[bytes]:
            yield b":\n\n"
            if again:
                back.set()
                await acknowledge.wait()
            yield event({"jsonrpc": "2.0", "method": method, "params": params})
            if again:
                await asyncio.Event().wait()

        return Reply(200, dict(EVENTS), stream=stream())

    listens: list[Request] = []
    async with (
        serving(handler) as (_, url),
        modern_client(url, on_resource_updated=heard.append, reconnect=QUICK) as client,
    ):
        await client.subscribe_resource("x://a")
        async with asyncio.timeout(HANG):
            await back.wait()
            await turns(50)
            assert heard == []  # the server does not know of us yet: what happens now would be missed
            acknowledge.set()
            await until(lambda: heard == ["x://a"])


@run
async def test_a_listen_stream_may_break_any_number_of_times_in_its_life() -> None:
    listens: list[Request] = []
    enough = asyncio.Event()

    def handler(request: Request) -> Reply:
        if request.method == "server/discover":
            return result(request, {**DISCOVERED, "capabilities": {"resources": {"subscribe": True}}})
        if request.method != "subscriptions/listen":
            return modern(request)
        listens.append(request)
        if len(listens) == 5:
            enough.set()
        params = {
            "notifications": request.message["params"]["notifications"],
            "_meta": {"io.modelcontextprotocol/subscriptionId": request.id},
        }
        method = "notifications/subscriptions/acknowledged"
        return events(event({"jsonrpc": "2.0", "method": method, "params": params}))

    once = Reconnect(initial_delay=0.01, max_delay=0.02, jitter=0, max_attempts=1)
    async with serving(handler) as (_, url), modern_client(url, reconnect=once) as client:
        await client.subscribe_resource("x://a")
        async with asyncio.timeout(HANG):
            await enough.wait()


@run
async def test_a_server_that_allows_no_pause_is_still_not_asked_without_one() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    enough = asyncio.Event()

    def handler(request: Request) -> Reply:
        if request.verb != "GET":
            return legacy(request)
        times.append(loop.time())
        if len(times) == 4:
            enough.set()
        return events(
            event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="e1", retry=0)
        )

    async with serving(handler) as (_, url), legacy_client(url):
        async with asyncio.timeout(HANG):
            await enough.wait()
    assert times[3] - times[0] >= 0.29


@run
async def test_the_session_goes_with_every_request_and_is_ended() -> None:
    async with serving(legacy) as (fake, url):
        async with legacy_client(url) as client:
            await client.call_tool("x")
        first, *rest = fake.requests
        assert "mcp-session-id" not in first.headers
        assert "mcp-protocol-version" not in first.headers
        assert all(request.headers["mcp-session-id"] == "s1" for request in rest)
        assert all(request.headers["mcp-protocol-version"] == "2025-06-18" for request in rest)
        assert fake.requests[-1].verb == "DELETE"


@run
async def test_a_lost_session_is_recreated_and_any_call_is_retried() -> None:
    sessions = iter(["s1", "s2"])
    live: list[str] = []

    def handler(request: Request) -> Reply:
        if request.method == "initialize":
            live[:] = [next(sessions)]
            return result(request, legacy_initialized(), **{"Mcp-Session-Id": live[0]})
        if request.method == "tools/call" and request.headers["mcp-session-id"] == "s1":
            return error(request, -32600, 404, id=None)
        return legacy(request)

    async with serving(handler) as (_, url), legacy_client(url, reconnect=QUICK) as client:
        assert (await client.call_tool("echo", {"a": 1})).text == '{"a": 1}'
        assert live == ["s2"]


@pytest.mark.parametrize(
    ("code", "known"), [(-32600, False), (-32001, False), (-32601, True), (-32002, True)]
)
@run
async def test_a_404_that_names_the_request_ends_the_session_unless_it_answers_it(
    code: int, known: bool
) -> None:
    def handler(request: Request) -> Reply:
        if request.method == "resources/read" and request.headers["mcp-session-id"] == "s1":
            return error(request, code, 404)
        if request.method == "resources/read":
            return result(request, {"contents": [{"uri": "a://b", "text": "there"}]})
        if request.method != "initialize":
            return legacy(request)
        return result(request, legacy_initialized(), **{"Mcp-Session-Id": next(sessions)})

    sessions = iter(["s1", "s2"])
    async with serving(handler) as (_, url), legacy_client(url, reconnect=QUICK) as client:
        if known:
            with pytest.raises(ProtocolError):
                await client.read_resource("a://b")
        else:
            assert (await client.read_resource("a://b")).contents[0].text == "there"


UNREAD: dict[str, Callable[[Request], Reply]] = {
    "no id": lambda request: error(request, -32600, 404, id=None),
    "a kind": lambda request: error(request, -32600, 404, data={"kind": "session_expired"}),
    "empty": lambda _: Reply(404),
    "text": lambda _: Reply(404, {"Content-Type": "text/plain"}, b"session not found"),
    "other JSON": lambda _: Reply(404, dict(JSON), b'{"detail": "Not Found"}'),
}


@pytest.mark.parametrize("body", UNREAD)
@run
async def test_every_call_after_a_404_of_a_lost_session_uses_a_new_one(body: str) -> None:
    live: list[str] = []
    made = 0

    def handler(request: Request) -> Reply:
        nonlocal made
        if request.method == "initialize":
            made += 1
            live[:] = [f"s{made}"]
            return result(request, legacy_initialized(), **{"Mcp-Session-Id": live[0]})
        return legacy(request) if request.headers["mcp-session-id"] in live else UNREAD[body](request)

    async with serving(handler) as (fake, url), legacy_client(url, reconnect=QUICK) as client:
        for number in range(1, 4):
            assert (await client.call_tool("echo", {"a": number})).text == json.dumps({"a": number})
            assert made == number
            live.clear()
        assert fake.heard().count("tools/call") == 5  # the second and the third were refused once each


@pytest.mark.parametrize(
    ("tool", "body", "runs"),
    [("read", None, 2), ("write", None, 1)]
    + [(tool, body, 2) for tool in ("read", "write") for body in UNREAD],
)
@run
async def test_a_404_for_a_session_is_followed_by_one_repeat_of_what_did_no_harm(
    tool: str, body: str | None, runs: int
) -> None:
    listed = [
        {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "write", "inputSchema": {"type": "object"}},
    ]

    def handler(request: Request) -> Reply:
        if request.method == "tools/list":
            return result(request, {"tools": listed})
        if request.method == "tools/call":
            return error(request, -32600, 404) if body is None else UNREAD[body](request)
        return legacy(request)

    async with serving(handler) as (fake, url), legacy_client(url, reconnect=QUICK) as client:
        await client.list_tools()
        with pytest.raises(SessionLost) as caught:
            await client.call_tool(tool)
        assert not client.connected  # at once: the next call would be refused
        assert fake.heard().count("tools/call") == runs
        assert caught.value.maybe_executed is (body is None)


@run
async def test_a_call_in_flight_is_not_retried_when_another_finds_the_session_lost() -> None:
    running, ran = asyncio.Event(), 0

    def handler(request: Request) -> Reply:
        nonlocal ran
        if request.method == "tools/call" and request.message["params"]["name"] == "book":
            ran += 1
            running.set()
            return Reply(hang=True)
        if request.method == "tools/call" and ran == 1:
            return Reply(404)
        return legacy(request)

    options: dict[str, Any] = {"reconnect": Reconnect(initial_delay=0.01, max_delay=0.01)}
    async with serving(handler) as (_, url), legacy_client(url, **options) as client:
        booking = asyncio.create_task(client.call_tool("book", timeout=HANG))
        await running.wait()
        other = asyncio.create_task(client.call_tool("echo", {}, timeout=HANG))
        with pytest.raises(SessionLost) as caught:
            await booking
        assert caught.value.maybe_executed
        assert ran == 1
        other.cancel()


def legacy_initialized() -> dict[str, Any]:
    from .fake_http import INITIALIZED

    return INITIALIZED


@run
async def test_a_404_that_names_the_request_is_its_answer() -> None:
    handler = on_call(lambda request: error(request, -32601, 404), legacy)
    async with serving(handler) as (fake, url), legacy_client(url) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("x")
        assert caught.value.kind == "method_not_found"
        assert fake.heard().count("initialize") == 1


@run
async def test_a_session_id_that_no_header_may_hold_is_not_used() -> None:
    def handler(request: Request) -> Reply:
        if request.method == "initialize":
            return result(request, legacy_initialized(), **{"Mcp-Session-Id": "has space"})
        return legacy(request)

    async with serving(handler) as (fake, url), legacy_client(url) as client:
        await client.call_tool("x")
        assert "mcp-session-id" not in fake.requests[-1].headers


@pytest.mark.parametrize("length", [1025, 4096, 8192])
@run
async def test_a_long_session_id_goes_back_as_it_came(length: int) -> None:
    def handler(request: Request) -> Reply:
        if request.method == "initialize":
            return result(request, legacy_initialized(), **{"Mcp-Session-Id": "s" * length})
        return legacy(request)

    async with serving(handler) as (fake, url), legacy_client(url) as client:
        await client.call_tool("x")
        assert fake.requests[-1].headers["mcp-session-id"] == "s" * length


@run
async def test_a_session_id_beyond_the_limit_is_refused_with_a_clear_message() -> None:
    def handler(request: Request) -> Reply:
        if request.method == "initialize":
            return result(request, legacy_initialized(), **{"Mcp-Session-Id": "s" * 8193})
        return legacy(request)

    async with serving(handler) as (_, url):
        with pytest.raises(TransportError, match="session id of the server has 8193 characters") as caught:
            async with legacy_client(url):
                pass
        assert caught.value.cause == "protocol"


# --- giving up -------------------------------------------------------------------------------------------------------


@run
async def test_giving_up_a_modern_call_closes_its_response_and_posts_nothing() -> None:
    cut = asyncio.Event()
    begun = asyncio.Event()

    def reply(request: Request) -> Reply:
        async def stream() -> AsyncIterator[bytes]:
            try:
                yield b": tick\n\n"
                begun.set()
                await asyncio.Event().wait()
            finally:
                cut.set()

        return Reply(200, dict(EVENTS), stream=stream())

    async with serving(on_call(reply)) as (fake, url), modern_client(url) as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.1)
        assert caught.value.limit == "total"
        call = asyncio.create_task(client.call_tool("x"))
        begun.clear()
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert "notifications/cancelled" not in fake.heard()
        assert client.pending == 0


@run
async def test_cancelling_a_legacy_call_notifies_the_server() -> None:
    async with serving(on_call(lambda request: Reply(hang=True), legacy)) as (fake, url):
        async with legacy_client(url) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("x", timeout=0.05)
        assert "notifications/cancelled" in fake.heard()


@run
async def test_bytes_on_the_stream_keep_a_call_alive() -> None:
    def reply(request: Request) -> Reply:
        async def stream() -> AsyncIterator[bytes]:
            for _ in range(6):
                yield b": still here\n\n"
                await asyncio.sleep(0.3)
            yield event(answer(request, resultType="complete"))

        return Reply(200, dict(EVENTS), stream=stream())

    async with serving(on_call(reply)) as (_, url), modern_client(url) as client:
        limits = Timeouts(idle=1.5, total=HANG)
        assert (await client.call_tool("x", timeout=limits)).text == "hello"


# --- statuses and bodies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 405, 406, 408, 413, 415, 422, 429, 500, 502, 503])
@run
async def test_a_bare_status_under_a_call_is_named(status: int) -> None:
    handler = on_call(lambda request: Reply(status, {"Retry-After": "3"}, b"some words"))
    async with serving(handler) as (_, url), modern_client(url, reconnect=QUICK) as client:
        with pytest.raises(StatusError, match=f"tools/call failed with HTTP {status}.*some words") as caught:
            await client.call_tool("x")
        assert caught.value.status == status
        assert caught.value.retry_after == 3.0
        assert client.pending == 0


@pytest.mark.parametrize(
    ("said", "meant"),
    [("7", 7.0), (" 7 ", 7.0), ("9" * 30, 86400.0), ("-1", None), ("soon", None)],
)
@run
async def test_retry_after_is_honoured_if_it_is_in_seconds(said: str, meant: float | None) -> None:
    handler = on_call(lambda request: Reply(503, {"Retry-After": said}))
    async with serving(handler) as (_, url), modern_client(url) as client:
        with pytest.raises(StatusError) as caught:
            await client.call_tool("x")
        assert caught.value.retry_after == meant


BODIES: Mapping[str, tuple[dict[str, str], bytes]] = {
    "HTML": ({"Content-Type": "text/html"}, b"<!doctype html><p>Sign in</p>"),
    "nothing": ({}, b""),
    "half a message": (dict(JSON), b'{"jsonrpc":"2.0","id":2,"res'),
    "invalid UTF-8": (dict(JSON), b'{"jsonrpc":"2.0","id":"\xff","result":{}}'),
    "another id": (dict(JSON), b'{"jsonrpc":"2.0","id":4711,"result":{}}'),
    "an array": (dict(JSON), b"[]"),
}


@pytest.mark.parametrize("name", BODIES)
@run
async def test_a_body_that_is_no_answer_is_quoted(name: str) -> None:
    headers, body = BODIES[name]
    handler = on_call(lambda request: Reply(200, headers, body))
    async with serving(handler) as (_, url), modern_client(url) as client:
        with pytest.raises((TransportError, ProtocolError)) as caught:
            await client.call_tool("x")
        assert getattr(caught.value, "cause", "protocol") == "protocol"
        assert client.pending == 0


@run
async def test_an_answer_beyond_the_limit_is_refused() -> None:
    limits = Limits(max_message_bytes=1000)

    def long(request: Request) -> Reply:
        return result(request, {"content": [{"type": "text", "text": "x" * 2000}]})

    def stream(request: Request) -> Reply:
        return events(b"data: " + b"x" * 3000)

    for reply in (long, stream):
        async with serving(on_call(reply)) as (_, url), modern_client(url, limits=limits) as client:
            with pytest.raises(TransportError, match="exceeds 1000 bytes"):
                await client.call_tool("x")


@run
async def test_an_endless_stream_ends_with_the_total_limit() -> None:
    def reply(request: Request) -> Reply:
        async def stream() -> AsyncIterator[bytes]:
            while True:
                yield b": more\n\n" * 100
                await asyncio.sleep(0)

        return Reply(200, dict(EVENTS), stream=stream())

    async with serving(on_call(reply)) as (_, url), modern_client(url) as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.1)
        assert caught.value.limit == "total"


# --- headers ---------------------------------------------------------------------------------------------------------


@run
async def test_headers_of_the_client_and_of_one_call() -> None:
    async with serving(modern) as (fake, url):
        async with modern_client(url, headers={"X-Tenant": "a"}) as client:
            await client.call_tool("x", headers={"X-Trace": "1"})
            await client.call_tool("x")
        assert all(request.headers["x-tenant"] == "a" for request in fake.requests)
        assert [request.headers.get("x-trace") for request in fake.requests] == [None, "1", None]


@run
async def test_a_token_goes_with_every_request() -> None:
    async with serving(modern) as (fake, url):
        async with modern_client(url, auth="secret") as client:
            await client.call_tool("x")
        assert {request.headers["authorization"] for request in fake.requests} == {"Bearer secret"}


@run
async def test_a_challenge_is_met_and_the_request_repeated() -> None:
    class Renewing:
        def __init__(self) -> None:
            self.token = "old"

        async def headers(self, url: str) -> Mapping[str, str]:
            return {"Authorization": self.token}

        async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
            self.token = "new"
            return status == 401

    def handler(request: Request) -> Reply:
        return modern(request) if request.headers["authorization"] == "new" else Reply(401)

    async with serving(handler) as (fake, url), modern_client(url, auth=Renewing()) as client:
        assert client.revision == "2026-07-28"
        assert len(fake.requests) == 2


REGION = {
    "name": "deploy",
    "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
}
BROKEN = {"name": "broken", "inputSchema": {"type": "object", "x-mcp-header": "No"}}


def mirroring(request: Request) -> Reply:
    if request.method == "tools/list":
        listed = {"tools": [REGION, BROKEN], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        return result(request, listed)
    if request.method == "tools/call" and "mcp-param-region" not in request.headers:
        return error(request, -32020, 400)
    return modern(request)


@run
async def test_annotated_arguments_are_mirrored_and_broken_tools_left_out() -> None:
    async with serving(mirroring) as (fake, url), modern_client(url) as client:
        assert [tool.name for tool in await client.list_tools()] == ["deploy"]
        await client.call_tool("deploy", {"region": "Malmö"})
        assert fake.requests[-1].headers["mcp-param-region"] == "=?base64?TWFsbcO2?="


@run
async def test_a_header_mismatch_reads_the_schema_and_tries_once_more() -> None:
    async with serving(mirroring) as (fake, url), modern_client(url) as client:
        await client.call_tool("deploy", {"region": "eu"})
        assert fake.heard()[-3:] == ["tools/call", "tools/list", "tools/call"]


@run
async def test_a_mismatch_that_stays_is_reported() -> None:
    def handler(request: Request) -> Reply:
        return error(request, -32020, 400) if request.method == "tools/call" else mirroring(request)

    async with serving(handler) as (fake, url), modern_client(url) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("deploy", {"region": "eu"})
        assert caught.value.kind == "header_mismatch"
        assert fake.heard().count("tools/call") == 2


# --- losing the server -----------------------------------------------------------------------------------------------


@run
async def test_a_read_only_call_is_repeated_when_the_connection_breaks() -> None:
    dropped: list[str] = []
    tool = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}

    def handler(request: Request) -> Reply:
        if request.method == "tools/list":
            return result(
                request, {"tools": [tool], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            )
        if request.method == "tools/call" and len(dropped) < 2:
            dropped.append(request.method)
            return Reply(drop=True)
        return modern(request)

    async with serving(handler) as (_, url), modern_client(url, reconnect=QUICK) as client:
        await client.list_tools()
        assert (await client.call_tool("look", {})).text == "{}"
        dropped.clear()
        with pytest.raises(SessionLost) as caught:
            await client.call_tool("pay", {})
        assert caught.value.maybe_executed
        assert len(dropped) == 1


class Counted(LoopClock):
    """Set when the fifth waiter has arrived."""

    def __init__(self) -> None:
        self.waits = 0
        self.often = asyncio.Event()

    async def sleep(self, delay: float) -> None:
        self.waits += 1
        if self.waits == 5:
            self.often.set()
        await super().sleep(delay)


@run
async def test_a_server_that_is_away_for_a_moment_is_waited_for_however_quick_the_client_tries_again() -> (
    None
):
    clock = Counted()
    async with serving(modern) as (_, url):
        client = modern_client(url, reconnect=QUICK, clock=clock)
        await client.open()
    calling = asyncio.create_task(client.list_tools())
    await asyncio.wait((calling, asyncio.create_task(clock.often.wait())), return_when="FIRST_COMPLETED")
    async with serving(modern, int(url.split(":")[2].removesuffix("/mcp"))):
        assert [tool.name for tool in await calling] == ["echo"]
    await client.close()
