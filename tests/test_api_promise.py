"""Every name and shape of the public page, typed as a reader of that page would: what one registers."""

import asyncio
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

import dovetail
import dovetail.sync
from dovetail import Client, ImageContent, Reconnect, Server, TextContent, Timeouts, ToolError
from dovetail.testing import connect
from tests.support.waiting import HANG

from .support.aio import run
from .support.promise import (
    ASKING,
    FromDataclass,
    every_revision,
    forecaster,
    travel,
)


class FromDict(TypedDict):
    city: str


class FromStruct(msgspec.Struct):
    city: str


@attrs.define
class FromAttrs:
    city: str


class FromPydantic(pydantic.BaseModel):
    city: str


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Server",
        "Context",
        "Client",
        "ToolError",
        "Refusal",
        "Timeouts",
        "Reconnect",
        "DovetailError",
        "ProtocolError",
        "TransportError",
        "RequestTimeout",
        "SessionLost",
        "CapabilityError",
    ],
)
def test_everything_named_on_the_page_is_importable_from_the_package(name: str) -> None:
    assert name in dovetail.__all__
    assert getattr(dovetail, name).__doc__


@pytest.mark.parametrize("name", [name for name in dovetail.__all__ if name != "__version__"])
def test_every_public_name_says_what_it_is_for(name: str) -> None:
    value = getattr(dovetail, name)
    assert (value.__doc__ or "").strip()
    if name in ("Server", "Client", "Context"):
        for word, member in inspect.getmembers(value):
            if not word.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{name}.{word} has no docstring"


@pytest.mark.parametrize("path", ["sync.Client", "testing.connect", "errors.KINDS"])
def test_modules_are_there_without_importing_them_one_by_one(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import dovetail; dovetail.{path}"], check=False)
    assert done.returncode == 0


def test_the_three_limits_are_given_in_seconds() -> None:
    limits = Timeouts(connect=1, idle=2.5, total=30)
    assert (limits.connect, limits.idle, limits.total) == (1, 2.5, 30)
    assert Reconnect(initial_delay=0.1).initial_delay == 0.1


# --- the server: decorators ----------------------------------------------------------------------------------


@every_revision
@run
async def test_the_docstring_describes_the_tool_and_its_parameters(revision: str) -> None:
    async with connect(forecaster(), revision) as client:
        (tool,) = await client.list_tools()
    assert tool.name == "forecast"
    assert tool.description == "The weather of the days to come."
    properties = tool.input_schema["properties"]
    assert properties["city"] == {"type": "string", "description": "where"}
    assert properties["days"] == {"type": "integer", "description": "how many", "default": 3}
    assert tool.input_schema["required"] == ["city"]


@run
async def test_a_decorated_function_stays_an_ordinary_callable() -> None:
    server = Server("s")

    @server.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool(title="Twice")
    async def twice(a: int) -> int:
        return 2 * a

    @server.resource("a://b")
    def read() -> str:
        return "x"

    @server.prompt
    def ask(topic: str) -> str:
        return topic

    @server.completion(ref="ask", argument="topic")
    def topics(value: str) -> list[str]:
        return [value + "!"]

    assert (add(1), add(1, b=5), await twice(4), read(), ask("x"), topics("a")) == (2, 6, 8, "x", "x", ["a!"])
    assert inspect.iscoroutinefunction(twice)
    assert add.__name__ == "add"


@run
async def test_a_plain_function_runs_in_a_thread_and_does_not_hold_up_the_others() -> None:
    server = Server("s")
    entered, released = threading.Event(), threading.Event()

    @server.tool
    def wait() -> int:
        """Wait."""
        entered.set()
        released.wait(HANG)
        return threading.get_ident()

    @server.tool
    async def release() -> bool:
        """Let it go on."""
        await asyncio.to_thread(entered.wait, 20)
        released.set()
        return True

    async with Client(server) as client:
        waiting, _ = await asyncio.gather(client.call_tool("wait"), client.call_tool("release"))
    assert waiting.data != threading.get_ident()


DESCRIBED: dict[str, Any] = {
    "title": "A title",
    "description": "A description",
    "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png"}],
    "annotations": {"audience": ["user"]},
    "meta": {"example.com/team": "a"},
    "tags": {"x"},
}


@run
async def test_every_decorator_takes_the_same_six_options() -> None:
    server = Server("s")

    @server.tool(**DESCRIBED)
    def tool() -> str:
        return ""

    @server.resource("a://b", **DESCRIBED)
    def resource() -> str:
        return ""

    @server.resource("a://{b}/c", **DESCRIBED)
    def template(b: str) -> str:
        return b

    @server.prompt(**DESCRIBED | {"annotations": None})
    def prompt() -> str:
        return ""

    async with connect(server, "2025-11-25") as client:
        listed: list[Any] = [
            *await client.list_tools(),
            *await client.list_resources(),
            *await client.list_resource_templates(),
            *await client.list_prompts(),
        ]
    assert len(listed) == 4
    for entry in listed:
        assert (entry.title, entry.description) == ("A title", "A description")
        assert entry.icons[0].src == "https://example.com/i.png"
        assert entry.meta["example.com/team"] == "a"
    assert [entry.annotations["audience"] for entry in listed[:3]] == [["user"]] * 3


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (FromDataclass, lambda: FromDataclass("Oslo")),
        (FromDict, lambda: {"city": "Oslo"}),
        (FromStruct, lambda: FromStruct("Oslo")),
        (FromAttrs, lambda: FromAttrs("Oslo")),
        (FromPydantic, lambda: FromPydantic(city="Oslo")),
    ],
)
@every_revision
@run
async def test_structured_results_of_every_family_come_out_as_data(
    revision: str, kind: Any, make: Callable[[], Any]
) -> None:
    server = Server("s")

    async def answer() -> Any:
        """Answer."""
        return make()

    answer.__annotations__["return"] = kind
    server.tool(answer)
    async with connect(server, revision) as client:
        result = await client.call_tool("answer")
    assert result.data == {"city": "Oslo"}
    assert json.loads(result.text) == {"city": "Oslo"}


@every_revision
@run
async def test_scalars_and_content_blocks_are_results_too(revision: str) -> None:
    server = Server("s")

    @server.tool
    def number() -> int:
        return 7

    @server.tool
    def picture() -> list[TextContent | ImageContent]:
        return [TextContent("look"), ImageContent("AAAA", "image/png")]

    async with connect(server, revision) as client:
        assert (await client.call_tool("number")).data == 7
        shown = await client.call_tool("picture")
    assert [type(block) for block in shown.content] == [TextContent, ImageContent]
    assert (shown.text, shown.is_error) == ("look", False)


@pytest.mark.parametrize("revision", ASKING)
@run
async def test_the_booking_of_the_page_works_on_every_revision_that_has_forms(revision: str) -> None:
    server, payments = travel()
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_elicit(request: Any) -> Any:
        assert request.message == "Which seat?"
        return {"action": "accept", "content": {"row": 3, "letter": "F"}}

    async def on_sample(request: Any) -> Any:
        assert request.max_tokens == 200
        return {"role": "assistant", "content": {"type": "text", "text": "Thanks!"}, "model": "m"}

    async with Client(server, revision=revision, on_elicit=on_elicit, on_sample=on_sample) as client:
        (tool,) = await client.list_tools()
        assert (tool.title, tool.annotations) == ("Book", {"destructiveHint": True})
        result = await client.call_tool(
            "book", {"flight": "DY1"}, timeout=10, on_progress=lambda *news: seen.append(news)
        )
    assert result.data == {
        "flight": "DY1",
        "seat": {"row": 3, "letter": "F"},
        "paid": 120,
        "note": "Thanks!",
    }
    assert payments == ["DY1"]
    assert seen
    assert set(seen) == {(1, 2, "paid")}


@pytest.mark.parametrize("revision", ASKING)
@pytest.mark.parametrize("action", ["decline", "cancel"])
@run
async def test_a_user_who_does_not_choose_a_seat_pays_nothing(revision: str, action: str) -> None:
    server, payments = travel()

    async def on_elicit(request: Any) -> Any:
        return {"action": action}

    async def on_sample(request: Any) -> Any:
        raise AssertionError("nobody asked")

    async with Client(server, revision=revision, on_elicit=on_elicit, on_sample=on_sample) as client:
        with pytest.raises(ToolError, match="No seat chosen"):
            await client.call_tool("book", {"flight": "DY1"})
    assert payments == []


@every_revision
@run
async def test_only_the_text_of_a_tool_error_reaches_the_client(revision: str) -> None:
    server = Server("s")

    @server.tool
    def said() -> str:
        raise ToolError("Try another city")

    @server.tool
    def unsaid() -> str:
        raise RuntimeError("password=hunter2")

    async with connect(server, revision) as client:
        with pytest.raises(ToolError, match="Try another city"):
            await client.call_tool("said")
        result = await client.call_tool("unsaid", check=False)
    assert result.is_error
    assert "hunter2" not in result.text
    assert "incident" in result.text
