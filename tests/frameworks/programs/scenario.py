"""What every framework has to show. Runs in the environment of the framework: ``python scenario.py FRAMEWORK PART …``.

PART is ``integration PYTHON SHOP``, ``theirs TRANSPORT TARGET…`` or ``reverse``. Exit code 0: all of it holds.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import importlib
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

LIMIT = 60.0
NAMES = {"add", "fail", "greet", "picture", "process", "revision", "shop_order", "state", "wait"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
ORDER = {"item": "tea", "count": 2, "size": "large", "extras": ["milk", "sugar"]}


SETTINGS = {
    "CANCELS": True,  # whether the framework can cancel a call
    "THEIRS_CANCELS": "the server",  # what its own client cancels: "the server", "the caller" alone, or "nothing"
    "THEIRS_FORGETS": (),  # transports on which its own client opens a connection for every call
}


class Outcome(NamedTuple):
    """What a framework gives to its agent for a call."""

    text: str
    data: Any = None
    """The structured content, or None where the framework has no place for it."""
    images: tuple[bytes, ...] = ()
    failed: bool = False


async def check_tools(program: Any, tools: dict[str, Any], *, ours: bool) -> None:
    """Every kind of result, a failure, wrong arguments. What becomes of images and failures is up to each client."""

    async def call(name: str, /, **arguments: Any) -> Outcome:
        return await program.call(tools[name], arguments)

    added = await call("add", a=2, b=3)
    assert "5" in added.text, added
    assert added.data in (None, {"total": 5}), added
    assert "3" in (await call("add", a=2)).text
    assert "Hello, Ada!" in (await call("greet", name="Ada")).text
    ordered = await call("shop_order", order=ORDER)
    assert "milk" in ordered.text, ordered
    assert ordered.data in (None, ORDER), ordered
    shown = await call("picture")
    assert shown.images == ((PIXEL,) if program.IMAGES else ()) or not ours, shown
    failed = await call("fail")
    assert failed.failed or not ours, failed
    assert "out of paper" in failed.text, failed
    wrong = await call("add", a="many")
    assert wrong.failed or not ours, wrong
    assert "total" not in wrong.text, wrong


async def check_cancellation(program: Any, tools: dict[str, Any], key: str, *, stops: bool = True) -> None:
    """A cancelled call ends; ``stops``: on the server too. The connection stays open."""

    async def state() -> str:
        return (await program.call(tools["state"], {"key": key})).text

    async with asyncio.timeout(LIMIT):
        call, cancel = program.waiting(tools["wait"], {"key": key})
        while "waiting" not in await state():
            assert not call.done(), call
        cancel()
        await asyncio.wait([call])
        while stops and "stopped" not in await state():
            pass
    assert "Hello" in (await program.call(tools["greet"], {"name": "Eve"})).text


async def integration(program: Any, python: str, shop: str) -> None:
    from dovetail import Client, Clients

    command = [python, shop, "stdio"]
    async with Client(command) as client:
        tools = named(program, await program.module.load_tools(client))
        assert tools.keys() == NAMES, tools.keys()
        listed = {tool.name: tool for tool in await client.list_tools()}
        for name in ("add", "shop_order"):
            wanted = listed[name.replace("_", "-")].input_schema
            schema = program.parameters(tools[name])
            for key in ("properties", "required", "$defs"):
                assert schema.get(key) == wanted.get(key), (schema, wanted)
        await check_tools(program, tools, ours=True)
        if program.DATA:
            assert (await program.call(tools["add"], {"a": 2, "b": 3})).data == {"total": 5}
        if program.CANCELS:
            await check_cancellation(program, tools, "here")

        def elsewhere() -> Outcome:
            return asyncio.run(program.call(tools["process"], {}))

        here = await asyncio.gather(*[program.call(tools["process"], {}) for _ in range(20)])
        there = await asyncio.gather(*[asyncio.to_thread(elsewhere) for _ in range(3)])
        assert len({outcome.text for outcome in (*here, *there)}) == 1, "one connection serves all calls"
        if hasattr(program, "call_in_thread"):
            outcome = await asyncio.to_thread(program.call_in_thread, tools["greet"], {"name": "Ada"})
            assert "Hello, Ada!" in outcome.text
        kept = tools["greet"]
    try:
        refused = (await program.call(kept, {"name": "Ada"})).text
    except Exception as error:  # some frameworks wrap it
        refused = chain(error)
    assert "closed" in refused, refused
    entry = {"command": python, "args": [shop, "stdio"]}
    async with Clients({"mcpServers": {"one": entry, "two": entry}}) as clients:
        tools = named(program, await program.module.load_tools(clients))
        assert len(tools) == 2 * len(NAMES), tools.keys()
        one, two = [(await program.call(tools[f"{name}_process"], {})).text for name in ("one", "two")]
        assert one != two
    await asyncio.to_thread(synchronous, program, command)
    if hasattr(program, "more"):
        async with Client(command) as client:
            await program.more(client)


def synchronous(program: Any, command: list[str]) -> None:
    """The same for a program without an event loop."""
    from dovetail.sync import Client

    with Client(command) as client:
        tools = named(program, program.module.load_tools_sync(client))
        assert "Hello, Ada!" in asyncio.run(program.call(tools["greet"], {"name": "Ada"})).text
        if hasattr(program, "call_in_thread"):
            assert "Hello, Eve!" in program.call_in_thread(tools["greet"], {"name": "Eve"}).text
        if not program.CANCELS:
            check_closing(program, tools, client)


def check_closing(program: Any, tools: dict[str, Any], client: Any) -> None:
    """Synchronous code cannot be cancelled: closing the client ends its calls."""
    with ThreadPoolExecutor() as threads:
        call = threads.submit(program.call_in_thread, tools["wait"], {"key": "there"})
        while "waiting" not in program.call_in_thread(tools["state"], {"key": "there"}).text:
            assert not call.done(), call
        client.close()
        error = call.exception(LIMIT)
        assert error is not None or call.result().failed


async def theirs(program: Any, transport: str, *target: str) -> None:
    """Our server with the client that the framework brings."""
    async with program.theirs(transport, target) as loaded:
        tools = named(program, loaded)
        assert tools.keys() == NAMES, tools.keys()
        await check_tools(program, tools, ours=False)
        if (
            program.CANCELS
            and program.THEIRS_CANCELS != "nothing"
            and transport not in program.THEIRS_FORGETS
        ):
            key = f"{program.__name__} over {transport}"
            await check_cancellation(program, tools, key, stops=program.THEIRS_CANCELS == "the server")
        if transport not in program.THEIRS_FORGETS:
            async with program.theirs(transport, target) as others:
                await check_two(program, tools, named(program, others), apart=transport == "stdio")


async def check_two(program: Any, one: dict[str, Any], two: dict[str, Any], *, apart: bool) -> None:
    """Two connections at once: each tool calls its server. On stdio each server is a process."""
    calls = [program.call(tools["process"], {}) for tools in (one, two) for _ in range(3)]
    texts = [outcome.text for outcome in await asyncio.gather(*calls)]
    assert len(set(texts[:3])) == len(set(texts[3:])) == 1, texts
    assert (texts[0] != texts[3]) == apart, texts


async def compat(program: Any, transport: str, *target: str) -> None:
    """The client of the framework speaks the newest revision with Dovetail below it."""
    from dovetail.compat import install

    install()
    async with program.theirs(transport, target) as loaded:
        tools = named(program, loaded)
        assert tools.keys() == NAMES, tools.keys()
        await check_tools(program, tools, ours=False)
        assert "2026-07-28" in (await program.call(tools["revision"], {})).text


def named(program: Any, tools: Any) -> dict[str, Any]:
    return {name.replace("-", "_"): tool for name, tool in program.named(tools).items()}


def chain(error: BaseException | None) -> str:
    words: list[str] = []
    while error is not None:
        words.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(words)


def main(framework: str, part: str, *arguments: str) -> None:
    program: Any = importlib.import_module(f"with_{framework}")
    program.module = importlib.import_module(f"dovetail.integrations.{framework}")
    for setting, value in SETTINGS.items():
        vars(program).setdefault(setting, value)
    unraisable: list[Any] = []
    sys.unraisablehook = unraisable.append
    # What a framework warns of while it is imported is its own affair; a warning of an open connection is ours.
    for kind in (ResourceWarning, RuntimeWarning, UserWarning):
        warnings.simplefilter("error", kind)
    work = {
        "integration": integration,
        "theirs": theirs,
        "compat": compat,
        "reverse": getattr(program, "reverse", None),
    }[part]
    assert work is not None
    asyncio.run(work(program, *arguments) if part != "reverse" else work())
    gc.collect()
    assert not unraisable, [(each.exc_value, each.object) for each in unraisable]
    print("ok")


if __name__ == "__main__":
    sys.modules["scenario"] = sys.modules["__main__"]
    main(*sys.argv[1:])
