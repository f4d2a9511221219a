"""The size limit of a response: for each transport, revision and dialect."""

import json
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Limits, ProtocolError, ResourceContents, Server
from dovetail.errors import LocalProtocolError
from dovetail.transports import tcp
from tests.http.children import ask_for, child
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import served

LIMITS = Limits(
    max_message_bytes=50_000, max_response_bytes=4000, max_websocket_message_bytes=2000, max_event_bytes=3000
)
MOST = {"http": 4000, "events": 3000, "sse": 3000, "websocket": 2000, "tcp": 4000, "memory": 4000}
FACES = list(MOST)
KIND = "dovetail/kind"


def build(dialect: str = "official") -> Server:
    server = Server("sizes", dialect=dialect, limits=LIMITS)

    @server.tool
    async def speak(size: int, ctx: Context, first: bool = False) -> list[ResourceContents]:
        """Say so much; or say something first."""
        if first:
            await ctx.report_progress(1)
        return [ResourceContents("x://said", text="x" * size)]

    @server.tool
    async def shout(size: int, ctx: Context) -> str:
        """Log so much."""
        await ctx.report_progress(1)
        try:
            if ctx.revision == "2024-11-05":  # its progress has no message
                await ctx.info("x" * size)
            else:
                await ctx.report_progress(2, message="x" * size)
        except LocalProtocolError as error:
            return error.kind
        return "told"

    @server.resource("x://text/{size}")
    def text(size: int) -> str:
        """Text."""
        return "x" * size

    @server.resource("x://data/{size}")
    def data(size: int) -> bytes:
        """Data."""
        return b"x" * size

    @server.resource("x://several/{size}")
    def several(size: int) -> list[bytes]:
        """Several."""
        return [b"x" * (size // 2)] * 2

    @server.prompt
    def letter(size: int) -> str:
        """A letter."""
        return "x" * size

    return server


@asynccontextmanager
async def connected(face: str, server: Server, revision: str, dialect: str) -> AsyncIterator[Client]:
    options: dict[str, Any] = {
        "revision": revision,
        "dialect": dialect,
        "limits": Limits(max_message_bytes=1 << 20, max_response_bytes=1 << 20),
    }
    if face == "memory":
        async with Client(server, **options) as client:
            yield client
    elif face == "tcp":
        listener = await tcp.listen(server.dispatcher)
        host, port = listener.address[:2]
        async with Client(f"tcp://{host}:{port}", **options) as client:
            yield client
        await listener.close()
    else:
        async with served(server) as site:
            address = "{}:{}".format(*site.address[:2])
            path = "sse" if face == "sse" else "mcp"
            scheme = "ws" if face == "websocket" else "http"
            async with Client(f"{scheme}://{address}/{path}", **options) as client:
                yield client


def eras(face: str) -> list[str]:
    return ["2024-11-05"] if face == "sse" else ["2025-06-18", "2025-11-25", "2026-07-28"]


CASES = [(face, revision) for face in FACES for revision in eras(face)]


@pytest.mark.parametrize(("face", "revision"), CASES)
@run
async def test_a_tool_that_says_too_much_has_failed(face: str, revision: str) -> None:
    progress: dict[str, Any] = {"on_progress": lambda *_: None} if face == "events" else {}
    streamed = face == "events"
    for dialect in ("official", "erlmcp"):
        async with connected(face, build(dialect), revision, dialect) as client:
            arguments = {"size": MOST[face] - 1500, "first": streamed}
            assert len((await client.call_tool("speak", arguments, **progress)).content) == 1
            arguments["size"] = MOST[face]
            if dialect == "erlmcp" and revision != "2026-07-28":
                with pytest.raises(ProtocolError) as caught:
                    await client.call_tool("speak", arguments, **progress)
                assert (caught.value.kind, caught.value.code) == ("tool_result_too_large", -32036)
                assert caught.value.data["maxSize"] == MOST[face]
            else:
                failed = await client.call_tool("speak", arguments, check=False, **progress)
                assert failed.is_error
                assert failed.meta[KIND] == "tool_result_too_large"
                assert str(MOST[face]) in failed.text


@pytest.mark.parametrize(("face", "revision"), [case for case in CASES if case[0] != "events"])
@run
async def test_resources_and_prompts_say_which_limit_they_exceed(face: str, revision: str) -> None:
    size = MOST[face]
    modern = revision == "2026-07-28"
    for dialect in ("official", "erlmcp"):
        async with connected(face, build(dialect), revision, dialect) as client:
            await client.read_resource(f"x://text/{size - 1000}")
            for what, kind, number in (
                (client.read_resource(f"x://text/{size}"), "text_too_long", -32017),
                (client.read_resource(f"x://data/{size}"), "binary_too_large", -32016),
                (client.read_resource(f"x://several/{size}"), "content_too_large", -32014),
                (client.get_prompt("letter", {"size": size}), "content_too_large", -32014),
            ):
                with pytest.raises(ProtocolError) as caught:
                    await what
                official = dialect == "official" or modern
                assert (caught.value.kind, caught.value.code) == (kind, -32602 if official else number)
                if dialect == "erlmcp" and modern:
                    assert caught.value.data["dialectCode"] == number


@pytest.mark.parametrize(("face", "revision"), CASES)
@run
async def test_messages_that_are_too_large_fail_at_the_sender(face: str, revision: str) -> None:
    async with connected(face, build(), revision, "official") as client:
        told: list[Any] = []
        options: dict[str, Any] = {"on_progress": lambda *given: told.append(given)}
        most = MOST["events" if face == "http" else face]
        assert (await client.call_tool("shout", {"size": 100}, **options)).text == "told"
        kind = "notification_failed" if revision == "2024-11-05" else "progress_update_failed"
        assert (await client.call_tool("shout", {"size": most}, **options)).text == kind


@pytest.mark.parametrize("face", ["http", "sse", "websocket", "tcp", "memory"])
@run
async def test_a_client_does_not_send_what_is_too_large_either(face: str) -> None:
    server = build()
    async with connected(face, server, eras(face)[0], "erlmcp") as client:
        with pytest.raises(LocalProtocolError) as caught:
            await client.call_tool("speak", {"size": 1, "odd": "x" * (1 << 20)})
        assert caught.value.kind == "message_too_large"
        assert len((await client.call_tool("speak", {"size": 1})).content) == 1


def test_the_documents_names_of_limits_hold_side_by_side_in_one_app() -> None:
    server = Server("names")
    names: dict[str, Any] = {
        "http_body_size_limit": 1000,
        "ws_message_size_limit": 2000,
        "sse_event_size_limit": 3000,
        "tcp_message_size_limit": 4000,
        "stdio_message_size_limit": 5000,
    }
    server.asgi(**names)
    limits = server.limits
    assert (limits.max_message_bytes, limits.max_response_bytes) == (1000, 1000)
    assert (limits.on_websocket().max_message_bytes, limits.on_websocket().max_response_bytes) == (2000, 2000)
    assert limits.on_events().max_response_bytes == 3000


def test_an_erlmcp_server_sends_no_more_than_it_accepts() -> None:
    assert Server("erl", dialect="erlmcp").limits.max_response_bytes == 16 << 20
    assert (
        Server("erl", dialect="erlmcp", limits=Limits(max_message_bytes=500)).limits.max_response_bytes == 500
    )
    assert Server("official").limits.max_response_bytes is None


@run
async def test_an_array_of_answers_keeps_to_the_limit_as_a_whole() -> None:
    server = build("erlmcp")
    calls = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "speak", "arguments": {"size": 1500}},
        }
        for number in range(6)
    ]
    reply = await server.handle(json.dumps(calls).encode(), {"revision": "2025-11-25"})
    assert reply is not None
    answers = json.loads(reply)
    assert sorted(answer["id"] for answer in answers) == list(range(6))
    assert sum("result" in answer for answer in answers) == 2
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {-32036}


MUCH = """
from dovetail import Server
server = Server("much")

@server.tool
async def much() -> str:
    return "x" * (6 << 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told so")
@run
async def test_memory_of_large_answers_goes_back_to_the_system_when_they_are_over(tmp_path: Path) -> None:
    path = tmp_path / "much.py"
    path.write_text(MUCH)
    async with child(str(path)) as served:
        page = Path(f"/proc/{served.process.pid}/statm")

        def used() -> int:
            return int(page.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

        before = used()
        for _ in range(8):
            await ask_for(served, "much")
        await until(lambda: used() > before + 40)
        for connection in served.connections:
            await connection.close()
        await until(lambda: used() < before + 24)
