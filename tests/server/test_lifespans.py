"""Several lifespans: entered in order, left in reverse."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Context, Server
from tests.support.aio import run


def noted(seen: list[str], name: str, value: Any) -> Callable[[Server], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[Any]:
        seen.append(f"{name} in {server.name}")
        try:
            yield value
        finally:
            seen.append(f"{name} out")

    return lifespan


@run
async def test_lifespans_are_entered_in_order_and_left_in_reverse() -> None:
    seen: list[str] = []
    parts = [noted(seen, "a", {"x": 1, "y": 1}), noted(seen, "b", {"y": 2}), noted(seen, "c", None)]
    server = Server("both", lifespan=parts)

    @server.tool
    async def look(ctx: Context) -> dict[str, int]:
        return ctx.lifespan

    async with Client(server) as client:
        assert (await client.call_tool("look")).data == {"x": 1, "y": 2}
    await server.lifecycle.stop()
    assert seen == ["a in both", "b in both", "c in both", "c out", "b out", "a out"]


@run
async def test_other_values_come_as_a_list() -> None:
    server = Server("both", lifespan=[noted([], "a", "one"), noted([], "b", {"two": 2})])
    async with server.running():
        assert server.lifecycle.lifespan_value == ["one", {"two": 2}]


@run
async def test_when_one_fails_those_before_it_are_left() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    server = Server("both", lifespan=[noted(seen, "a", None), broken, noted(seen, "c", None)])
    with pytest.raises(OSError, match="no database"):
        await server.lifecycle.start()
    assert seen == ["a in both", "a out"]
