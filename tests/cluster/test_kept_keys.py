"""Keys kept in a store: all processes of one server share them, and no other server's tokens open with them."""

import json

import pytest

from dovetail import Server
from dovetail.stores import MemoryStore
from tests.support.aio import run


def listing(name: str, store: MemoryStore) -> Server:
    server = Server(name, "1", store=store, page_size=1)
    for number in range(3):
        server.add_tool(lambda: "x", name=f"tool{number}", description="d")
    return server


async def page(server: Server, cursor: str | None) -> dict[str, object]:
    params = {} if cursor is None else {"cursor": cursor}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    reply = await server.handle(json.dumps(message), {"revision": "2025-11-25"})
    assert reply is not None
    return json.loads(reply)


@pytest.mark.parametrize(("other", "opens"), [("shop", True), ("bank", False)])
@run
async def test_a_token_opens_at_the_same_server_alone(other: str, opens: bool) -> None:
    store = MemoryStore()
    one, two = listing("shop", store), listing(other, store)
    async with one.running(), two.running():
        cursor = (await page(one, None))["result"]["nextCursor"]  # type: ignore[index]
        assert ("result" in await page(two, cursor)) is opens
