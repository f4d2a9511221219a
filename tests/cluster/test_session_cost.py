"""What a session in a store costs a process that has seen it, and one that has not."""

import asyncio
import gc
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.stores import SqliteStore
from tests.http.children import child
from tests.http.talk import NEWEST
from tests.support.aio import run, run_limited
from tests.support.web import Web, legacy_headers, request, served, text

COUNT = 200
LIMIT = 6 << 10


def make(path: Path) -> Server:
    server = Server("cost", store=SqliteStore(path))

    @server.tool
    async def hello() -> str:
        return "hello"

    return server


@pytest.mark.bare("what a session costs is measured with the tracer on, and middleware remember who called")
@run
async def test_a_session_costs_six_kibibytes_where_it_was_seen_and_nothing_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with served(make(path)) as first, served(make(path)) as second:
        sessions = [(await Web(first).initialize(NEWEST))[0] for _ in range(COUNT)]
        assert len(second.app.session_handler.sessions) == 0
        connection = await second.connect()
        body = json.dumps(request("tools/call", {"name": "hello"})).encode()

        async def use(id: str) -> None:
            assert (await connection.ask("POST", "/mcp", legacy_headers(NEWEST, id), body)).status == 200

        await use(sessions[0])
        costs: list[float] = []
        tracemalloc.start()
        try:
            # In parts: on a starved machine the loop is reported as blocked, and pytest keeps the report.
            for part in range(4):
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
                mine = sessions[1:][part::4]
                for id in mine:
                    await use(id)
                gc.collect()
                costs.append((tracemalloc.get_traced_memory()[0] - before) / len(mine))
        finally:
            tracemalloc.stop()
        assert len(second.app.session_handler.sessions) == COUNT
        assert min(costs) <= LIMIT, costs


MANY = """
from dovetail import Server
from dovetail.settings import Limits

server = Server("many", limits=Limits(max_sessions=20_000, max_sessions_per_principal=20_000))

@server.tool
async def hello() -> str:
    return "hello"
"""


@pytest.mark.slow
def test_ten_thousand_sessions_live_on_four_workers(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text(MANY)
    chance = random.Random(7)

    async def scenario() -> None:
        async with child(str(path), "--port", "0", "--workers", "4") as served:
            site: Any = served

            async def open_some(count: int) -> list[str]:
                return [(await Web(site).initialize(NEWEST))[0] for _ in range(count)]

            opened = await asyncio.gather(*(open_some(1250) for _ in range(8)))
            sessions = [session for some in opened for session in some]
            assert len(set(sessions)) == 10_000
            for session in chance.sample(sessions, 400):  # each on a new connection, to any of the workers
                said = await Web(site).legacy(NEWEST, session, "tools/call", {"name": "hello"})
                assert text(said.message["result"]) == "hello"

    run_limited(scenario(), 240)
