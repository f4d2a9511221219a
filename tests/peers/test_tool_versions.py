"""Versions and tags of FastMCP: requested by Dovetail's client, and selected by a proxy."""

from pathlib import Path

import pytest
from bench import peers

from dovetail import Client, ProtocolError
from dovetail.gateway import Proxy
from tests.support.aio import run

from .environment import need

pytestmark = pytest.mark.peer

SERVER = """
from fastmcp import FastMCP

server = FastMCP("versions")


@server.tool(name="price", version="1.0", tags={"read"})
def one() -> str:
    return "one"


@server.tool(name="price", version="2.0", tags={"read"})
def two() -> str:
    return "two"


@server.tool(tags={"write"})
def buy() -> str:
    return "bought"


server.run(show_banner=False)
"""


@run
async def test_versions_and_tags_of_fastmcp_are_understood(tmp_path: Path) -> None:
    need("fastmcp")
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    proxy = Proxy([peers.interpreter("fastmcp"), str(path)], discovery_timeout=30)
    proxy.transform(include=["tag:read"])
    async with Client(proxy) as client:
        assert [tool.name for tool in await client.list_tools()] == ["price"]
        assert (await client.call_tool("price")).text == "two"
        assert (await client.call_tool("price", version="1.0")).text == "one"
        assert (await client.call_tool("price@1.0")).text == "one"
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.call_tool("buy")
