"""Raw handlers that take ``**arguments``: what they have themselves, and arguments of the same name."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from dovetail import Client, Context, Depends, RegistrationError, Server, ToolError
from tests.support.aio import run

ANY = {"type": "object"}


class Tools:
    async def handler(self, ctx: Context, said: str = Depends(lambda: "word"), **arguments: Any) -> str:
        return f"{type(ctx).__name__} {said} {arguments}"


async def provided(_said: str = Depends(lambda: "word"), **arguments: Any) -> str:
    return f"{arguments}"


def settled(**arguments: Any) -> str:
    return f"{arguments}"


TAKEN = [
    (Tools().handler, "ctx"),
    (Tools().handler, "said"),
    (Tools().handler, "self"),
    (provided, "dovetail_context"),
    (partial(settled, a=1), "a"),
]


@pytest.mark.parametrize(("handler", "name"), TAKEN)
@run
async def test_no_argument_takes_the_place_of_what_the_handler_has_itself(handler: Any, name: str) -> None:
    server = Server("raw")
    server.add_tool(name="raw", input_schema=ANY, handler=handler)
    async with Client(server) as client:
        assert "'b': 2" in (await client.call_tool("raw", {"b": 2})).text
        with pytest.raises(ToolError, match=f"unknown argument '{name}'"):
            await client.call_tool("raw", {"b": 2, name: 3})


@pytest.mark.parametrize(("handler", "name"), TAKEN)
def test_a_schema_may_not_name_what_could_not_reach_the_handler(handler: Any, name: str) -> None:
    with pytest.raises(RegistrationError, match=f"has '{name}' itself"):
        Server("raw").add_tool(name="raw", input_schema={**ANY, "properties": {name: {}}}, handler=handler)


@run
async def test_a_context_taken_by_its_place_leaves_its_name_to_an_argument() -> None:
    async def placed(ctx: Context, /, **arguments: Any) -> str:
        return f"{type(ctx).__name__} {arguments}"

    async def whole(arguments: dict[str, Any], ctx: Context) -> str:
        return f"{type(ctx).__name__} {arguments}"

    server = Server("raw")
    schema = {**ANY, "properties": {"ctx": {"type": "integer"}, "arguments": {}}}
    for handler in (placed, whole):
        server.add_tool(name=handler.__name__, input_schema=schema, handler=handler)
    async with Client(server) as client:
        for tool in ("placed", "whole"):
            for name in ("ctx", "arguments"):
                assert (await client.call_tool(tool, {name: 2})).text == f"Context {{'{name}': 2}}"
