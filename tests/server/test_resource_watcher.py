"""Sources that are watched: files, folders and functions publish updates, once for many changes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from tests.support.aio import run
from tests.support.waiting import until

REVISIONS = ["2025-06-18", "2026-07-28"]


def make() -> Server:
    server = Server("files")

    @server.resource("file:///{+path}")
    def read(path: str) -> str:
        return path

    @server.resource("queue://length")
    def length() -> str:
        return "?"

    return server


@asynccontextmanager
async def subscribed(server: Server, revision: str, *uris: str) -> AsyncGenerator[list[str], None]:
    heard: list[str] = []
    async with Client(server, revision=revision, on_resource_updated=heard.append) as client:
        for uri in uris:
            await client.subscribe_resource(uri)
        yield heard


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_a_file_that_is_written_created_or_deleted_is_reported(tmp_path: Path, revision: str) -> None:
    server, file = make(), tmp_path / "a.txt"
    file.write_text("one")
    looked = looks(server)
    server.watch("file:///a.txt", file)
    async with subscribed(server, revision, "file:///a.txt") as heard:
        await looked(2)
        assert heard == []
        for number, change in enumerate((lambda: file.write_text("two!"), file.unlink, file.touch), 1):
            change()
            await until(lambda number=number: len(heard) == number)
        assert set(heard) == {"file:///a.txt"}


@run
async def test_a_subscriber_of_a_folder_is_notified_of_the_changed_file(tmp_path: Path) -> None:
    server = make()
    (tmp_path / "kept").write_text("same")
    looked = looks(server)
    server.watch("file:///docs", tmp_path)
    async with subscribed(server, "2025-06-18", "file:///docs") as heard:
        await looked(2)
        (tmp_path / "new file").write_text("x")
        await until(lambda: heard == ["file:///docs/new%20file"])


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_a_frequently_changing_value_is_reported_ten_times_per_second_at_most(revision: str) -> None:
    server, calls = make(), 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return calls

    server.watch("queue://length", count, interval=0.0)

    async def same() -> int:
        return calls

    server.watch("queue://length", same)
    async with subscribed(server, revision, "queue://length") as heard:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await until(lambda: len(heard) >= 5)
        # Two sources of one address change at every look; each tenth of a second is notified once.
        assert loop.time() - begun >= 0.3
        assert len(heard) <= calls


@run
async def test_a_source_that_fails_is_logged_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    server, values = make(), iter(range(1000))

    def broken() -> Any:
        raise OSError("no such thing")

    server.watch("queue://broken", broken)
    server.watch("queue://length", lambda: next(values))
    async with subscribed(server, "2025-06-18", "queue://length") as heard:
        await until(lambda: len(heard) > 1)
    assert "queue://broken could not be checked" in caplog.text


@run
async def test_a_watch_ends_when_it_is_removed_and_with_the_server() -> None:
    server, calls = make(), 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return calls

    async with server.running():
        stop = server.watch("queue://length", count)  # one that comes while the server runs
        await until(lambda: calls >= 2)
        stop()
        looked = looks(server)
        before = calls
        await looked(2)
        assert calls <= before + 1  # one look may have been under way
        server.watch("queue://length", count)
        await until(lambda: calls > before + 1)
    before = calls
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "dovetail-watches"]
    assert calls == before


def looks(server: Server) -> Any:
    """Wait until all watched resources were checked this number of times."""
    count = 0

    def look() -> None:
        nonlocal count
        count += 1

    server.watch("test://looks", look)

    async def looked(times: int) -> None:
        wanted = count + times + 1
        await until(lambda: count >= wanted)

    return looked
