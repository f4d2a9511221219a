"""Clients of other projects see the same server directly and through a proxy."""

from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.drivers.duplex import accept, lifespan
from dovetail.gateway import Proxy
from dovetail.transports import memory
from tests.support.aio import run
from tests.support.rawclient import RawClient

DIALECTS = ("official", "erlmcp", "minimcp")
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
    ("tools/call", {"name": "nobody", "arguments": {}}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greet", "arguments": {"who": "you"}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "note://one"}),
    ("resources/read", {"uri": "note://two"}),
]
_VOLATILE = ("cacheScope", "ttlMs")


def behind(**options: Any) -> Server:
    server = Server("behind", "1", **options)

    @server.tool(description="d")
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool(description="d")
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", {"type": "object", "properties": {"day": {"type": "string"}}})
        return f"{answer.data['day']} {(await ctx.sample('hi', max_tokens=5)).text}"

    @server.resource("note://one", description="d")
    def note() -> str:
        return "note"

    @server.prompt(description="d")
    def greet(who: str) -> str:
        return f"hello {who}"

    return server


def front(dialect: str, revision: str) -> Server:
    server = Server("behind", "1", dialect=dialect)
    server.mount(Proxy(behind(), revision=revision))
    return server


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in _VOLATILE}
    return [steady(one) for one in value] if isinstance(value, list) else value


async def heard(server: Server, revision: str) -> list[Any]:
    """What a client that knows nothing but JSON is answered."""
    client, found = RawClient(revision, check=False), list[Any]()
    async with lifespan(server.dispatcher):
        memory.connect(client, accept(server.dispatcher))
        await client.open()
        for method, params in ASKED:
            answer = await client.response(client.start(method, params))
            found.append((method, steady(answer.get("result", answer.get("error")))))
        client.link.close()
    return found


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("dialect", DIALECTS)
@run
async def test_results_are_encoded_for_the_downstream_revision(dialect: str, revision: str) -> None:
    said = await heard(behind(dialect=dialect), revision)
    assert await heard(front(dialect, revision), revision) == said


@pytest.mark.parametrize("front_revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("back", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("dialect", DIALECTS)
@run
async def test_input_requests_reach_the_clients_of_every_dialect(
    dialect: str, back: str, front_revision: str
) -> None:
    async with Client(
        front(dialect, back),
        dialect=dialect,
        revision=front_revision,
        on_elicit=lambda request: {"day": "monday"},
        on_sample=lambda request: "sampled",
    ) as client:
        assert (await client.call_tool("ask")).text == "monday sampled"
