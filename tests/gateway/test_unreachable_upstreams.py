"""What the caller learns about an upstream server that cannot be used: its name or address and the cause, no secret."""

import asyncio
import sys
from typing import Any

import pytest

from dovetail import Client, Refusal, Server, Timeouts
from dovetail.gateway import Gateway, Proxy
from tests.support.aio import run

FRONTS = ["2024-11-05", "2025-11-25", "2026-07-28"]
EXIT = [sys.executable, "-c", "import sys; print('s3cret', file=sys.stderr); sys.exit(3)", "--token=s3cret"]


async def free_port() -> int:
    holder = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port: int = holder.sockets[0].getsockname()[1]
    holder.close()
    await holder.wait_closed()
    return port


async def refusals(server: Server | Gateway, front: str, prefix: str = "") -> set[str]:
    """The messages of every kind of call."""
    found = set[str]()
    async with Client(server, revision=front) as client:
        for call in (
            client.call_tool(f"{prefix}add", {}),
            client.read_resource("note://a") if not prefix else None,
            client.get_prompt(f"{prefix}greet", {}),
        ):
            if call is None:
                continue
            with pytest.raises(Refusal) as caught:
                await call
            assert caught.value.kind == "dependency_failed"
            found.add(caught.value.message)
    return found


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "http://ann:hunter2@127.0.0.1:{port}/s3cret/mcp?key=s3cret",
            "http://127.0.0.1:{port} {no}: connection refused",
        ),
        (
            "ws://ann:hunter2@127.0.0.1:{port}/s3cret?key=s3cret",
            "ws://127.0.0.1:{port} {no}: connection refused",
        ),
        ("tcp://127.0.0.1:{port}", "tcp://127.0.0.1:{port} {no}: connection refused"),
        ("unix:/tmp/s3cret/ann.sock", "at a Unix socket {no}: no such socket"),
        ("http://s3.invalid/s3cret", "http://s3.invalid {no}: unknown host name"),
        (EXIT, "{python} {no}: exited with status 3"),
        (["/s3cret/ann/server", "--token=hunter2"], "server {no}: the command cannot be started"),
    ],
)
@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_proxy_names_its_target_and_the_cause(front: str, target: Any, said: str) -> None:
    port = await free_port()
    if isinstance(target, str):
        target = target.format(port=port)
    python = sys.executable.rpartition("/")[2]
    said = said.format(port=port, no="cannot be reached", python=python)
    (message,) = await refusals(Proxy(target), front)
    assert message == f"the upstream server {said}"


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_gateway_names_the_entry_and_the_cause(front: str) -> None:
    port = await free_port()
    servers = {
        "notes": {"url": f"http://ann:hunter2@127.0.0.1:{port}/s3cret"},
        "tools": {"command": EXIT[0], "args": EXIT[1:]},
    }
    gateway = Gateway({"mcpServers": servers})
    assert await refusals(gateway, front, "notes_") == {"notes cannot be reached: connection refused"}
    assert await refusals(gateway, front, "tools_") == {"tools cannot be reached: exited with status 3"}


@run
async def test_a_server_that_does_not_answer_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = Proxy(f"tcp://127.0.0.1:{port}", timeouts=Timeouts(connect=0.2))
    (message,) = await refusals(proxy, "2026-07-28")
    assert message == f"the upstream server tcp://127.0.0.1:{port} cannot be reached: timed out"
    server.close()


@run
async def test_a_status_is_named() -> None:
    async def down(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 s3cret\r\ncontent-length: 6\r\nconnection: close\r\n\r\ns3cret")
        writer.close()

    server = await asyncio.start_server(down, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (message,) = await refusals(Proxy(f"http://127.0.0.1:{port}/mcp", "notes"), "2026-07-28")
    assert message == "notes cannot be reached: HTTP status 503"
    server.close()


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_server_that_ends_during_a_call_is_named_with_its_status(front: str) -> None:
    code = (
        "import os\nfrom dovetail import Server\nserver = Server('dying')\n"
        "@server.tool\ndef add() -> str:\n    os._exit(7)\nserver.run('stdio')"
    )
    async with Client(Proxy([sys.executable, "-c", code], "dying"), revision=front) as client:
        with pytest.raises(Refusal, match=r"^dying went away: exited with status 7$"):
            await client.call_tool("add", {})
