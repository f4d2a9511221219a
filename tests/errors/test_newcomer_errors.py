"""Mistakes of newcomers, made with the real command and real programs: each ends in a message that says what to do."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG

CLI = [sys.executable, "-m", "dovetail.cli.main"]
SERVER = '''
from dovetail import Context, Server

server = Server("weather")


@server.tool
def forecast(city: str, days: int = 3) -> str:
    """Forecast the weather."""
    return f"{city}: sunny for {days} days"


@server.tool
async def book(ctx: Context) -> str:
    """Book a trip."""
    return (await ctx.elicit("Which seat?", ["window", "aisle"])).action


@server.tool
def broken() -> str:
    """Fail."""
    return {}["password"]


@server.prompt
def plan(city: str) -> str:
    return f"Plan a trip to {city}"
'''
HEAD = 'from dovetail import Server\nserver = Server("one")\n'
FILES = {
    "server.py": SERVER,
    "empty.py": "x = 1\n",
    "two.py": 'from dovetail import Server\na = Server("a")\nb = Server("b")\n',
    "syntax.py": HEAD + "def add(:\n",
    "imports.py": "import pandaz\n",
    "twice.py": HEAD + "@server.tool\ndef add() -> None: ...\n" * 2,
    "option.py": HEAD + "@server.tool(descripton='Add.')\ndef add(a: int) -> int:\n    return a\n",
    "type.py": HEAD + "class Thing: ...\n@server.tool\ndef add(a: Thing) -> int:\n    return 1\n",
    "template.py": HEAD + "@server.resource('weather://{town}')\ndef now(city: str) -> str:\n    return ''\n",
    "nested.py": HEAD + "import asyncio\nasync def main():\n    server.run()\nasyncio.run(main())\n",
    "closed.py": "import asyncio\nfrom dovetail import Client\nasyncio.run(Client('server.py').list_tools())\n",
    "cut.json": '{"mcpServers": {',
    "member.json": '{"mcpServers": {"one": {"comand": "python"}}}',
    "mcp.json": '{"mcpServers": {"one": {"command": "python", "args": ["-c", ""]}}}',
}

SITUATIONS: dict[str, tuple[list[str], int, str]] = {
    "an unknown command": (["runn", "server.py"], 2, "dovetail: 'runn' is not a command; did you mean 'run'?"),
    "a file without a command": (
        ["server.py"], 2, "dovetail: 'server.py' is not a command; did you mean 'run server.py'?",
    ),
    "a missing file": (["run", "missing.py"], 1, "dovetail run: missing.py does not exist"),
    "a file without a server": (
        ["run", "empty.py"], 1,
        'dovetail run: empty.py has no Server: write `server = Server("name")` at the top level',
    ),
    "a file with two servers": (
        ["run", "two.py"], 1, "dovetail run: two.py has 2 servers: choose one with two.py:a or two.py:b",
    ),
    "a syntax error": (["run", "syntax.py"], 1, "SyntaxError: invalid syntax"),
    "a missing package": (["run", "imports.py"], 1, "ModuleNotFoundError: No module named 'pandaz'"),
    "a name used twice": (
        ["run", "twice.py"], 1,
        "dovetail.errors.RegistrationError: the tool 'add' is already registered; remove it first",
    ),
    "a misspelt option": (
        ["run", "option.py"], 1,
        "dovetail.errors.RegistrationError: a tool takes no option 'descripton'; did you mean 'description'?",
    ),
    "a type without a schema": (
        ["run", "type.py"], 1,
        "dovetail.errors.RegistrationError: 'add', parameter 'a': Thing has no JSON form: use a dataclass or a plain "
        "type",
    ),
    "other names in a URI template": (
        ["run", "template.py"], 1,
        "dovetail.errors.RegistrationError: the variables of 'weather://{town}' (town) must be exactly the parameters "
        "of 'now' (city)",
    ),
    "run() inside an event loop": (
        ["run", "nested.py"], 1,
        "dovetail.errors.StateError: server.run() cannot be used inside an event loop: await server.serve() instead",
    ),
    "workers without HTTP": (
        ["run", "server.py", "--workers", "2"], 2,
        "dovetail run: error: --workers: add --http, --sse or --ws",
    ),
    "a port that is not a number": (
        ["run", "server.py", "--http", "--port", "http"], 2,
        "dovetail run: error: argument --port: 'http' is not an integer from 0 to 65535",
    ),
    "an unknown store": (
        ["run", "server.py", "--store", "mysql://db"], 2,
        "dovetail run: unknown store URL scheme mysql://; use sqlite://, redis:// or memory://",
    ),
    "a worker without a store": (
        ["worker", "server.py"], 1,
        "dovetail worker: a worker needs the store of its server: add --store redis://HOST:PORT/DB",
    ),
    "a misspelt tool": (
        ["call", "server.py", "forcast", "city=Oslo"], 1,
        "dovetail call: Unknown tool: forcast; did you mean forecast?",
    ),
    "a missing argument": (["call", "server.py", "forecast"], 1, "Invalid arguments for forecast: city: is required"),
    "an argument of another type": (
        ["call", "server.py", "forecast", "city=Oslo", "days=many"], 1,
        "Invalid arguments for forecast: days: expected integer, got string",
    ),
    "an argument without a name": (
        ["call", "server.py", "forecast", "Oslo"], 2, "dovetail call: 'Oslo' is not key=value",
    ),
    "a tool that needs a terminal": (
        ["call", "server.py", "book"], 1,
        "dovetail call: this call needs the client capability 'elicitation.form' (the server requests input: run this "
        "at a terminal)",
    ),
    "a tool that raises": (
        ["call", "server.py", "broken"], 1, "Error executing tool 'broken' (incident [0-9a-f]+)",
    ),
    "a prompt without its argument": (
        ["prompt", "server.py", "plan"], 1, "dovetail prompt: Missing required arguments: city",
    ),
    "a server that does not run": (
        ["list", "http://127.0.0.1:9/mcp"], 1,
        "dovetail list: http://127.0.0.1:9 refused the connection (is the server running?)",
    ),
    "a command that is not installed": (
        ["list", "no-such-program --stdio"], 1,
        "dovetail list: cannot start no-such-program: [Errno 2] No such file or directory: 'no-such-program' (is it "
        "installed?)",
    ),
    "a configuration file with a syntax error": (
        ["gateway", "cut.json"], 1,
        "dovetail gateway: cut.json cannot be read: Expecting property name enclosed in double quotes: line 1 column "
        "17 (char 16)",
    ),
    "an unknown client": (
        ["install", "server.py", "--into", "emacs"], 2,
        "dovetail install: error: argument --into: invalid choice: 'emacs' (choose from .*'cursor'.*)",
    ),
    "an error code that does not exist": (
        ["explain", "12345"], 1, "dovetail explain: 12345 is not an error code of MCP or of Dovetail",
    ),
    "an error kind that does not exist": (
        ["explain", "rate_limit"], 2,
        "dovetail explain: error: 'rate_limit' is neither an error code such as 1003 nor an error kind such as "
        "rate_limited. Did you mean rate_limited?",
    ),
    "a client outside of async with": (
        ["closed.py"], 1, "dovetail.errors.StateError: the client is not connected (state starting): "
        "use `async with Client(…)`",
    ),
}  # fmt: skip
"""What was done → the arguments, the exit status, and the last line of the output (see `PATTERNS`)."""
PATTERNS = {"a tool that raises", "an unknown client"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def last_line(folder: Path, words: list[str], **environ: str) -> tuple[int, str]:
    command = [sys.executable, *words] if words[0] == "closed.py" else [*CLI, *words]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=HANG, check=False,
        env={**os.environ, "COLUMNS": "400", "XDG_STATE_HOME": str(folder / "state"), **environ},
    )  # fmt: skip
    return done.returncode, done.stdout.strip().splitlines()[-1]


def test_there_are_at_least_twenty_situations() -> None:
    assert len(SITUATIONS) >= 20


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_newcomer_reads_what_is_wrong_and_what_to_do(situation: str, folder: Path) -> None:
    words, status, text = SITUATIONS[situation]
    found, line = last_line(folder, words)
    if situation in PATTERNS:
        assert re.fullmatch(text.replace("(", r"\(").replace(")", r"\)"), line), line
    else:
        assert line == text
    assert found == status


def test_a_port_in_use_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, line = last_line(folder, ["run", "server.py", "--http", "--port", str(port)])
    assert (status, line) == (
        1,
        f"dovetail run: port {port} on 127.0.0.1 is in use; choose another with --port",
    )


def test_a_wrong_variable_is_named(folder: Path) -> None:
    status, line = last_line(folder, ["run", "server.py"], DOVETAIL_LOG_LEVEL="loud")
    assert status == 2
    assert line.endswith("DOVETAIL_LOG_LEVEL must be one of debug, info, warning, error, not 'loud'")
