"""Arguments that models send as texts, at tools of every kind and on every revision."""

from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Client, RegistrationError, Server, ToolError
from dovetail.middleware import Middleware, Policy
from dovetail.wire.revisions import REVISIONS
from tests.support.aio import run

WRONG = [{"count": "five"}, {"count": "5.5"}, {"count": "true"}, {"count": ["5"]}]
SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "numbers": {"type": "array", "items": {"type": "integer"}}},
    "required": ["count"],
}


@dataclass
class Point:
    x: int
    y: float


def build(**options: Any) -> Server:
    server = Server("coercion", **options)

    @server.tool
    def typed(
        count: int, numbers: list[int] | None = None, point: Point | None = None, text: str = ""
    ) -> str:
        return repr((count, numbers, point, text))

    @server.tool(strict_arguments=True)
    def strict(count: int) -> int:
        return count

    server.add_tool(name="raw", input_schema=SCHEMA, handler=lambda arguments: repr(arguments))
    return server


@pytest.mark.parametrize("revision", [one.name for one in REVISIONS])
@run
async def test_texts_become_the_declared_types_on_every_revision(revision: str) -> None:
    async with Client(build(), revision=revision) as client:
        arguments = {"count": "5", "numbers": "[1, 2]", "point": '{"x": 1, "y": "2"}', "text": "7"}
        result = await client.call_tool("typed", arguments)
        assert result.text == "(5, [1, 2], Point(x=1, y=2.0), '7')"
        raw = await client.call_tool("raw", {"count": "5", "numbers": ["1", 2]})
        assert raw.text == "{'count': 5, 'numbers': [1, 2]}"


@pytest.mark.parametrize("arguments", WRONG)
@pytest.mark.parametrize("tool", ["typed", "raw"])
@run
async def test_texts_of_another_type_are_refused(tool: str, arguments: dict[str, Any]) -> None:
    async with Client(build()) as client:
        with pytest.raises(ToolError, match="count"):
            await client.call_tool(tool, arguments)


@run
async def test_strict_tools_and_strict_servers_refuse_texts() -> None:
    async with Client(build()) as client:
        with pytest.raises(ToolError, match="expected integer, got string"):
            await client.call_tool("strict", {"count": "5"})
    async with Client(build(strict_arguments=True)) as client:
        for tool in ("typed", "raw", "strict"):
            with pytest.raises(ToolError, match="count"):
                await client.call_tool(tool, {"count": "5"})
            assert (await client.call_tool(tool, {"count": 5})).is_error is False


@run
async def test_coerced_calls_are_counted_by_tool() -> None:
    server = build()
    metrics = server.metrics
    async with Client(server) as client:
        await client.call_tool("typed", {"count": 5})
        await client.call_tool("typed", {"count": "5", "numbers": "[1]"})
        await client.call_tool("raw", {"count": "5"})
    assert metrics.read("dovetail_arguments_coerced_total", name="typed") == 1
    assert metrics.read("dovetail_arguments_coerced_total", name="raw") == 1


@run
async def test_middleware_and_policies_see_the_arguments_that_the_handler_gets() -> None:
    seen: list[Any] = []

    class Note(Middleware):
        async def call_tool(self, request: Any, call_next: Any) -> Any:
            seen.append(request.arguments)
            return await call_next(request)

    policy = Policy(arguments={"raw": {"numbers": r"\[1(,1)*\]"}})
    async with Client(build(middleware=[Note(), policy])) as client:
        await client.call_tool("raw", {"count": "5", "numbers": "[1, 1]"})
        with pytest.raises(Exception, match="numbers"):
            await client.call_tool("raw", {"count": 5, "numbers": "[1,2]"})
    assert seen[0] == {"count": 5, "numbers": [1, 1]}


def test_the_option_takes_true_or_false_only() -> None:
    with pytest.raises(RegistrationError, match="strict_arguments"):
        Server("x").tool(strict_arguments="yes")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="strict_arguments"):
        Server("x", strict_arguments="yes")  # type: ignore[arg-type]
