"""What the modules of the frameworks share, without a framework."""

from __future__ import annotations

import asyncio
import json
import pydoc
import subprocess
import sys
from typing import Any

import pytest

import dovetail
from dovetail import Client, Image, ResourceLink, Server, sync
from dovetail.errors import DovetailError, RegistrationError, StateError, ToolError
from dovetail.integrations import FRAMEWORKS, remote_tools
from dovetail.integrations.remote_tools import RemoteTool, parts, text_of
from dovetail.model import CallToolResult, EmbeddedResource, ResourceContents
from tests.support.aio import run
from tests.support.waiting import HANG


def shop() -> Server:
    server = Server("shop")

    @server.tool(name="files.read", annotations={"readOnlyHint": True})
    async def read(path: str) -> str:
        """Read a file."""
        return f"contents of {path}"

    @server.tool(name="files_read")
    async def other() -> str:
        return "the other one"

    @server.tool
    async def mixed() -> list[Any]:
        return [
            "text",
            Image(data=b"1234", format="png"),
            ResourceLink(name="note", uri="note://1"),
            EmbeddedResource(ResourceContents("note://2", text="a note")),
            EmbeddedResource(ResourceContents("note://3", mime_type="application/pdf", blob="UERG")),
        ]

    @server.tool
    async def bare() -> CallToolResult:
        return CallToolResult([], structured_content={"total": 3})

    @server.tool
    async def fail() -> str:
        raise ToolError("out of paper")

    return server


async def tools_of(client: Client, **options: Any) -> dict[str, RemoteTool]:
    return {tool.definition.name: tool for tool in await remote_tools.remote_tools(client, **options)}


@run
async def test_names_are_made_of_what_models_accept_and_stay_different() -> None:
    async with Client(shop()) as client:
        tools = await tools_of(client)
        names = [tool.name for tool in tools.values()]
        assert len(set(names)) == len(names)
        assert tools["files.read"].name == "files_read"
        assert tools["files_read"].name.startswith("files_read_")
        short = await tools_of(client, length=12)
        assert all(len(tool.name) <= 12 for tool in short.values())
        assert (await tools["files.read"].call({"path": "a"})).text == "contents of a"
        assert (await tools["files_read"].call(None)).text == "the other one"


def test_a_long_name_ends_with_a_digest_of_the_whole() -> None:
    first, second = (remote_tools.function_name("a" * 100 + end) for end in "xy")
    assert len(first) == len(second) == remote_tools.NAME_LENGTH
    assert first != second


@run
async def test_a_tool_has_what_the_server_says_of_it() -> None:
    async with Client(shop()) as client:
        tools = await tools_of(client)
        read, bare = tools["files.read"], tools["bare"]
        assert (read.description, read.annotations) == ("Read a file.", {"readOnlyHint": True})
        assert read.input_schema["properties"]["path"]["type"] == "string"
        assert bare.input_schema["type"] == "object"
        assert bare.input_schema["properties"] == {}


@run
async def test_every_kind_of_content_becomes_a_part() -> None:
    async with Client(shop()) as client:
        tools = await tools_of(client)
        result = await tools["mixed"].call({})
        text, image, link, note, file = parts(result)
        assert (text.kind, text.text) == ("text", "text")
        assert (image.kind, image.bytes, image.mime_type) == ("image", b"1234", "image/png")
        assert image.data_url == "data:image/png;base64,MTIzNA=="
        assert (link.kind, link.uri) == ("link", "note://1")
        assert (note.kind, note.text) == ("text", "a note")
        assert (file.kind, file.bytes, file.mime_type) == ("file", b"PDF", "application/pdf")
        assert text_of(result).splitlines() == [
            "text",
            "[image: image/png, 4 bytes]",
            "note: note://1",
            "a note",
            "[file: application/pdf, 3 bytes]",
        ]
        assert json.loads(text_of(await tools["bare"].call({}))) == {"total": 3}


@run
async def test_a_tool_is_called_from_threads_and_from_other_event_loops() -> None:
    async with Client(shop()) as client:
        read = (await tools_of(client))["files.read"]
        arguments = {"path": "b"}
        assert (await asyncio.to_thread(read.call_from_thread, arguments)).text == "contents of b"
        elsewhere = await asyncio.to_thread(lambda: asyncio.run(read.call(arguments)))
        assert elsewhere.text == "contents of b"
        fail = (await tools_of(client))["fail"]
        with pytest.raises(ToolError, match="out of paper"):
            await asyncio.to_thread(fail.call_from_thread, {})


@run
async def test_an_event_loop_does_not_wait_for_itself() -> None:
    async with Client(shop()) as client:
        read = (await tools_of(client))["files.read"]
        with pytest.raises(StateError, match="await it"):
            read.call_from_thread({"path": "c"})


def test_a_tool_whose_event_loop_has_ended_says_so() -> None:
    async def load() -> RemoteTool:
        async with Client(shop()) as client:
            return (await tools_of(client))["files.read"]

    read = asyncio.run(load())
    with pytest.raises(StateError, match="has ended"):
        read.call_from_thread({"path": "d"})
    with pytest.raises(StateError, match="has ended"):
        asyncio.run(read.call({"path": "d"}))


def test_the_tools_of_a_synchronous_client_are_loaded_without_await() -> None:
    async def load(client: Client) -> list[RemoteTool]:
        return await remote_tools.remote_tools(client)

    load_sync = remote_tools.blocking(load)
    with sync.Client(shop()) as client:
        tools = {tool.definition.name: tool for tool in load_sync(client)}
        assert tools["files.read"].call_from_thread({"path": "e"}).text == "contents of e"
        wrong: Any = client
        with pytest.raises(TypeError, match="use load_tools_sync"):
            asyncio.run(load(wrong))
    wrong = Client(shop())
    with pytest.raises(TypeError, match="await load_tools"):
        load_sync(wrong)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_that_is_not_installed_is_named_with_its_command(framework: str) -> None:
    with pytest.raises(DovetailError, match="pip install") as caught:
        __import__(f"dovetail.integrations.{framework}")
    assert caught.value.kind == "missing_extra"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_attribute_of_a_framework_that_is_not_installed_says_it_in_one_line(framework: str) -> None:
    with pytest.raises(DovetailError, match=r"needs the module \S+: pip install --upgrade \S+$") as caught:
        getattr(dovetail.integrations, framework)
    assert "\n" not in str(caught.value)
    assert not hasattr(dovetail.integrations, framework)


def test_the_package_lists_its_frameworks_and_has_a_help_page() -> None:
    assert set(FRAMEWORKS) < set(dir(dovetail.integrations))
    assert "langchain" in pydoc.render_doc(dovetail.integrations)


def test_add_tools_takes_functions_and_names_what_it_cannot_take() -> None:
    def first() -> str:
        return "1"

    async def second() -> str:
        return "2"

    server = Server("many")
    server.add_tools(first, [second])
    assert list(server.registry.tools.entries) == ["first", "second"]
    with pytest.raises(RegistrationError, match="not 'int'"):
        server.add_tools(7)


def test_no_integration_is_loaded_before_it_is_imported() -> None:
    code = """
import sys
import dovetail
dovetail.Server, dovetail.Client
assert not [name for name in sys.modules if "integrations" in name]
assert "langchain" in dovetail.integrations.FRAMEWORKS
assert not [name for name in sys.modules if name.startswith("dovetail.integrations.")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)
