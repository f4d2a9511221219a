"""Servers of every original library on Dovetail: what their handlers request, see and raise, on each revision."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, ProtocolError, ToolError
from tests.support.aio import run
from tests.support.waiting import HANG

from .originals import ORIGINALS, PROGRAMS, REVISIONS, environment, on_dovetail, over_http, over_stdio, served

pytestmark = pytest.mark.peer

EVERYTHING, GUARDED, LOW_LEVEL = (
    str(PROGRAMS / f"{name}.py") for name in ("everything", "guarded", "low_level")
)


@pytest.fixture(params=ORIGINALS)
def original(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def use(client: Client) -> None:
    """Everything a server may do in the middle of a call; each handler runs once."""
    assert client.server_info is not None
    assert client.server_info.name == "everything"
    assert client.instructions == "Try it."
    assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
    asked = await asyncio.gather(*(client.call_tool("elicit", {"question": name}) for name in ("one", "two")))
    assert [answer.text for answer in asked] == ["one accept 3 1", "two accept 3 1"]
    assert (await client.call_tool("sample", {"question": "why"})).text == "sampled why 1"
    assert (await client.call_tool("roots")).text == "file:///root"
    assert [block.text for block in (await client.read_resource("note://first")).contents] == ["a note"]
    assert (await client.read_resource("note://by/ann")).contents[0].text == "a note by ann"
    prompt = await client.get_prompt("greet", {"name": "Ann"})
    assert prompt.messages[0].content.text == "Greet Ann."
    with pytest.raises(ToolError, match=r"fail|as meant"):
        await client.call_tool("fail")


def callbacks(logs: list[Any]) -> dict[str, Any]:
    return {
        "on_elicit": lambda request: {"value": 3},
        "on_sample": lambda request: f"sampled {request.messages[0].content.text}",
        "on_roots": ["file:///root"],
        "on_log": lambda params: logs.append(params.data),
    }


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_server_over_stdio_sends_requests_in_the_middle_of_a_call(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        logs: list[Any] = []
        errors: list[bytes] = []
        line = on_dovetail(original, EVERYTHING)
        async with over_stdio(line, revision, on_stderr=errors.append, **callbacks(logs)) as client:
            await use(client)
            await client.set_logging_level("info")
            reported: list[Any] = []
            assert (
                await client.call_tool("report", on_progress=lambda *values: reported.append(values))
            ).text
            assert reported == [(1, 2, None)]
            assert "in the middle" in str(logs)
        text = b"".join(errors).decode()
        assert text.count("lifespan begins") == text.count("lifespan ends") == 1

    scenario()


def test_one_http_server_has_every_revision(original: str) -> None:
    @run
    async def scenario() -> None:
        async with served(on_dovetail(original, EVERYTHING, "--http", "--port", "0")) as child:
            for revision in REVISIONS:
                logs: list[Any] = []
                async with over_http(
                    child.url, revision, headers={"x-who": revision}, **callbacks(logs)
                ) as client:
                    asked = await client.call_tool("elicit", {"question": revision})
                    assert asked.text == f"{revision} accept 3 1"
                    assert (
                        await client.call_tool("sample", {"question": f"of {revision}"})
                    ).text == f"sampled of {revision} 1"
                    assert (await client.call_tool("header", {"name": "x-who"})).text == revision
            page = await asyncio.to_thread(fetched, f"{child.origin}/hello")
            assert page == b"hello"
            assert await child.stop() == 0
            assert child.log.count("lifespan begins") == child.log.count("lifespan ends") == 1

    scenario()


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:
        return response.read()


def test_http_sse_reaches_the_oldest_clients(original: str) -> None:
    @run
    async def scenario() -> None:
        async with served(on_dovetail(original, EVERYTHING, "--sse", "--port", "0")) as child:
            async with over_http(child.url, "2024-11-05", on_sample=lambda request: "yes") as client:
                assert (await client.call_tool("sample", {"question": "why"})).text == "yes 1"
            assert await child.stop() == 0

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancelled_call_is_cancelled_in_the_original(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        async with over_stdio(on_dovetail(original, EVERYTHING), revision) as client:
            call = asyncio.ensure_future(client.call_tool("wait"))
            assert (await client.call_tool("has_begun_to_wait")).data is True
            call.cancel()
            await asyncio.wait([call])
            assert (await client.call_tool("was_stopped")).data is True

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
def test_two_clients_at_once_get_their_own_answers_and_input_requests(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        async with served(on_dovetail(original, EVERYTHING, "--http", "--port", "0")) as child:
            both = asyncio.Barrier(2)

            async def one(value: int) -> None:
                async def answer(request: Any) -> dict[str, int]:
                    await both.wait()  # both calls are under way
                    return {"value": value}

                name = f"client{value}"
                async with over_http(
                    child.url, revision, headers={"x-who": name}, on_elicit=answer
                ) as client:
                    asked = await client.call_tool("elicit", {"question": name})
                    assert asked.text == f"{name} accept {value} 1"
                    assert (await client.call_tool("header", {"name": "x-who"})).text == name

            await asyncio.gather(one(1), one(2))

    scenario()


@pytest.mark.parametrize("revision", REVISIONS[:2])
def test_the_original_sees_who_its_client_is(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        from dovetail.model import Implementation

        info = Implementation("probe", "1.0")
        async with over_stdio(on_dovetail(original, EVERYTHING), revision, client_info=info) as client:
            assert (await client.call_tool("client")).text == "probe"

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_crash_ends_its_call_and_no_other(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        async with (
            served(on_dovetail(original, EVERYTHING, "--http", "--port", "0")) as child,
            over_http(child.url, revision) as client,
            over_http(child.url, revision) as other,
        ):
            waiting = asyncio.ensure_future(other.call_tool("was_stopped"))
            for crash in ("leave", "crash"):
                with pytest.raises((ToolError, ProtocolError)):
                    await client.call_tool(crash)
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_authenticated_user_is_seen_inside_a_tool(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        async with served(on_dovetail(original, GUARDED, "--http", "--port", "0")) as child:
            for name in ("ann", "bob"):
                async with over_http(child.url, revision, auth=f"{name}-token") as client:
                    assert (await client.call_tool("who")).text == name
            with pytest.raises(Exception, match="401"):
                async with over_http(child.url, revision):
                    pass

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("original", ["mcp1", "mcp2"])
def test_a_low_level_server_runs_in_its_own_main_function(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        errors: list[bytes] = []
        line = on_dovetail(original, LOW_LEVEL, "--", "given")
        async with over_stdio(line, revision, on_stderr=errors.append) as client:
            assert [tool.name for tool in await client.list_tools()] == ["double"]
            assert (await client.call_tool("double", {"x": 4})).text == "double 8 given"
        assert b"main ends" in b"".join(errors)
        async with served(on_dovetail(original, LOW_LEVEL, "--http", "--port", "0")) as child:
            async with over_http(child.url, revision) as client:
                assert (await client.call_tool("double", {"x": 5})).text == "double 10"
            assert await child.stop() == 0
            assert "main ends" in child.log

    scenario()


def test_a_web_application_keeps_its_pages_and_paths(original: str) -> None:
    @run
    async def scenario() -> None:
        program = str(PROGRAMS / "own_application.py")
        async with served(on_dovetail(original, program, "--http", "--port", "0")) as child:
            assert await asyncio.to_thread(fetched, f"{child.origin}/") == b"home state"
            for revision in REVISIONS:
                async with over_http(f"{child.origin}/things/mcp", revision) as client:
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
            assert await child.stop() == 0
            assert child.log.count("application begins") == child.log.count("application ends") == 1
        errors: list[bytes] = []
        async with over_stdio(
            on_dovetail(original, program), "2026-07-28", on_stderr=errors.append
        ) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        assert b"application ends" in b"".join(errors)

    scenario()


def test_a_socket_carries_messages_too(original: str, tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        for words in (["--tcp", "127.0.0.1:0"], ["--unix", str(tmp_path / "socket")]):
            async with served(on_dovetail(original, EVERYTHING, *words)) as child:
                async with over_http(
                    child.url, "2026-07-28", on_elicit=lambda request: {"value": 3}
                ) as client:
                    assert (await client.call_tool("elicit", {"question": "one"})).text == "one accept 3 1"
                assert await child.stop() == 0
                assert "lifespan ends" in child.log

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_task_of_the_original_elicits_and_completes(revision: str) -> None:
    @run
    async def scenario() -> None:
        line = on_dovetail("mcp1", str(PROGRAMS / "tasks.py"))
        async with over_stdio(line, revision, on_elicit=lambda request: {"value": 3}) as client:
            assert (await client.call_tool("long")).text == "done 3"

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("original", ["fastmcp2", "fastmcp3"])
def test_a_task_of_fastmcp_gives_its_result(original: str, revision: str) -> None:
    @run
    async def scenario() -> None:
        line = on_dovetail(original, str(PROGRAMS / "fastmcp_tasks.py"))
        async with over_stdio(line, revision) as client:
            assert (await client.call_tool("long", {"value": 1})).data == 2
            if revision > "2025-06-18":
                task = await client.create_task("long", {"value": 3})
                assert (await task.result()).data == 4

    scenario()


def test_a_change_of_the_lists_is_reported_to_clients(original: str) -> None:
    @run
    async def scenario() -> None:
        async with served(on_dovetail(original, EVERYTHING, "--http", "--port", "0")) as child:
            for number, revision in enumerate(REVISIONS):
                changed = asyncio.Event()
                options = {"on_list_changed": lambda kind, changed=changed: changed.set()}
                async with over_http(child.url, revision, **options) as client:
                    before = len(await client.list_tools())
                    await client.call_tool("grow", {"name": f"grown{number}"})
                    async with asyncio.timeout(HANG):
                        await changed.wait()
                    assert len(await client.list_tools(fresh=True)) == before + 1

    scenario()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("original", ["mcp1", "mcp2"])
def test_a_subscriber_of_a_resource_gets_its_updates(original: str, revision: str) -> None:
    program = str(PROGRAMS / "subscriptions.py")

    async def use_subscription(open_client: Callable[..., Client]) -> None:
        updates = asyncio.Queue[str]()
        async with open_client(on_resource_updated=lambda uri, *_: updates.put_nowait(uri)) as client:
            await client.subscribe_resource("note://a")
            assert (await client.call_tool("touch")).text == "note://a"
            async with asyncio.timeout(HANG):
                assert await updates.get() == "note://a"
            await client.unsubscribe_resource("note://a")

    @run
    async def scenario() -> None:
        await use_subscription(partial(over_stdio, on_dovetail(original, program), revision))
        async with served(on_dovetail(original, program, "--http", "--port", "0")) as child:
            await use_subscription(partial(over_http, child.url, revision))

    scenario()


def test_a_module_is_served_with_m(original: str, tmp_path: Path) -> None:
    package = tmp_path / "things"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "server.py").write_text(Path(EVERYTHING).read_text())
    (package / "__main__.py").write_text("from .server import mcp\nmcp.run()\n")

    @run
    async def scenario() -> None:
        env = environment(PYTHONPATH=f"{environment()['PYTHONPATH']}:{tmp_path}")
        async with over_stdio(on_dovetail(original, "-m", "things"), "2026-07-28", env=env) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3

    scenario()
