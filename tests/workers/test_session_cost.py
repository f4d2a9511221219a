"""What a session in a store costs a process that has seen it, and one that has not."""

import gc
import json
import tracemalloc
from pathlib import Path

from dovetail import Server
from dovetail.stores import SqliteStore
from tests.http.talk import NEWEST
from tests.support.aio import run
from tests.support.web import Web, legacy_headers, request, served

COUNT = 200
LIMIT = 6 << 10


def make(path: Path) -> Server:
    server = Server("cost", store=SqliteStore(path))

    @server.tool
    async def hello() -> str:
        return "hello"

    return server


@run
async def test_a_session_costs_six_kibibytes_where_it_was_seen_and_nothing_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with served(make(path)) as first, served(make(path)) as second:
        sessions = [(await Web(first).initialize(NEWEST))[0] for _ in range(COUNT)]
        assert len(second.app.legacy.sessions) == 0
        connection = await second.connect()
        body = json.dumps(request("tools/call", {"name": "hello"})).encode()

        async def use(id: str) -> None:
            assert (await connection.ask("POST", "/mcp", legacy_headers(NEWEST, id), body)).status == 200

        await use(sessions[0])
        gc.collect()
        tracemalloc.start()
        try:
            for id in sessions[1:]:
                await use(id)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert len(second.app.legacy.sessions) == COUNT
        assert held / (COUNT - 1) <= LIMIT, held / (COUNT - 1)
