"""What the author of a server sees of its exceptions: one traceback, which begins in the author's file."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.telemetry.short_traceback import short_traceback
from tests.support.waiting import HANG

TOOL = """
from dovetail import Server
server = Server("shop")

def helper(x):
    return 1 // x

@server.tool
def work(x: int) -> int:
    return helper(x)
"""
IMPORT = """
from dovetail import Server
server = Server("shop")
raise LookupError("no such table")
"""
LIFESPAN = """
from contextlib import asynccontextmanager
from dovetail import Server

@asynccontextmanager
async def life(server):
    raise LookupError("no such table")
    yield

server = Server("shop", lifespan=life)
"""
OPTION = """
from dovetail import Server
server = Server("shop")

@server.tool(timeout="3")
def work(x: int) -> int:
    return x
"""


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "dovetail.cli.main", *words]
    return subprocess.run(
        line, cwd=folder, capture_output=True, text=True, timeout=HANG, stdin=subprocess.DEVNULL, check=False
    )


def first_frame(text: str) -> str:
    """The file name of the first frame of the one traceback in ``text``."""
    assert text.count("Traceback (most recent call last)") == 1, text
    found = re.search(r'Traceback \(most recent call last\):\n  File "([^"]+)"', text)
    assert found is not None, text
    return Path(found[1]).name


@pytest.mark.parametrize(
    "target", ["shop.py", "{folder}/shop.py", "{python} {folder}/shop.py", "{python} shop.py"]
)
def test_the_exception_of_a_tool_is_shown_once_and_from_the_authors_file(target: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"{TOOL}\nif __name__ == '__main__':\n    server.run()\n")
    words = target.format(folder=tmp_path, python=sys.executable)
    done = command(tmp_path, "call", words, "work", "x=0")
    assert done.returncode == 1
    assert first_frame(done.stderr) == "shop.py"
    assert "in helper" in done.stderr
    assert "dovetail/" not in done.stderr
    assert done.stderr.count("ZeroDivisionError") == 1
    assert "ZeroDivisionError" not in done.stdout
    # Each line of a log has a time.
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ERROR incident", done.stderr, re.MULTILINE)


FORGOTTEN = """
from dovetail import Context, Server
server = Server("shop")

@server.tool
async def log(ctx: Context) -> str:
    ctx.info("begun")
    return "done"

@server.tool
async def ask(ctx: Context) -> str:
    return ctx.elicit("how many?", int).data

@server.tool
async def sample(ctx: Context) -> str:
    return ctx.sample("a poem")

@server.tool
async def several(ctx: Context):
    return ["a", ctx.elicit("how many?", int)]
"""


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("log", "shop.py:7: RuntimeWarning: coroutine 'Context.info' was never awaited"),
        ("ask", "coroutine 'Context.elicit' was never awaited"),
        ("sample", "the call of Context.sample needs 'await'"),
        ("several", "the call of Context.elicit needs 'await'"),
    ],
)
def test_a_missing_await_is_reported_with_the_name_of_the_method(
    tmp_path: Path, tool: str, said: str
) -> None:
    (tmp_path / "shop.py").write_text(FORGOTTEN)
    assert said in command(tmp_path, "call", "shop.py", tool).stderr


@pytest.mark.parametrize("text", [IMPORT, LIFESPAN], ids=["import", "lifespan"])
@pytest.mark.parametrize(
    "words",
    [
        ("call", "shop.py", "x"),
        ("list", "shop.py:server"),
        ("doctor", "shop.py"),
        ("run", "shop.py"),
        ("run", "{folder}/shop.py"),
    ],
    ids=" ".join,
)
def test_a_server_that_cannot_start_is_explained_once(
    tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    (tmp_path / "shop.py").write_text(text)
    done = command(tmp_path, *(word.format(folder=tmp_path) for word in words))
    assert done.returncode == 1
    assert first_frame(done.stderr) == "shop.py"
    assert (done.stdout + done.stderr).count("LookupError: no such table") == 1


def test_a_wrong_option_is_shown_with_the_line_of_the_author_alone(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OPTION)
    done = command(tmp_path, "run", "shop.py")
    assert first_frame(done.stderr) == "shop.py"
    assert done.stderr.count("  File ") == 1
    assert "the timeout of a tool must be a number" in done.stderr


def test_a_traceback_without_a_frame_of_an_author_is_complete() -> None:
    code = compile("raise ValueError('x')", short_traceback.__code__.co_filename, "exec")
    with pytest.raises(ValueError, match="x") as caught:
        exec(code)
    trace = caught.value.__traceback__
    assert trace is not None
    error = caught.value.with_traceback(trace.tb_next)
    assert "short_traceback.py" in short_traceback(error)


def test_frames_of_the_library_are_left_out_of_causes_and_groups_too() -> None:
    from dovetail.wire.revisions import add

    def fail() -> None:
        add(None)  # type: ignore[arg-type]

    errors: list[Exception] = []
    try:
        fail()
    except AttributeError as error:
        errors.append(error)
    try:
        raise ExceptionGroup("several", errors) from errors[0]
    except ExceptionGroup as group:
        text = short_traceback(group)
    assert text.count("in fail") == 2
    assert "revisions.py" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cal", "x"), "did you mean 'call'?"),
        (("shop.py",), "did you mean 'run shop.py'?"),
        (("xyzzy",), "dovetail COMMAND --help"),
        (("call", "127.0.0.1:8000/mcp", "x"), "write http://127.0.0.1:8000/mcp"),
        (("list", "localhost:8000"), "write http://localhost:8000"),
        (("inspect", "localhost/mcp"), "write http://localhost/mcp"),
    ],
    ids=["command", "file", "nothing near", "call", "list", "inspect"],
)
def test_a_wrong_command_line_says_what_was_meant(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = command(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_https_to_a_plain_port_says_to_write_http(tmp_path: Path) -> None:
    async def run() -> tuple[int, str]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
            port = plain.sockets[0].getsockname()[1]
            words = ("list", f"https://127.0.0.1:{port}/mcp")
            done = await asyncio.to_thread(command, tmp_path, *words)
            return port, done.stderr

    port, said = asyncio.run(run())
    assert f"does not use TLS: write http://127.0.0.1:{port}" in said


@pytest.mark.parametrize("terminal", [True, False])
def test_a_server_that_is_started_in_a_terminal_says_what_it_waits_for(
    tmp_path: Path, terminal: bool
) -> None:
    (tmp_path / "shop.py").write_text(TOOL)
    ours, its = os.openpty() if terminal else os.pipe()[::-1]
    line = [sys.executable, "-m", "dovetail.cli.main", "run", "shop.py"]
    with subprocess.Popen(
        line, cwd=tmp_path, stdin=its, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        assert server.stderr is not None
        os.close(its)
        if terminal:
            said = server.stderr.readline().decode()
            assert "waits for messages of a client" in said
            assert "dovetail inspect" in said
            server.send_signal(signal.SIGINT)
        else:
            os.close(ours)
        rest = server.stderr.read().decode()
        assert "waits for messages" not in rest
        server.wait(HANG)
    if terminal:
        os.close(ours)
