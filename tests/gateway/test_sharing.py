"""Shared upstream connections: which client gets server-to-client requests and log messages."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.gateway import Proxy
from dovetail.transports.tcp import listen
from tests.support.aio import run
from tests.support.waiting import until

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
LOGS = """
from dovetail import Context, Server
server = Server("logs")

@server.tool
async def work(ctx: Context) -> str:
    await ctx.debug("detail")
    await ctx.info("begun")
    await ctx.warning("late")
    return "done"
"""


@pytest.mark.parametrize("back", REVISIONS)
def test_log_messages_of_a_child_process_reach_clients_of_every_revision(tmp_path: Path, back: str) -> None:
    asyncio.run(_log(tmp_path, back))


async def _log(folder: Path, back: str) -> None:
    file = folder / "logs.py"
    file.write_text(LOGS)
    # On one stream of messages, a log message does not say which call it belongs to.
    proxy = Proxy([sys.executable, "-m", "dovetail.cli.main", "run", str(file)], revision=back)
    async with Client(proxy):  # keeps the proxy running
        for front in REVISIONS:
            modern = front == "2026-07-28"
            for level, wanted in (
                (None, [] if modern else ["detail", "begun", "late"]),
                ("debug", ["detail", "begun", "late"]),
                ("warning", ["late"]),
            ):
                logs: list[str] = []

                def hear(log: Any, logs: list[str] = logs) -> None:
                    logs.append(log.data)

                async with Client(proxy, revision=front, on_log=hear) as client:
                    if level is not None:
                        await client.set_logging_level(level)
                    assert (await client.call_tool("work")).text == "done"
                    await until(lambda: len(logs) >= len(wanted))  # noqa: B023
                    assert logs == wanted, (front, level)


def asking(count: int) -> Server:
    """A server whose tool asks when ``count`` calls are under way."""
    server, all_here = Server("behind"), asyncio.Barrier(count)

    @server.tool
    async def ask(name: str, ctx: Context) -> str:
        await all_here.wait()
        await ctx.info(f"asking {name}")
        answer = await ctx.elicit(f"are you {name}?", str)
        return f"{name}: {answer.data}"

    return server


def client_of(proxy: Proxy, revision: str, name: str, logs: list[str]) -> Client:
    def answer(request: Any) -> str:
        assert request.message == f"are you {name}?"
        return f"I am {name}"

    def hear(log: Any) -> None:
        logs.append(log.data)

    return Client(proxy, revision=revision, on_elicit=answer, on_log=hear)


@pytest.mark.parametrize("front", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("back", ["2025-06-18", "2025-11-25", "2026-07-28"])
@run
async def test_each_client_gets_its_own_input_requests_and_log_messages(front: str, back: str) -> None:
    names = ["ann", "bob", "cid"]
    server = asking(len(names))
    listener = await listen(server.dispatcher, "127.0.0.1", 0)
    proxy = Proxy(f"tcp://127.0.0.1:{listener.address[1]}", revision=back)

    async def one(name: str) -> None:
        logs: list[str] = []
        async with client_of(proxy, front, name, logs) as client:
            await client.set_logging_level("info")
            result = await client.call_tool("ask", {"name": name}, check=False)
            assert set(logs) <= {f"asking {name}"}
            if front == "2026-07-28" != back:  # clients without a session or principal: the owner is unknown
                assert "several clients share this connection" in result.text
                for advice in ("authenticate", "--per-session", "an upstream of 2026-07-28"):
                    assert advice in result.text
            else:
                assert result.text == f"{name}: I am {name}"

    async with Client(proxy):
        await asyncio.gather(*map(one, names))
    await listener.close()


@pytest.mark.parametrize("front", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize(
    ("back", "options", "connections"),
    [
        ("2025-06-18", {}, 3),
        ("2025-06-18", {"connections": "principal"}, 1),
        ("2026-07-28", {}, 1),
        ("2026-07-28", {"connections": "session"}, 3),
    ],
)
@run
async def test_connections_are_shared_if_the_upstream_is_modern(
    front: str, back: str, options: Any, connections: int
) -> None:
    server, peers = Server("behind"), set[Any]()

    @server.tool
    async def look(ctx: Context) -> str:
        peers.add(str(ctx.scope["client"]))
        return "seen"

    listener = await listen(server.dispatcher, "127.0.0.1", 0)
    proxy = Proxy(f"tcp://127.0.0.1:{listener.address[1]}", revision=back, **options)
    async with Client(proxy):
        for _ in range(3):
            async with Client(proxy, revision=front) as client:
                await client.call_tool("look")
    await listener.close()
    # Clients of 2026-07-28 have no session.
    assert len(peers) == (1 if front == "2026-07-28" else connections)


class LateServer:
    """A legacy server that asks for its first call when that was given up and the second one is under way."""

    def __init__(self) -> None:
        self.called, self.answers = asyncio.Event(), list[Any]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(**members: Any) -> None:
            writer.write(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")

        waiting: Any = None
        while line := await reader.readline():
            message: Any = json.loads(line)
            match message:
                case {"method": "initialize", "id": id}:
                    info = {"name": "late", "version": "1"}
                    named = {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": info,
                    }
                    send(id=id, result=named)
                case {"method": "tools/list", "id": id}:
                    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("hang", "wait")]
                    send(id=id, result={"tools": tools})
                case {"method": "tools/call", "params": {"name": "hang"}}:
                    self.called.set()
                case {"method": "tools/call", "id": id}:
                    waiting = id
                    form: Any = {"type": "object", "properties": {}}
                    send(
                        id=1, method="elicitation/create", params={"message": "ann?", "requestedSchema": form}
                    )
                case {"id": 1, **answer}:
                    self.answers.append(answer)
                    send(id=waiting, result={"content": [{"type": "text", "text": "waited"}]})
                case _:
                    pass
        writer.close()


@run
async def test_an_input_request_for_a_call_that_was_given_up_reaches_no_other_client() -> None:
    late = LateServer()
    asked: list[str] = []

    def ask(request: Any) -> dict[str, Any]:
        asked.append(request.message)
        return {}

    async with await asyncio.start_server(late.serve, "127.0.0.1", 0) as behind:
        address = behind.sockets[0].getsockname()
        proxy = Proxy(f"tcp://127.0.0.1:{address[1]}", revision="2025-11-25")
        options: Any = {"revision": "2026-07-28", "on_elicit": ask}
        async with Client(proxy, **options) as ann, Client(proxy, **options) as bob:
            call = asyncio.ensure_future(ann.call_tool("hang"))
            await late.called.wait()
            call.cancel()
            await asyncio.wait([call])
            assert (await bob.call_tool("wait")).text == "waited"
    assert asked == []
    assert "given up" in late.answers[0]["error"]["message"]
