"""What a proxy keeps apart: tokens and headers of its callers, and callers from each other."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Principal, Reconnect, Refusal, Server
from dovetail.auth import StaticTokens
from dovetail.gateway import Proxy
from dovetail.transports.tcp import listen
from tests.client.fake_http import Reply, modern, serving
from tests.client.fake_http import Request as FakeRequest
from tests.support.aio import run
from tests.support.web import served

CALLERS = {"ann-token": Principal("ann"), "bob-token": Principal("bob")}
REVISIONS = ("2025-11-25", "2026-07-28")


def remembering() -> tuple[Server, list[dict[str, str]]]:
    """A server that remembers the heads of all calls."""
    server, heads = Server("behind"), list[dict[str, str]]()

    @server.tool
    def look(ctx: Context) -> str:
        found = {name.decode(): value.decode() for name, value in ctx.scope["headers"]}
        heads.append(found)
        return found.get("mcp-session-id", "")

    return server, heads


@asynccontextmanager
async def proxied(server: Server, **options: Any) -> AsyncIterator[str]:
    async with served(server) as behind:
        proxy = Proxy(f"http://127.0.0.1:{behind.port}/mcp", **options)
        async with served(proxy, auth=StaticTokens(CALLERS)) as site:
            yield f"http://127.0.0.1:{site.port}/mcp"


def caller(url: str, token: str, revision: str, **headers: str) -> Client:
    return Client(url, revision=revision, headers={"Authorization": f"Bearer {token}", **headers})


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_no_token_goes_through_and_of_headers_those_that_are_named(revision: str) -> None:
    server, heads = remembering()
    private = {"Cookie": "a=b", "X-User": "root", "X-Tenant": "blue"}
    async with (
        proxied(server, forward_headers=["x-tenant"], revision=revision) as url,
        caller(url, "ann-token", revision, **private) as client,
    ):
        await client.call_tool("look")
    said = json.dumps(heads)
    assert heads[0]["x-tenant"] == "blue"
    assert "authorization" not in heads[0]
    for word in ("ann-token", "a=b", "root"):
        assert word not in said


@run
async def test_principals_have_a_connection_each_if_sessions_share_them() -> None:
    server, _ = remembering()
    async with (
        proxied(server, revision="2025-11-25", connections="principal") as url,
        caller(url, "ann-token", "2025-11-25") as ann,
        caller(url, "ann-token", "2025-11-25") as ann_again,
        caller(url, "bob-token", "2025-11-25") as bob,
    ):
        first, second, other = [(await one.call_tool("look")).text for one in (ann, ann_again, bob)]
    assert first == second != other


@pytest.mark.parametrize("behind", REVISIONS)
def test_one_connection_too_many_is_refused_and_no_call_is_lost(behind: str) -> None:
    @run
    async def scenario() -> None:
        server, started, go_on = Server("behind"), asyncio.Semaphore(0), asyncio.Event()

        @server.tool
        async def work() -> str:  # pyright: ignore[reportUnusedFunction]
            started.release()
            await go_on.wait()
            return "done"

        async with (
            # One of the three has learnt what there is.
            served(Proxy(server, connections="session", max_connections=3, revision=behind)) as site,
            AsyncExitStack() as stack,
        ):
            url = f"http://127.0.0.1:{site.port}/mcp"
            clients = [
                Client(url, revision="2025-11-25", reconnect=Reconnect(retry_calls=False)) for _ in range(3)
            ]
            first, second, third = [await stack.enter_async_context(client) for client in clients]
            working = [asyncio.ensure_future(client.call_tool("work")) for client in (first, second)]
            for _ in working:
                await started.acquire()
            with pytest.raises(Refusal, match="connections to") as caught:
                await third.call_tool("work")
            assert caught.value.code == 1004
            go_on.set()
            assert [(await call).text for call in working] == ["done", "done"]
            assert (await third.call_tool("work")).text == "done"

    scenario()


@run
async def test_upstream_errors_are_logged_and_not_shown_downstream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: FakeRequest) -> Reply:
        return Reply(500, body=b"secret words") if request.method == "tools/call" else modern(request)

    async with serving(broken) as (_, url), Client(Proxy(url)) as client:
        with pytest.raises(DovetailError) as told:
            await client.call_tool("echo", {"text": "x"})
    said = repr(vars(told.value))
    assert "secret" not in said
    assert url not in said
    assert "500" in caplog.text


@run
async def test_an_ambiguous_server_request_is_sent_to_no_client() -> None:
    server, both = Server("behind"), asyncio.Barrier(2)

    @server.tool
    async def ask(name: str, ctx: Context) -> str:
        await both.wait()
        try:
            return (await ctx.sample(f"who is {name}?")).text
        finally:
            await both.wait()

    listener = await listen(server.dispatcher, "127.0.0.1", 0)
    target = f"tcp://127.0.0.1:{listener.address[1]}"
    proxy = Proxy(target, revision="2025-11-25", connections="principal")
    asked: list[str] = []

    def client(name: str) -> Client:
        return Client(proxy, revision="2025-11-25", on_sample=lambda params: asked.append(name) or name)

    async with client("ann") as ann, client("bob") as bob:
        calls = (
            one.call_tool("ask", {"name": name}, check=False) for one, name in ((ann, "ann"), (bob, "bob"))
        )
        answers = await asyncio.gather(*calls)
    await listener.close()
    assert asked == []
    assert all(one.is_error and "several clients" in one.text for one in answers)
