"""``/readyz`` while the store of a server is locked."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.waiting import found
from tests.support.web import Site, Web, served


async def store_of(site: Site) -> tuple[int, bool]:
    said = await Web(site).ask("GET", {"Accept": "application/json"}, path="/readyz")
    return said.status, json.loads(said.body)["components"]["store"]["ok"]


async def until_said(site: Site, wanted: tuple[int, bool]) -> None:
    async def look() -> Any:
        return True if await store_of(site) == wanted else None

    await found(look)


def test_a_locked_file_is_named_by_readiness_and_forgotten_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.server.server.STORE_PROBE_INTERVAL", 0.05)
    path = tmp_path / "state.db"

    @run
    async def scenario() -> None:
        server = Server("ready", store=SqliteStore(path, busy_timeout=0.05))

        @server.tool
        async def hello() -> str:
            return "hello"

        @server.tool
        async def note(ctx: Context) -> str:
            return await ctx.create_handle("x")

        async with served(server) as site:
            await until_said(site, (200, True))
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("begin immediate")
            await until_said(site, (503, False))
            # Calls that need nothing of it are served all the same.
            assert (await Web(site).modern("tools/call", {"name": "hello", "arguments": {}})).status == 200
            # The others get the reason and a retry delay: their requests are valid.
            refused = await Web(site).modern("tools/call", {"name": "note", "arguments": {}})
            assert (refused.status, refused.message["error"]["code"]) == (503, 1009)
            assert refused.headers["retry-after"] == "1"
            other.execute("rollback")
            other.close()
            await until_said(site, (200, True))

    scenario()
