"""``dovetail dev``: edits are taken while clients stay connected, and a broken one changes nothing."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec
import pytest

from dovetail import Client
from tests.support.waiting import HANG, until

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


def write(file: Path, name: str = "hello", text: str = "first", version: str = "1") -> None:
    save(file, SERVER.format(name=name, text=text, version=version))


def save(file: Path, text: str) -> None:
    """Write the file in one step: the watcher must not see it empty."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(text)
    fresh.rename(file)


class Dev:
    """A running ``dovetail dev``."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[str] = []

    async def hear(self, pattern: str) -> re.Match[str]:
        """The next line of its log that matches."""
        assert self.process.stderr is not None
        async with asyncio.timeout(HANG):
            while True:
                line = (await self.process.stderr.readline()).decode()
                assert line, "".join(self.said)
                self.said.append(line)
                if found := re.search(pattern, line):
                    return found


@asynccontextmanager
async def dev(folder: Path, *words: str, command: str = "dev") -> AsyncIterator[Dev]:
    line = (sys.executable, "-m", "dovetail.cli.main", command, *words)
    process = await asyncio.create_subprocess_exec(*line, cwd=folder, stderr=PIPE, stdin=PIPE, stdout=PIPE)
    try:
        yield Dev(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(HANG):
                await process.communicate()


def notes(link: str) -> dict[str, object]:
    origin, _, token = link.partition("/?token=")
    with urlopen(Request(f"{origin}/api/state", headers={"X-Dovetail-Token": token}), timeout=HANG) as answer:
        return msgspec.json.decode(answer.read())["notes"]


async def _follow_edits(tmp_path: Path, revision: str) -> None:
    file = tmp_path / "notes.py"
    write(file)
    save(tmp_path / ".env", "NOTES_WORD='of all' # a comment\n")
    async with dev(tmp_path, "notes.py", "--port", "0", "--no-browser") as running:
        url = (await running.hear(r"serving on (\S+)"))[1]
        link = (await running.hear(r"inspector is at (\S+)"))[1]
        changed = asyncio.Event()
        async with Client(url, revision=revision, on_list_changed=lambda kind: changed.set()) as client:
            assert (await client.call_tool("hello")).text == "first of all"

            write(file, "goodbye", "second", "2")
            async with asyncio.timeout(HANG):
                await changed.wait()
            assert [tool.name for tool in await client.list_tools()] == ["goodbye"]
            assert (await client.call_tool("goodbye")).text == "second of all"

            save(file, "this is no Python\n")
            await running.hear("the reload failed")
            assert (await client.call_tool("goodbye")).text == "second of all"
            shown = await asyncio.to_thread(notes, link)
            assert "SyntaxError" in str(shown["dev"])

            write(file, "again", "third")
            await running.hear("reloaded in")
            assert (await client.call_tool("again")).text == "third of all"
            assert (await asyncio.to_thread(notes, link))["dev"] is None

            save(tmp_path / ".env", "NOTES_WORD=anew\n")
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
            async with asyncio.timeout(HANG):
                await changed.wait()
            assert (await client.call_tool("hello")).text == "second "
        assert b"The inspector is at http://127.0.0.1:" in b"".join(heard)

    asyncio.run(test())


ASKING = """
from dovetail import Context, Server
server = Server("asking")

@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("who?", str)
    return f"WORD {answer.data}"
"""


@pytest.mark.parametrize("command", ["dev", "run"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_an_input_request_that_waits_for_its_answer_survives_a_reload(
    tmp_path: Path, revision: str, command: str
) -> None:
    file = tmp_path / "asking.py"
    save(file, ASKING.replace("WORD", "old"))
    more = ["--no-browser"] if command == "dev" else ["--http", "--reload"]

    async def test() -> None:
        asked, reloaded = asyncio.Event(), asyncio.Event()

        async def on_elicit(request: object) -> str:
            asked.set()
            await reloaded.wait()
            return "ann"

        async with dev(tmp_path, "asking.py", "--port", "0", *more, command=command) as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            async with Client(url, revision=revision, on_elicit=on_elicit) as client:
                call = asyncio.ensure_future(client.call_tool("ask"))
                await asked.wait()
                save(file, ASKING.replace("WORD", "new"))
                await running.hear("reloaded in")
                reloaded.set()
                assert (await call).text == "new ann"

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
    save(file, source.replace("WORD", "old"))

    async def test() -> None:
        async with dev(tmp_path, "slow.py", "--port", "0", "--no-browser") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            async with Client(url) as client:
                call = asyncio.ensure_future(client.call_tool("slow"))
                await until((tmp_path / "begun.txt").exists)
                save(file, source.replace("WORD", "new"))
                await running.hear("reloaded in")
                gate.touch()
                assert (await call).text == "old"
                assert (await client.call_tool("slow")).text == "new"

    asyncio.run(test())


def test_two_edits_of_one_size_within_a_second_are_both_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    file = tmp_path / "notes.py"
    second = 1_900_000_000 * 10**9

    async def test() -> None:
        write(file, text="first")
        os.utime(file, ns=(second, second))
        async with dev(tmp_path, "notes.py", "--port", "0", "--no-browser") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            async with Client(url) as client:
                for number, text in enumerate(("other", "third"), 1):
                    await client.call_tool("hello")
                    changed = file.with_suffix(".new")
                    write(changed, text=text)
                    os.utime(changed, ns=(second + number, second + number))
                    changed.rename(file)
                    await running.hear("reloaded in")
                    assert (await client.call_tool("hello")).text == f"{text} "

    asyncio.run(test())


def test_a_file_that_is_broken_from_the_start_is_served_when_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    save(file, "import nothing_of_this_name\n")

    async def test() -> None:
        async with dev(tmp_path, "notes.py", "--port", "0", "--no-browser") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            write(file)
            await running.hear("reloaded in")
            async with Client(url) as client:
                assert (await client.call_tool("hello")).text == "first "

    asyncio.run(test())


OPTIONED = """
import json, logging, os, sys
from dovetail import Server
server = Server("notes")
@server.tool(name="NAME")
def look() -> str:
    "What it has been given."
    return json.dumps([sys.argv[1:], *(os.environ.get(name) for name in ("WORD", "MORE", "DOVETAIL_STORE"))])
logging.getLogger("notes").debug("NAME is loaded")
"""


def test_run_with_reload_takes_every_option(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    save(file, OPTIONED.replace("NAME", "look"))
    save(tmp_path / "my.env", "MORE=one\nWORD=lost\nDOVETAIL_STATELESS=1\n")
    words = ("notes.py", "--reload", "--http", "--port", "0", "--host", "127.0.0.2")
    more = ("--allowed-host", "notes.example", "--json-only", "--log-level", "debug", "--store", "state.db")
    rest = ("--env", "WORD=set", "--env-file", "my.env", "--metrics", "--", "--fast", "x y")

    async def test() -> None:
        async with dev(tmp_path, *words, *more, *rest, command="run") as running:
            await running.hear("look is loaded")
            url = (await running.hear(r"serving on (http://127\.0\.0\.2:\d+/mcp)"))[1]
            async with Client(url, headers={"Host": "notes.example"}) as client:
                found = msgspec.json.decode((await client.call_tool("look")).text)
                assert found == [["--fast", "x y"], "set", "one", "state.db"]
            save(tmp_path / "my.env", "MORE=two\n")
            await running.hear("reloaded in")
            save(file, OPTIONED.replace("NAME", "see"))
            await running.hear("reloaded in")
            async with Client(url, revision="2025-06-18") as client:
                assert msgspec.json.decode((await client.call_tool("see")).text)[1:3] == ["set", "two"]
            status, headers = await asyncio.to_thread(began, url)
            assert (status, "mcp-session-id" in headers) == (200, False)
            assert "application/json" in headers["content-type"]
            with await asyncio.to_thread(urlopen, url.replace("/mcp", "/metrics")) as metrics:
                assert metrics.status == 200

    asyncio.run(test())


def test_reload_from_the_environment_starts_one_child_that_reads_no_other_env_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "notes.py", OPTIONED.replace("NAME", "look"))
    save(tmp_path / ".env", "MORE=lost\n")
    save(tmp_path / "my.env", "WORD=one\n")
    monkeypatch.setenv("DOVETAIL_RELOAD", "1")
    monkeypatch.setenv("DOVETAIL_HTTP", "1")

    async def test() -> None:
        words = ("notes.py", "--port", "0", "--env-file", "my.env")
        async with dev(tmp_path, *words, command="run") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            async with Client(url) as client:
                assert msgspec.json.decode((await client.call_tool("look")).text) == [[], "one", None, None]

    asyncio.run(test())


def began(url: str) -> tuple[int, dict[str, str]]:
    """How a legacy client is answered."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    wants = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with urlopen(Request(url, body, wants), timeout=HANG) as answer:
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}


def test_reload_with_several_workers_is_a_wrong_command_line(tmp_path: Path) -> None:
    write(tmp_path / "notes.py")

    async def test() -> None:
        async with dev(
            tmp_path, "notes.py", "--http", "--reload", "--workers", "2", command="run"
        ) as running:
            await running.hear("--reload supports only one worker")
            assert await running.process.wait() == 2

    asyncio.run(test())


def test_a_line_of_the_env_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    write(tmp_path / "notes.py")
    save(tmp_path / ".env", "FINE=1\nNOTES_WORD=a\0b\n")

    async def test() -> None:
        for command, status in (("dev", 1), ("run", 2)):
            async with dev(tmp_path, "notes.py", command=command) as running:
                await running.hear(r"\.env, line 2: a variable cannot contain a NUL")
                assert await running.process.wait() == status
        save(tmp_path / ".env", "NOTES_WORD=fine\n")
        async with dev(tmp_path, "notes.py", "--port", "0", "--no-browser") as running:
            url = (await running.hear(r"serving on (\S+)"))[1]
            save(tmp_path / ".env", "\0")
            await running.hear("the reload failed")
            await running.hear(r"line 1: a variable cannot contain a NUL")
            async with Client(url) as client:
                assert (await client.call_tool("hello")).text == "first fine"

    asyncio.run(test())


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with dev(tmp_path, "nothing.py", "--no-browser") as running:
            await running.hear("nothing.py does not exist")
            assert await running.process.wait() == 1

    asyncio.run(test())
