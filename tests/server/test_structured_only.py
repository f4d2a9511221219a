"""Tools with ``text=False``: structured content without the same as text."""

from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Client, Server, TextContent
from dovetail.gateway import Proxy
from dovetail.wire.revisions import REVISIONS
from tests.support.aio import run

STRUCTURED = [one.name for one in REVISIONS if one.name >= "2025-06-18"]
TEXT_ONLY = [one.name for one in REVISIONS if one.name < "2025-06-18"]


@dataclass
class Point:
    x: int


def build(**options: Any) -> Server:
    server = Server("structured", **options)

    @server.tool(text=False)
    def point() -> Point:
        return Point(1)

    @server.tool(text=False)
    def number() -> float:
        return 1.5

    @server.tool(text=False)
    def undeclared():  # type: ignore[no-untyped-def]
        return {"a": 1}

    @server.tool(text=False)
    def plain() -> Any:
        return "text"

    @server.tool(text=False)
    def both() -> Any:
        return TextContent("own words"), {"a": 1}

    @server.tool
    def usual() -> Point:
        return Point(2)

    return server


@pytest.mark.parametrize("revision", STRUCTURED)
@run
async def test_structured_content_comes_alone(revision: str) -> None:
    async with Client(build(), revision=revision) as client:
        for name, data in (("point", {"x": 1}), ("number", 1.5), ("undeclared", {"a": 1})):
            result = await client.call_tool(name)
            assert result.content == []
            wrapped = {"result": data} if name == "number" and revision < "2026-07-28" else data
            assert result.structured_content == wrapped
        assert (await client.call_tool("plain")).text == "text"
        assert (await client.call_tool("both")).text == "own words"
        assert (await client.call_tool("usual")).text == '{"x":2}'


@pytest.mark.parametrize("revision", TEXT_ONLY)
@pytest.mark.parametrize("proxied", [False, True])
@run
async def test_revisions_without_structured_content_get_the_text(revision: str, proxied: bool) -> None:
    target = Proxy(build()) if proxied else build()
    async with Client(target, revision=revision) as client:
        assert (await client.call_tool("point")).text == '{"x":1}'
        assert (await client.call_tool("number")).text == '{"result":1.5}'
        assert (await client.call_tool("plain")).text == "text"


@run
async def test_the_server_sets_the_default() -> None:
    async with Client(build(text=False)) as client:
        assert (await client.call_tool("usual")).content == []
