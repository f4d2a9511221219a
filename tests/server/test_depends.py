"""Dependencies: provided to handlers, hidden from clients, ended after the call."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from dovetail import Client, Context, Depends, Handle, RegistrationError, Server, ToolError
from tests.support.aio import run


def tools() -> tuple[Server, list[str]]:
    server = Server("shop")
    seen: list[str] = []

    async def settings() -> dict[str, str]:
        seen.append("settings")
        return {"currency": "EUR"}

    async def database(config: dict[str, str] = Depends(settings)) -> AsyncIterator[str]:
        seen.append("open")
        try:
            yield f"db in {config['currency']}"
        except ToolError:
            seen.append("rolled back")
            raise
        finally:
            seen.append("closed")

    @server.tool
    async def orders(
        user: str, db: Any = Depends(database), again: dict[str, str] = Depends(settings)
    ) -> str:
        """Orders.

        Args:
            user: whose
        """
        seen.append("called")
        return f"{user}: {db}, {again['currency']}"

    @server.tool
    def refuse(db: Annotated[str, Depends(database)]) -> str:
        raise ToolError("no orders")

    return server, seen


@run
async def test_a_dependency_is_provided_once_per_call_and_ended_after_it() -> None:
    server, seen = tools()
    async with Client(server) as client:
        assert (await client.call_tool("orders", {"user": "ada"})).text == "ada: db in EUR, EUR"
        assert seen == ["settings", "open", "called", "closed"]
        await client.call_tool("orders", {"user": "bob"})
    assert seen.count("settings") == 2


@run
async def test_an_exception_of_the_handler_reaches_its_dependencies() -> None:
    server, seen = tools()
    async with Client(server) as client:
        with pytest.raises(ToolError, match="no orders"):
            await client.call_tool("refuse")
    assert seen[-2:] == ["rolled back", "closed"]


@run
async def test_clients_neither_see_dependencies_nor_can_give_them() -> None:
    server, seen = tools()
    async with Client(server) as client:
        listed = {tool.name: tool.input_schema for tool in await client.list_tools()}
        assert list(listed["orders"]["properties"]) == ["user"]
        assert listed["refuse"].get("properties", {}) == {}
        with pytest.raises(ToolError, match="db"):
            await client.call_tool("orders", {"user": "eve", "db": "mine"})
    assert seen == []


@run
async def test_every_kind_of_function_can_be_one() -> None:
    server = Server("kinds")
    ended: list[str] = []
    main = threading.get_ident()

    def plain() -> bool:
        return threading.get_ident() != main

    def generator(ctx: Context) -> Iterator[str]:
        yield ctx.revision
        ended.append(f"generator {threading.get_ident() != main}")

    @contextmanager
    def managed() -> Iterator[str]:
        yield "managed"
        ended.append("managed")

    @asynccontextmanager
    async def managed_later() -> AsyncIterator[str]:
        yield "managed later"
        ended.append("managed later")

    class Connection:
        def __enter__(self) -> str:
            raise AssertionError("a value is not entered")

        def __exit__(self, *_: object) -> None: ...

    @server.tool
    def all_of_them(
        a: bool = Depends(plain),
        b: str = Depends(generator),
        c: str = Depends(managed),
        d: str = Depends(managed_later),
        e: Connection = Depends(Connection),
        f: str = Depends(lambda: "lambda"),
    ) -> dict[str, list[Any]]:
        return {"found": [a, b, c, d, type(e).__name__, f]}

    async with Client(server, revision="2025-06-18") as client:
        found = (await client.call_tool("all_of_them")).data["found"]
    assert found == [True, "2025-06-18", "managed", "managed later", "Connection", "lambda"]
    assert ended == ["managed later", "managed", "generator True"]


@run
async def test_without_cache_each_gets_its_own() -> None:
    server = Server("numbers")
    numbers = iter(range(10))
    next_number: Any = lambda: next(numbers)  # noqa: E731

    @server.tool
    def pair(
        a: int = Depends(next_number, cache=False), b: int = Depends(next_number, cache=False)
    ) -> list[int]:
        return [a, b]

    async with Client(server) as client:
        assert (await client.call_tool("pair")).data == [0, 1]


@run
async def test_resources_prompts_raw_tools_and_handles_have_them_too() -> None:
    server = Server("everywhere")

    async def word() -> str:
        return "word"

    @server.resource("words://{name}")
    def read(name: str, said: str = Depends(word)) -> str:
        return f"{name} {said}"

    @server.prompt
    def ask(name: str, said: str = Depends(word)) -> str:
        return f"{name} {said}"

    @server.tool
    async def keep(ctx: Context) -> str:
        return await ctx.create_handle("kept")

    @server.tool
    async def both(handle: Handle[str], said: str = Depends(word)) -> str:
        return f"{handle.value} {said}"

    async def raw(arguments: dict[str, Any], said: str = Depends(word)) -> str:
        return f"{arguments['a']} {said}"

    server.add_tool(name="raw", input_schema={"type": "object"}, handler=raw)
    async with Client(server) as client:
        assert (await client.read_resource("words://one")).contents[0].text == "one word"
        assert "one word" in str((await client.get_prompt("ask", {"name": "one"})).messages[0].content)
        handle = (await client.call_tool("keep")).text
        assert (await client.call_tool("both", {"handle": handle})).text == "kept word"
        assert (await client.call_tool("raw", {"a": 1})).text == "1 word"


@run
async def test_a_dependency_that_fails_is_masked_and_what_was_opened_is_closed() -> None:
    server = Server("broken")
    closed = asyncio.Event()

    async def first() -> AsyncIterator[int]:
        yield 1
        closed.set()

    async def broken() -> int:
        raise ValueError("secret")

    @server.tool
    async def use(a: int = Depends(first), b: int = Depends(broken)) -> int:
        return a + b

    async with Client(server) as client:
        result = await client.call_tool("use", check=False)
        assert result.is_error
        assert "secret" not in result.text
    # The generator saw the exception at its yield, so nothing after it ran: only `finally` would.
    assert not closed.is_set()


def test_what_cannot_be_provided_is_said_at_the_decorator() -> None:
    server = Server("wrong")

    def needs(value: int) -> int:
        return value

    def circular(other: Any = None) -> Any: ...

    circular.__defaults__ = (Depends(circular),)
    with pytest.raises(RegistrationError, match="has no value"):
        server.tool(lambda_named(needs))
    with pytest.raises(RegistrationError, match="depends on itself"):
        server.tool(lambda_named(circular))
    with pytest.raises(RegistrationError, match="Depends takes a function"):
        Depends("database")  # pyright: ignore[reportArgumentType]


def lambda_named(dependency: Any) -> Any:
    def tool(value: Any = Depends(dependency)) -> None: ...

    return tool
