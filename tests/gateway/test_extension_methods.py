"""Extension methods of mounted servers, and of upstreams that a proxy forwards."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, ProtocolError, RegistrationError, Server
from dovetail.gateway import Proxy
from tests.support.aio import run
from tests.support.waiting import HANG
from tests.support.web import served

REVISIONS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")
DO = "extensions.com.acme/do"
FILE = """
from dovetail import Server
inner, server = Server("inner"), Server("outer")
inner.add_method("acme/do", lambda params: {"got": params}, capability="extensions.com.acme/do")
server.mount(inner, prefix="in")
"""


def acme(name: str = "inner") -> Server:
    server = Server(name)
    server.dispatcher.add_capability(DO, {"fast": True})

    def do(params: dict[str, Any]) -> dict[str, Any]:
        return {"by": name, "got": params}

    server.add_method("acme/do", do, capability=DO)
    return server


def way(kind: str) -> Server:
    if kind == "proxied":
        return Proxy(acme(), forward_methods={"acme/do": DO})
    outer = Server("outer")
    outer.mount(acme() if kind == "mounted" else Proxy(acme(), forward_methods=["acme/do"]), prefix="in")
    return outer


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("kind", ["mounted", "proxied"])
@run
async def test_a_method_is_answered_and_its_capability_declared(kind: str, revision: str) -> None:
    async with Client(way(kind), revision=revision) as client:
        assert client.server_capabilities.extension("com.acme/do") == {"fast": True}
        assert await client.request("acme/do", {"a": 1}, capability=DO) == {"by": "inner", "got": {"a": 1}}


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("kind", ["mounted", "proxied", "mounted proxy"])
@run
async def test_over_http_too(kind: str, revision: str) -> None:
    async with served(way(kind)) as site:
        client = Client(f"http://127.0.0.1:{site.port}/mcp", revision=revision)
        async with client:
            assert await client.request("acme/do", {"a": 1}) == {"by": "inner", "got": {"a": 1}}


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_over_stdio_downstream_and_upstream(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(FILE)
    command = [sys.executable, "-m", "dovetail.cli.main", "run", f"{file}:server"]
    async with Client(Proxy(command, forward_methods=["acme/do"]), revision=revision) as client:
        assert await client.request("acme/do", {"a": 1}) == {"got": {"a": 1}}


@pytest.mark.parametrize("back", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("front", ["2025-06-18", "2026-07-28"])
@run
async def test_it_may_ask_and_report_progress_through_a_proxy(front: str, back: str) -> None:
    server, heard = Server("asking"), list[Any]()

    async def book(ctx: Context) -> dict[str, Any]:
        answer = await ctx.elicit("Which day?", {"type": "object", "properties": {"day": {"type": "string"}}})
        await ctx.report_progress(1, 2, "half")
        return {"day": answer.data, "_meta": {"acme/x": 1}}

    server.add_method("acme/book", book)

    def day(request: Any) -> dict[str, str]:
        return {"day": "monday"}

    def progress(*said: Any) -> None:
        heard.append(said)

    proxy = Proxy(server, revision=back, forward_methods=["acme/book"])
    async with Client(proxy, revision=front, on_elicit=day) as client:
        result = await client.request("acme/book", on_progress=progress)
    assert result == {"day": {"day": "monday"}}
    assert heard == [(1, 2, "half")]


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_a_proxy_passes_on_what_was_named_alone(revision: str) -> None:
    async with Client(Proxy(acme()), revision=revision) as client:
        assert not client.server_capabilities.has(DO)
        with pytest.raises(ProtocolError) as caught:
            await client.request("acme/do")
        assert caught.value.kind == "method_not_found"


@run
async def test_the_first_of_a_name_has_it_and_the_other_is_named(caplog: pytest.LogCaptureFixture) -> None:
    outer = Server("outer")
    outer.mount(acme("one"), prefix="one")
    outer.mount(acme("two"), prefix="two")
    assert "the method 'acme/do' of server 'two' is left out: server 'one' already declares it" in caplog.text
    async with Client(outer) as client:
        assert (await client.request("acme/do"))["by"] == "one"


@run
async def test_a_method_added_or_removed_later_is_visible_and_notifications_are_received() -> None:
    outer, inner, heard = Server("outer"), Server("inner"), asyncio.Queue[Any]()
    outer.mount(inner, prefix="in")
    async with Client(outer, revision="2026-07-28") as client:
        inner.add_method("acme/late", lambda: {"late": True})
        inner.add_notification("acme/seen", heard.put_nowait)
        assert await client.request("acme/late") == {"late": True}
        await client.notify("acme/seen", {"n": 1})
        assert await asyncio.wait_for(heard.get(), HANG) == {"n": 1}
        inner.dispatcher.custom_methods.remove("acme/late")
        with pytest.raises(ProtocolError):
            await client.request("acme/late")


@pytest.mark.parametrize("names", [["tools/call"], ["rpc.x"], ["with space"], "acme/do"])
def test_what_is_no_method_of_an_authors_own_is_refused_at_once(names: Any) -> None:
    with pytest.raises(RegistrationError):
        Proxy(Server("x"), forward_methods=names)
