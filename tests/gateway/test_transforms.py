"""`Server.transform`: what is listed is what can be called."""

import pytest

from dovetail import Client, ProtocolError, RegistrationError, Server
from tests.support.aio import run


def shop() -> Server:
    server = Server("shop", "1")

    @server.tool
    def add(item: str, count: int = 1, key: str = "") -> str:
        return f"{item} {count} {key}"

    server.add_tool(lambda: "b", name="buy", description="d")
    server.add_tool(lambda: "l", name="look", description="d")
    return server


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_what_is_shown_is_what_can_be_called(revision: str, mounted: bool) -> None:
    server = shop()
    server.transform(only=["add", "look"], rename={"add": "cart_add"}, describe={"add": "new words"})
    server.transform(without=["look"], fix={"cart_add": {"key": "secret"}}, hide={"cart_add": ["count"]})
    prefix = ""
    if mounted:
        child, server, prefix = server, Server("parent", "1"), "s_"
        server.mount(child, prefix="s")
    async with Client(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        assert (tool.name, tool.description) == (f"{prefix}cart_add", "new words")
        assert set(tool.input_schema["properties"]) == {"item"}
        assert (await client.call_tool(f"{prefix}cart_add", {"item": "x"})).text == "x 1 secret"
        for name in ("add", "buy", "look"):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(prefix + name, {"item": "x"})
        with pytest.raises(ProtocolError, match="key"):
            await client.call_tool(f"{prefix}cart_add", {"item": "x", "key": "mine"})


@run
async def test_a_view_tells_that_the_list_changed() -> None:
    server = shop()
    async with Client(server, revision="2025-06-18") as client:
        assert len(await client.list_tools()) == 3
        server.transform(without=["buy"])
        assert len(await client.list_tools()) == 2


def test_two_tools_cannot_get_one_name() -> None:
    with pytest.raises(RegistrationError, match="one name"):
        shop().transform(rename={"add": "x", "buy": "x"})
