"""What a server, an app or a slow page can make the inspector hold has an end, in bytes too."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import DovetailError, ProtocolError, Server
from dovetail.client.connecting.targets import parse_target
from dovetail.inspector import Inspector
from dovetail.inspector.inspected_server import ConnectRequest, InspectedServer
from dovetail.inspector.messages import MessageLog
from tests.support.aio import run
from tests.support.waiting import until

FLOOD = """
import json, sys
def say(**members): print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
opened = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "flood", "version": "1"},
          "capabilities": {"resources": {"subscribe": True}}}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize": say(id=message["id"], result=opened)
    elif message["method"] == "ping":
        for n in range(1500):
            say(method="notifications/resources/updated", params={"uri": f"x://{n}"})
        for n in range(600):
            say(method="notifications/message", params={"level": "info", "data": {"n": n, "x": "x" * 40_000}})
        say(method="notifications/message", params={"level": "info", "data": "last"})
        say(method="m" * 100_000)
        print('{"jsonrpc":"2.0","method":"x","params":' + "[" * 100_000 + "]" * 100_000 + "}", flush=True)
        say(id=message["id"], result={})
"""


@asynccontextmanager
async def looked_at(target: Any) -> AsyncIterator[tuple[Inspector, InspectedServer]]:
    inspector = Inspector()
    try:
        connection = inspector.connect(
            [ConnectRequest(target=parse_target(target), label="it", revision="2025-06-18")]
        )[0]
        await connection.opened()
        yield inspector, connection
    finally:
        await inspector.close()


@run
async def test_a_flood_of_a_server_is_kept_in_part(tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOOD)
    async with looked_at([sys.executable, str(tmp_path / "flood.py")]) as (inspector, connection):
        await connection.client.ping()  # it is still there after all that
        await until(lambda: connection.logs and connection.logs[-1]["data"] == "last")
        assert len(connection.subscribed) <= 1000
        assert sum(len(json.dumps(entry)) for entry in connection.logs) < 8 << 20
        rows = [frame.row() for frame in inspector.frames.since(0, 100_000)]
        assert max(len(row[6]) for row in rows) <= 1000
        assert [row[5] for row in rows].count("unreadable") == 1


def test_heads_count_as_much_as_what_they_came_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.inspector.messages.FRAME_BYTES", 1 << 20)
    log = MessageLog()
    long = {"headers": {f"x-{number}": "x" * 1000 for number in range(64)}}
    for number in range(200):
        log.add_http(1, "POST 500", long)
        log.give_head(log.add(1, "server", b"{}"), long)
        log.give_head(log.add(1, "client", b"{}"), None)
        assert sum(len(str(frame.head)) for frame in log.since(0)) < 1.5 * (1 << 20), number
    assert log.last == 600


@run
async def test_calls_that_never_end_have_an_end() -> None:
    server = Server("patient")

    @server.tool
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    async with looked_at(server) as (inspector, connection):

        def call(**arguments: Any) -> None:
            params = {"name": "wait", "arguments": arguments}
            inspector.calls.start(connection, "tools/call", params, task=False, frame=0)

        for _ in range(200):
            call()
        with pytest.raises(DovetailError, match="already running"):
            call()


@run
async def test_a_page_that_reads_too_slowly_is_told_to_reload() -> None:
    inspector = Inspector()
    listener = inspector.news.listen()
    for _ in range(40):
        inspector.news.tell("log", entry="x" * (1 << 20))
    found = msgspec.json.decode(msgspec.json.encode(await listener.next(5)))
    assert found["events"] == [{"type": "reload"}]
    inspector.news.tell("log", entry="after")
    found = msgspec.json.decode(msgspec.json.encode(await listener.next(5)))
    assert found["events"] == [{"type": "log", "entry": "after"}]


@run
async def test_input_requests_that_wait_have_a_bound_of_bytes() -> None:
    inspector = Inspector()
    first = asyncio.ensure_future(inspector.questions.ask(1, "elicit", {"message": "x" * (40 << 20)}))
    await until(lambda: inspector.questions.waiting)
    with pytest.raises(ProtocolError):
        await inspector.questions.ask(1, "elicit", {"message": "x" * (40 << 20)})
    first.cancel()
