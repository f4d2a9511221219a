"""Names of mounted tools that are too long for some model APIs."""

import re
from collections.abc import Callable

import pytest

from dovetail import Client, ProtocolError, RegistrationError, Server
from dovetail.gateway import Proxy
from dovetail.testing import connect
from tests.support.aio import run

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
LONG = "take_the_measurements_of_every_station_on_the_coast"
PREFIX = "weather_service"


def measuring() -> Server:
    server = Server("measuring", "1")

    @server.tool(name=LONG)
    def measure(city: str = "") -> str:
        return f"{city}: sun"

    @server.tool(name=f"{LONG}_twice")
    def again() -> str:
        return "again"

    @server.tool
    def short() -> str:
        return "short"

    @server.prompt(name=LONG)
    def prompt() -> str:
        return "a prompt"

    return server


def plain() -> Server:
    server = Server("front", "1")
    server.mount(measuring(), prefix=PREFIX)
    return server


def proxied() -> Server:
    server = Server("front", "1")
    server.mount(Proxy(measuring()), prefix=PREFIX)
    return server


def nested() -> Server:
    middle, server = Server("middle", "1"), Server("front", "1")
    middle.mount(measuring(), prefix=PREFIX)
    server.mount(middle, prefix="a_gateway_of_gateways")
    return server


@pytest.mark.parametrize("make", [plain, proxied, nested])
@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_long_names_are_shortened_and_can_be_called(make: Callable[[], Server], revision: str) -> None:
    async with connect(make(), revision) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert len(set(names)) == 3
        first, second, short = names
        assert short.endswith("_short")
        for name in (first, second):
            assert len(name) == 64
            assert re.fullmatch(r"[A-Za-z0-9_-]+_[0-9a-f]{8}", name)
        assert (await client.call_tool(first, {"city": "Oslo"})).text == "Oslo: sun"
        assert (await client.call_tool(second)).text == "again"
        # No model API sees the names of prompts.
        assert [prompt.name.endswith(LONG) for prompt in await client.list_prompts()] == [True]


@pytest.mark.parametrize("make", [plain, proxied, nested])
@run
async def test_each_process_gives_the_same_name_and_knows_it_before_the_first_list(
    make: Callable[[], Server],
) -> None:
    async with connect(make()) as client:
        names = [tool.name for tool in await client.list_tools()]
    async with connect(make()) as other:
        assert (await other.call_tool(names[0], {"city": "Oslo"})).text == "Oslo: sun"
        assert (await other.call_tool(names[1])).text == "again"
        with pytest.raises(ProtocolError):
            await other.call_tool(f"{names[0][:-1]}_")


@run
async def test_the_longest_name_is_an_option() -> None:
    server = plain()
    server.transform(max_name_length=32)
    async with Client(server) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert max(map(len, names)) == 32
        assert (await client.call_tool(names[1])).text == "again"
    server.transform(max_name_length=200)
    async with Client(server) as client:
        assert f"{PREFIX}_{LONG}_twice" in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool(f"{PREFIX}_{LONG}_twice")).text == "again"


@pytest.mark.parametrize("wrong", [0, 10, "64", None])
def test_a_limit_without_room_for_the_hash_is_refused(wrong: object) -> None:
    with pytest.raises(RegistrationError, match="max_name_length"):
        Server("s").transform(max_name_length=wrong)  # type: ignore[typeddict-item]
