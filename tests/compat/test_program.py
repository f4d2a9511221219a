"""``dovetail run --compat``: programs of others run unmodified, and the transport of our command line wins."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.compat.absent import found as meant
from dovetail.compat.private_names import PRIVATE
from tests.support.aio import run
from tests.support.waiting import reached

COMMAND = [sys.executable, "-m", "dovetail.cli.main", "run", "--compat"]

HANDLERS = """
import mcp.types as types
from mcp.server import Server

server = Server("mini")

@server.list_tools()
async def list_tools():
    return [types.Tool(name="hello", inputSchema={"type": "object"})]

@server.call_tool()
async def call_tool(name, arguments):
    return [types.TextContent(type="text", text="hello " + " ".join(sys.argv[1:]))]
"""
STDIO = """
async def main():
    from mcp.server.stdio import stdio_server
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
"""
PROGRAMS = {
    "asyncio.run": "import asyncio, sys" + HANDLERS + STDIO + "\nasyncio.run(main())",
    "anyio.run": "import anyio, sys" + HANDLERS + STDIO + "\nif __name__ == '__main__':\n    anyio.run(main)",
    "nothing but an object": "import sys" + HANDLERS.replace("server =", "name = server ="),
    "prints": "import sys\nprint('noise')" + HANDLERS + "\nprint('more noise')",
}


def target(*words: str | Path, folder: Path) -> dict[str, Any]:
    """The program as a client starts it, with our sources."""
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    args = [*COMMAND[1:], *map(str, words)]
    return {
        "mcpServers": {"it": {"command": COMMAND[0], "args": args, "cwd": str(folder), "env": environment}}
    }


def write(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def compat(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("way", PROGRAMS)
@run
async def test_a_program_is_served_over_stdio_with_its_arguments(tmp_path: Path, way: str) -> None:
    path = write(tmp_path, PROGRAMS[way])
    async with Client(target(path, "--", "one", "two", folder=tmp_path)) as client:
        assert (await client.call_tool("hello")).text == "hello one two"


@run
async def test_the_command_line_wins_over_stdio_server(tmp_path: Path) -> None:
    path, address = write(tmp_path, PROGRAMS["asyncio.run"]), tmp_path / "socket"
    child = await asyncio.create_subprocess_exec(*COMMAND, path, "--unix", address, "--", "there")
    try:
        _, writer = await reached(lambda: asyncio.open_unix_connection(address))
        writer.close()
        async with Client(f"unix://{address}") as client:
            assert (await client.call_tool("hello")).text == "hello there"
    finally:
        child.terminate()
        await child.wait()


@run
async def test_a_package_runs_by_its_name(tmp_path: Path) -> None:
    package = tmp_path / "acme"
    package.mkdir()
    write(package, "", "__init__.py")
    write(package, "import sys" + HANDLERS + STDIO, "server.py")
    write(package, "import asyncio\nfrom .server import main\nasyncio.run(main())", "__main__.py")
    async with Client(target("-m", "acme", folder=tmp_path)) as client:
        assert (await client.call_tool("hello")).text == "hello "


def test_what_is_missing_is_named_with_its_place_and_use_before_anything_runs(tmp_path: Path) -> None:
    text = "import sys\nfrom mcp.server.lowlevel import Nonsense\nprint('ran')\nclass Own(Nonsense): ..."
    path = write(tmp_path, text)
    done = compat(path)
    assert done.returncode == 3
    assert (
        f"{path}:2: mcp.server.lowlevel.Nonsense is not there; it is used for: class Own(Nonsense):"
        in done.stderr
    )
    assert "ran" not in done.stdout + done.stderr


def test_a_name_that_lives_elsewhere_is_suggested(tmp_path: Path) -> None:
    done = compat(write(tmp_path, "from mcp.server.lowlevel import TextContent\n"))
    assert done.returncode == 3
    assert "mcp.types" in done.stderr


def test_a_store_of_its_own_for_tasks_is_refused_with_what_to_do(tmp_path: Path) -> None:
    done = compat(write(tmp_path, "from mcp.shared.experimental.tasks.store import TaskStore"))
    assert done.returncode == 3
    assert "with DOVETAIL_STORE they outlive the process" in done.stderr


def test_a_session_over_two_streams_is_refused_with_what_to_do(tmp_path: Path) -> None:
    text = "from mcp import ServerSession\nasync def main():\n    async with ServerSession(1, 2, None) as it: ..."
    done = compat(write(tmp_path, text))
    assert done.returncode == 3
    assert ":3: mcp.ServerSession(read_stream, write_stream, …) is not there" in done.stderr
    assert "register handlers on mcp.server.lowlevel.Server" in done.stderr


def test_names_behind_a_module_and_in_files_beside_are_found(tmp_path: Path) -> None:
    write(tmp_path, "import mcp.types as t\nx = t.NoSuchType\n", "helper.py")
    done = compat(write(tmp_path, "import helper\n"))
    assert done.returncode == 3
    assert "helper.py:2: mcp.types.NoSuchType" in done.stderr


PATCHES = {
    "ServerSession._received_request = print": "mcp.server.session.ServerSession._received_request",
    "old = ServerSession._ask_twice": "mcp.server.session.ServerSession._ask_twice",
    "session.ServerSession._sent = print": "mcp.server.session.ServerSession._sent",
    "setattr(ServerSession, '_sent', print)": "mcp.server.session.ServerSession._sent",
    "mcp._streams = print": "mcp._streams",
    "server._handle_request = print": "_handle_request",
    "class Own(ServerSession):\n    def _receive_loop(self): ...": "mcp.server.session.ServerSession._receive_loop",
}


@pytest.mark.parametrize("patch", PATCHES)
def test_a_private_name_that_is_replaced_in_vain_is_said_and_nothing_is_served(
    tmp_path: Path, patch: str
) -> None:
    begin = "import sys, mcp\nfrom mcp.server import session\nfrom mcp.server.session import ServerSession\n"
    done = compat(write(tmp_path, begin + HANDLERS + patch))
    assert done.returncode == 3
    assert f"{PATCHES[patch]} is not there" in done.stderr
    assert "a private name of the original" in done.stderr


SESSION = "mcp.server.session.ServerSession._received_request"
TOOLS = "fastmcp.server.server.FastMCP._run_middleware"
BEHIND_THE_BACK = {
    "a computed name": ("setattr(ServerSession, '_received_' + 'request', hear)", SESSION),
    "another package": ("import patcher\npatcher.patch(ServerSession)", SESSION),
    "a name in a module": (
        "import mcp.server.elicitation as it\nsetattr(it, '_is_' + 'primitive_field', hear)",
        "mcp.server.elicitation._is_primitive_field",
    ),
    "no function": (
        "from unittest.mock import MagicMock\nsetattr(ServerSession, '_received_' + 'request', MagicMock())",
        SESSION,
    ),
    "the server itself": (
        "setattr(server, '_handle_' + 'request', hear)",
        "mcp.server.lowlevel.server.Server._handle_request",
    ),
    "a class of another package": (
        "import patcher\nserver = patcher.made(Server)",
        "mcp.server.lowlevel.server.Server._handle_request",
    ),
    "while it is being served": (
        "import asyncio\nasync def main():\n"
        "    setattr(ServerSession, '_received_' + 'request', hear)\n"
        "    from mcp.server.stdio import stdio_server\n"
        "    try:\n        async with stdio_server() as (read, write):\n"
        "            await server.run(read, write, server.create_initialization_options())\n"
        "    except Exception:\n        pass\nasyncio.run(main())",
        SESSION,
    ),
    "in its lifespan": (
        "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def live(_):\n"
        "    setattr(ServerSession, '_received_' + 'request', hear)\n    yield {}\nserver.lifespan = live",
        SESSION,
    ),
}


@pytest.mark.parametrize("way", BEHIND_THE_BACK)
def test_a_private_name_that_is_replaced_where_reading_does_not_show_it_is_said_before_serving(
    tmp_path: Path, way: str
) -> None:
    begin = "import sys\nfrom mcp.server.session import ServerSession\ndef hear(*given): ...\n"
    code, name = BEHIND_THE_BACK[way]
    package = tmp_path / "elsewhere"
    package.mkdir()
    patch = "def patch(kind):\n    setattr(kind, '_received_request', lambda self: None)\n"
    made = "def made(kind):\n    class Own(kind):\n        def _handle_request(self): ...\n    return Own('own')\n"
    write(package, patch + made, "patcher.py")
    path = write(tmp_path, begin + f"sys.path.append({str(package)!r})\n" + HANDLERS + code)
    done = compat(path)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{name} is not there" in done.stderr
    assert "nothing was served" in done.stderr
    assert "a private name of the original" in done.stderr


def test_the_place_of_what_was_put_there_is_told(tmp_path: Path) -> None:
    text = "from fastmcp import FastMCP\ndef own(*given): ...\nfor name in ['middleware']:\n"
    text += "    setattr(FastMCP, '_run_' + name, own)\nFastMCP('x').run()\n"
    path = write(tmp_path, text)
    done = compat(path)
    assert done.returncode == 3
    assert f"{path}:2: {TOOLS} is not there; it is used for: own is put there" in done.stderr


@run
async def test_what_a_program_puts_onto_our_classes_for_itself_is_served(tmp_path: Path) -> None:
    own = "\nfrom mcp.server.session import ServerSession\nsetattr(ServerSession, '_my_' + 'own', print)\n"
    path = write(tmp_path, "import sys" + own + HANDLERS)
    async with Client(target(path, folder=tmp_path)) as client:
        assert (await client.call_tool("hello")).text == "hello "


def test_the_table_of_private_names_has_only_what_ours_do_not_have() -> None:
    found = [
        f"{place}.{name}"
        for place, names in PRIVATE.items()
        for name in names.split()
        if hasattr(meant(place), name) or not name.startswith("_")
    ]
    assert found == []


def test_private_names_of_the_program_itself_are_its_own(tmp_path: Path) -> None:
    begin = "from mcp.server.session import ServerSession\n"
    own = "class Own(ServerSession):\n    def _mine(self): self._handle_request = self._kept\n"
    text = begin + "ServerSession._kept = {}\n" + own
    done = compat("--compat=report", write(tmp_path, text))
    assert done.returncode == 0, done.stderr


def test_an_import_that_may_fail_is_not_missed(tmp_path: Path) -> None:
    text = "try:\n    from mcp.server import Nonsense\nexcept ImportError:\n    Nonsense = None\n"
    done = compat("--compat=report", write(tmp_path, text))
    assert (done.returncode, "nothing is missing" in done.stderr) == (0, True)


def test_an_import_where_another_may_fail_is_missed(tmp_path: Path) -> None:
    forgiving = "try:\n    import numpy\nexcept ImportError:\n    pass\nelse:\n    import mcp.nothing_there\n"
    done = compat("--compat=report", write(tmp_path, forgiving))
    assert done.returncode == 3
    assert ":6: mcp.nothing_there is not there" in done.stderr


def test_an_import_at_run_time_is_caught_as_well(tmp_path: Path) -> None:
    text = "import importlib\nimportlib.import_module('mcp.no_such_module')\n"
    path = write(tmp_path, text)
    done = compat(path)
    assert done.returncode == 3
    assert f"{path}:2: mcp.no_such_module is not there" in done.stderr


def test_a_report_runs_nothing(tmp_path: Path) -> None:
    done = compat("--compat=report", write(tmp_path, "print('ran')\nfrom mcp.server import Nonsense\n"))
    assert done.returncode == 3
    assert "1 names are missing" in done.stderr
    assert "ran" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["none.py"], "there is no file none.py"),
        (["-m", "no_such_package_anywhere"], "neither a module no_such_package_anywhere"),
    ],
)
def test_a_report_on_nothing_says_that_there_is_nothing(line: list[str], words: str) -> None:
    done = compat("--compat=report", *line)
    assert done.returncode == 1
    assert words in done.stderr
    assert "nothing is missing" not in done.stderr


def test_a_report_on_what_is_no_python_says_so(tmp_path: Path) -> None:
    done = compat("--compat=report", write(tmp_path, "def f(:"))
    assert done.returncode == 1
    assert "cannot be run" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "has no server at its top level"),
        ("from mcp.server import Server\na = Server('a')\nb = Server('b')", "there are 2 servers"),
        ("def f(:", "cannot be run"),
        ("import no_such_package_anywhere", "no_such_package_anywhere"),
    ],
)
def test_what_cannot_be_served_is_said(tmp_path: Path, text: str, words: str) -> None:
    done = compat(write(tmp_path, text))
    assert done.returncode == 1
    assert words in done.stderr


def test_a_file_or_a_package_has_to_be_named() -> None:
    assert compat().returncode == 2
    assert compat("/no/such/file.py").returncode == 1
