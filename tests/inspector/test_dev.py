"""``dovetail dev``: edits are taken while clients stay connected, and a broken one changes nothing."""

import asyncio
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec
import pytest

from dovetail import Client

SERVER = """
import os
from dovetail import Server
server = Server("notes", version="{version}")

@server.tool
async def {name}() -> str:
    "Say something."
    return "{text} " + os.environ.get("NOTES_WORD", "")

@server.resource("notes://one")
async def one() -> str:
    return "{text}"
"""
pytestmark = pytest.mark.xdist_group("inspector")


def write(file: Path, name: str = "hello", text: str = "first", version: str = "1") -> None:
    file.write_text(SERVER.format(name=name, text=text, version=version))


class Dev:
    """A running ``dovetail dev``."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[str] = []

    async def hear(self, pattern: str) -> re.Match[str]:
        """The next line of its log that matches."""
        assert self.process.stderr is not None
        async with asyncio.timeout(20):
            while True:
                line = (await self.process.stderr.readline()).decode()
                assert line, "".join(self.said)
                self.said.append(line)
                if found := re.search(pattern, line):
                    return found


@asynccontextmanager
async def dev(folder: Path, *words: str) -> AsyncIterator[Dev]:
    command = (sys.executable, "-m", "dovetail.cli.main", "dev", *words)
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stderr=PIPE, stdin=PIPE, stdout=PIPE)
    try:
        yield Dev(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(10):
                await process.communicate()


def notes(link: str) -> dict[str, object]:
    origin, _, token = link.partition("/?token=")
    with urlopen(Request(f"{origin}/api/state", headers={"X-Dovetail-Token": token}), timeout=10) as answer:
        return msgspec.json.decode(answer.read())["notes"]


async def _follow_edits(tmp_path: Path, revision: str) -> None:
    file = tmp_path / "notes.py"
    write(file)
    (tmp_path / ".env").write_text("NOTES_WORD='of all' # a comment\n")
    async with dev(tmp_path, "notes.py", "--port", "0", "--no-browser") as running:
        url = (await running.hear(r"serving on (\S+)"))[1]
        link = (await running.hear(r"inspector is at (\S+)"))[1]
        changed = asyncio.Event()
        async with Client(url, revision=revision, on_list_changed=lambda kind: changed.set()) as client:
            assert (await client.call_tool("hello")).text == "first of all"

            begun = time.perf_counter()
            write(file, "goodbye", "second", "2")
            async with asyncio.timeout(20):
                await changed.wait()
            took = time.perf_counter() - begun
            assert [tool.name for tool in await client.list_tools()] == ["goodbye"]
            assert (await client.call_tool("goodbye")).text == "second of all"
            assert took < 2, f"{took:.2f} s"  # a tenth of it alone; the machine may be busy

            file.write_text("this is no Python\n")
            await running.hear("the last edit was not taken")
            assert (await client.call_tool("goodbye")).text == "second of all"
            shown = await asyncio.to_thread(notes, link)
            assert "SyntaxError" in str(shown["dev"])

            write(file, "again", "third")
            await running.hear("reloaded in")
            assert (await client.call_tool("again")).text == "third of all"
            assert (await asyncio.to_thread(notes, link))["dev"] is None

            (tmp_path / ".env").write_text("NOTES_WORD=anew\n")
            await running.hear("reloaded in")
            assert (await client.call_tool("again")).text == "third anew"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_edits_are_taken_over_http_and_a_broken_one_is_not(tmp_path: Path, revision: str) -> None:
    asyncio.run(_follow_edits(tmp_path, revision))


def test_edits_are_taken_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    write(file)

    async def test() -> None:
        heard: list[bytes] = []
        changed = asyncio.Event()
        command = [sys.executable, "-m", "dovetail.cli.main", "dev", str(file), "--stdio", "--no-browser"]
        client = Client(
            command, on_list_changed=lambda kind: changed.set(), on_stderr=heard.append, env=os.environ
        )
        async with client:
            assert (await client.call_tool("hello")).text == "first "
            write(file, "hello", "second")
            async with asyncio.timeout(20):
                await changed.wait()
            assert (await client.call_tool("hello")).text == "second "
        assert b"The inspector is at http://127.0.0.1:" in b"".join(heard)

    asyncio.run(test())


def test_a_call_under_way_ends_where_it_began(tmp_path: Path) -> None:
    file, gate = tmp_path / "slow.py", tmp_path / "gate.txt"
    source = f"""
import asyncio, os
from dovetail import Server
server = Server("slow")

@server.tool
async def slow() -> str:
    "Wait for a file."
    open({str(tmp_path / "begun.txt")!r}, "w").close()
    while not os.path.exists({str(gate)!r}):
        await asyncio.sleep(0.01)
    return "WORD"
"""
    file.write_text(source.replace("WORD", "old"))

    async def test() -> None:
        async with dev(tmp_path, "slow.py", "--port", "0", "--no-browser") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            async with Client(url) as client:
                call = asyncio.ensure_future(client.call_tool("slow"))
                from ..support.waiting import until

                await until((tmp_path / "begun.txt").exists)
                file.write_text(source.replace("WORD", "new"))
                await running.hear("reloaded in")
                gate.touch()
                assert (await call).text == "old"
                assert (await client.call_tool("slow")).text == "new"

    asyncio.run(test())


def test_a_file_that_is_broken_from_the_start_is_served_when_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    file.write_text("import nothing_of_this_name\n")

    async def test() -> None:
        async with dev(tmp_path, "notes.py", "--port", "0", "--no-browser") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            write(file)
            await running.hear("reloaded in")
            async with Client(url) as client:
                assert (await client.call_tool("hello")).text == "first "

    asyncio.run(test())


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with dev(tmp_path, "nothing.py", "--no-browser") as running:
            await running.hear("there is no file nothing.py")
            assert await running.process.wait() == 1

    asyncio.run(test())
