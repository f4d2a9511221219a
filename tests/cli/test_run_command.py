"""`dovetail run`, as a process: what reaches the wire, how it starts, how it ends."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli import target
from dovetail.cli.main import COMMANDS, GROUPS, main
from dovetail.cli.run_command import address, parser, read
from dovetail.drivers.run import GRACE_SECONDS
from dovetail.errors import DovetailError
from dovetail.sync import Client
from dovetail.transports.main_loop import DRAIN_SECONDS, TEARDOWN_SECONDS
from tests.support.aio import run
from tests.support.faces import FILE
from tests.support.process import CLI, Served, started
from tests.support.waiting import HANG, reached

HALF = 0.5 + 0.4
"""Half a second, and what a busy machine adds to it."""

SMALL = """
import sys
from dovetail import Server
print("printed while importing")
sys.stdout.write("not even flushed")
{}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(
        SMALL.format('server = Server("small")\n@server.tool\nasync def hi() -> str: return "hi"\n')
    )
    return path


def text(message: dict) -> str:  # type: ignore[type-arg]
    return message["result"]["content"][0]["text"]


# --- the wire -------------------------------------------------------------------------------------------------


@run
async def test_nothing_but_messages_reaches_stdout_whatever_user_code_prints(file: Path) -> None:
    async with started("run", str(file)) as small:
        assert text(await small.call("hi")) == "hi"
        small.close_stdin()
        assert await small.process.stdout.read() == b""  # type: ignore[union-attr]
        errors = await small.stderr()
        assert "printed while importing" in errors
        assert "not even flushed" in errors
    async with started("run", FILE) as everything:
        assert text(await everything.call("printing")) == "printed"
        everything.close_stdin()
        assert await everything.process.stdout.read() == b""  # type: ignore[union-attr]
        errors = await everything.stderr()
        for words in ("a print", "a write", "a child", "unflushed"):
            assert words in errors


@run
async def test_server_run_in_a_script_diverts_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        SMALL.format(
            'server = Server("s")\n@server.tool\ndef p() -> str:\n    print("x"); return "ok"\nserver.run()\n'
        )
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        env=buffered,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    request = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    )  # fmt: skip
    call = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"p"}}'
    out, err = await process.communicate(f"{request}\n{call}\n".encode())
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
    assert b"printed while importing" in err
    assert process.returncode == 0


def test_plain_files_serve_as_stdin_and_stdout(file: Path, tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.write_bytes(
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}'
    )
    with requests.open("rb") as stdin, (tmp_path / "answers").open("wb") as stdout:
        subprocess.run(
            [*CLI, "run", str(file)],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=HANG,
            check=True,
        )
    answers = [json.loads(line) for line in (tmp_path / "answers").read_bytes().splitlines()]
    assert answers == [{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}]


def test_the_null_device_is_the_end_of_input(file: Path) -> None:
    done = subprocess.run(
        [*CLI, "run", str(file)], stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG
    )
    assert (done.returncode, done.stdout) == (0, b"")


@run
async def test_a_socket_serves_as_stdin_and_stdout(file: Path) -> None:
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(
        *CLI, "run", str(file), stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert json.loads(await reader.readline())["id"] == 1
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await process.communicate()
    assert process.returncode == 0


def test_a_terminal_serves_as_stdin_and_stdout_and_stays_as_it_was(file: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*CLI, "run", str(file)], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.write(ours, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        seen = b""
        while b'"result"' not in seen:
            seen += os.read(ours, 1000)
        assert os.get_blocking(theirs)  # other processes at the terminal are not affected
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG) == 130
        assert process.stderr is not None
    os.close(ours)
    os.close(theirs)


@run
async def test_an_oversized_line_is_refused_and_the_next_one_served() -> None:
    async with started("run", FILE) as served:
        assert served.process.stdin is not None
        served.process.stdin.write(b'{"x":"' + b"x" * (17 << 20) + b'"}\n')
        assert "result" in await served.ask("tools/list")
        refused = json.loads(served.lines[0])["error"]
        assert refused["code"] == -32600
        assert refused["data"]["maxSize"] == 16 << 20


# --- the end --------------------------------------------------------------------------------------------------


@run
async def test_the_end_of_stdin_ends_an_idle_server_at_once() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        served.close_stdin()
        await served.ends(HALF)
        assert served.process.returncode == 0


@run
async def test_calls_are_answered_after_the_end_of_stdin_within_the_grace_time() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        id = served.start("stuck", seconds=0.1)
        served.close_stdin()
        assert text(await served.answer(id)) == "awake"
        await served.ends(HALF)
        assert served.process.returncode == 0


@run
async def test_the_end_of_stdin_ends_a_server_whose_thread_is_busy() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        served.start("stuck", seconds=60)
        await served.says("blocking")
        served.close_stdin()
        await served.ends(GRACE_SECONDS + HALF)
        assert served.process.returncode == 0


@pytest.mark.slow
@run
async def test_sigterm_ends_a_server_whose_loop_is_blocked() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        served.start("frozen", seconds=60)
        await served.says("blocking")
        served.process.send_signal(signal.SIGTERM)
        await served.ends(DRAIN_SECONDS + TEARDOWN_SECONDS + HALF)
        assert served.process.returncode == 143


@pytest.mark.parametrize("tool", [None, "wait", "stuck", "frozen", "spin"])
def test_one_sigint_ends_it_within_half_a_second_whatever_it_does(tool: str | None) -> None:
    @run
    async def scenario() -> None:
        async with started("run", FILE) as served:
            await served.ask("tools/list")
            if tool is not None:
                served.start(tool, **({"key": "k"} if tool == "wait" else {"seconds": 60}))
                await served.says("blocking")
            served.process.send_signal(signal.SIGINT)
            await served.ends(HALF)
            assert served.process.returncode == 130
            assert not alive_in_group(served.process.pid)

    scenario()


def alive_in_group(group: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


async def refused(served: Served) -> dict[str, Any]:
    """Call until a call is refused, because the server ends."""
    while "error" not in (answer := await served.call("shout", words="late")):
        pass
    return answer


@run
async def test_sigterm_lets_calls_finish_and_refuses_new_ones() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        id = served.start("stuck", seconds=2.0)
        await served.says("blocking")
        served.process.send_signal(signal.SIGTERM)
        assert (await refused(served))["error"]["code"] == 1008
        assert text(await served.answer(id)) == "awake"
        await served.ends(HALF)
        assert served.process.returncode == 0


@run
async def test_a_second_signal_ends_it_at_once() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        served.start("stuck", seconds=60)
        await served.says("blocking")
        served.process.send_signal(signal.SIGTERM)
        await refused(served)
        served.process.send_signal(signal.SIGTERM)
        await served.ends(HALF)
        assert served.process.returncode == 143


@run
async def test_a_thread_of_the_authors_own_does_not_hold_up_the_end(tmp_path: Path) -> None:
    path = tmp_path / "threads.py"
    path.write_text(
        "import asyncio, sys, time\nfrom dovetail import Server\nserver = Server('t')\n"
        "def block():\n    print('blocking', file=sys.stderr, flush=True)\n    time.sleep(60)\n"
        "@server.tool\nasync def nap() -> str:\n    await asyncio.to_thread(block)\n    return ''\n"
    )
    async with started("run", str(path)) as served:
        await served.ask("tools/list")
        served.start("nap")
        await served.says("blocking")
        served.close_stdin()
        await served.ends(GRACE_SECONDS + HALF)
        assert served.process.returncode == 0


@run
async def test_a_client_that_closes_the_servers_stdout_ends_the_server() -> None:
    async with started("run", FILE) as served:
        await served.ask("tools/list")
        served.start("stuck", seconds=60)
        served.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # noqa: SLF001  asyncio has no other way
        await served.ends(GRACE_SECONDS + HALF)


# --- the other transports -------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@run
async def test_tcp_and_unix_sockets_are_served_and_removed(tmp_path: Path) -> None:
    port, path = free_port(), str(tmp_path / "socket")
    for arguments, connect in (
        (("--tcp", f"127.0.0.1:{port}"), lambda: asyncio.open_connection("127.0.0.1", port)),
        (("--unix", path), lambda: asyncio.open_unix_connection(path)),
    ):
        async with started("run", FILE, *arguments) as served:
            reader, writer = await reached(connect)
            writer.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert json.loads(await reader.readline())["id"] == 1
            served.process.send_signal(signal.SIGINT)
            assert await reader.read() == b""
            await served.ends(HALF)
            writer.close()
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "begins", "ends"),
    [
        (["--http"], "http://", "/mcp"),
        (["--sse"], "http://", "/sse"),
        (["--ws"], "ws://", "/mcp"),
        (["--ws", "--workers", "2"], "ws://", "/mcp"),
        (["--sse", "--workers", "2"], "http://", "/sse"),
    ],
)
def test_the_reported_resource_is_the_requested_one(
    file: Path, words: list[str], begins: str, ends: str
) -> None:
    served = [*CLI, "run", str(file), "--port", "0", "--json", *words]
    with subprocess.Popen(served, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if line.startswith("{"))
            where = json.loads(line)["serving"]
            with Client(where) as client:
                assert client.call_tool("hi").text == "hi"
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=HANG)
    assert where.startswith(begins)
    assert where.endswith(ends)


@pytest.mark.parametrize(
    "words",
    [["--http"], ["--sse"], ["--ws"], ["--http", "--workers", "2"], ["--tcp"]],
    ids=["http", "sse", "ws", "workers", "tcp"],
)
def test_a_port_in_use_is_one_line(file: Path, words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = [f"127.0.0.1:{port}"] if words == ["--tcp"] else ["--port", str(port)]
        done = subprocess.run(
            [*CLI, "run", str(file), *words, *where],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=HANG,
        )
    option = "--tcp" if words == ["--tcp"] else "--port"
    said = f"dovetail run: port {port} on 127.0.0.1 is in use; choose another with {option}\n"
    assert (done.returncode, done.stderr.decode()) == (1, said)


# --- the command line -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("x = 1\n", "no Server"),
        ("from dovetail import Server\na = Server('a')\nb = Server('b')\n", "f.py:a or "),
        ("import no_such_module_here\n", "no_such_module_here"),
        ("def broken(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import sys; sys.exit(3)\n", "SystemExit"),
    ],
)
def test_a_file_that_cannot_be_served_is_explained(tmp_path: Path, source: str, wanted: str) -> None:
    path = tmp_path / "f.py"
    path.write_text(source)
    with pytest.raises(target.TargetError) as caught:
        target.load(str(path))
    assert wanted in caught.value.message
    assert "importlib" not in caught.value.message


def test_a_module_of_the_folder_is_found_by_the_installed_command(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "serving.py").write_text("from dovetail import Server\nserver = Server('shop')\n")
    # -P: the folder is not on the path, as for an installed script.
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dovetail.cli.main", "run", "shop.serving"],
        input="", capture_output=True, text=True, cwd=tmp_path, timeout=HANG, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_missing_file_and_a_missing_module_are_named(tmp_path: Path) -> None:
    for missing in (str(tmp_path / "nothing.py"), "no_such_module_here"):
        with pytest.raises(target.TargetError, match=r"no_such_module_here|nothing\.py"):
            target.load(missing)


def test_servers_are_found_by_name_and_made_by_factories(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "from dovetail import Server\na = Server('a')\nb = Server('b')\nalias = a\ndef make(): return Server('c')\n"
    )
    assert target.load(f"{path}:a").dispatcher.info.name == "a"
    assert target.load(f"{path}:make").dispatcher.info.name == "c"
    with pytest.raises(target.TargetError, match="nope"):
        target.load(f"{path}:nope")


def test_one_server_under_two_names_is_one_server(tmp_path: Path) -> None:
    path = tmp_path / "aliased.py"
    path.write_text("from dovetail import Server\nserver = Server('a')\nmcp = server\n")
    assert target.load(str(path)).dispatcher.info.name == "a"


def test_a_file_named_like_a_module_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text("import sys\nfrom dovetail import Server\nserver = Server(__name__)\n")
    before = sys.modules["json"]
    assert target.load(str(path)).dispatcher.info.name != "json"
    assert sys.modules["json"] is before


def test_the_target_is_parted_at_the_last_colon() -> None:
    assert target.split("server.py") == ("server.py", None)
    assert target.split("server.py:app") == ("server.py", "app")
    assert target.split("C:\\x\\server.py") == ("C:\\x\\server.py", None)
    assert target.split("C:\\x\\server.py:app") == ("C:\\x\\server.py", "app")


def test_addresses() -> None:
    assert address("127.0.0.1:9000") == ("127.0.0.1", 9000)
    assert address("[::1]:9000") == ("::1", 9000)
    for wrong in ("9000", "localhost", "localhost:", "localhost:99999"):
        with pytest.raises(DovetailError, match="HOST:PORT"):
            address(wrong)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "server.py", "--http", "--port", "99999"],
        ["run", "server.py", "--http", "--port", "-1"],
        ["run", "server.py", "--http", "--workers", "0"],
        ["run", "server.py", "--tcp", "localhost"],
        ["dev", "server.py", "--port", "65536"],
        ["inspect", "server.py", "--port", "http"],
        ["worker", "server.py", "--tasks", "0"],
        ["explain", "many"],
    ],
)
def test_a_number_that_cannot_be_meant_is_a_wrong_command_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert words[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--workers", "2"],
        ["--port", "8000"],
        ["--tcp", "127.0.0.1:0", "--host", "127.0.0.1"],
        ["--stdio", "--certfile", "a.pem"],
        ["--client-ca", "a.pem"],
        ["--unix", "socket", "--uds", "b"],
        ["--metrics"],
        ["--stateless"],
        ["--json-only"],
        ["--allowed-host", "a"],
        ["--allowed-origin", "b"],
    ],
)
@pytest.mark.parametrize(
    "command", [["run", "server.py"], ["run", "http://127.0.0.1:9/mcp"], ["gateway", "x.json"]]
)
def test_an_http_option_is_refused_by_other_transports(
    command: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*command, *words])
    assert ended.value.code == 2
    last = [word for word in words if word.startswith("--")][-1]
    assert f"{last}: add --http, --sse or --ws" in capsys.readouterr().err


def test_an_option_of_http_in_the_environment_is_for_those_who_serve_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_WORKERS", "2")
    options = read(parser(), [str(file)])
    assert (options.workers, options.http) == (2, False)
    monkeypatch.setenv("DOVETAIL_HTTP", "1")
    options = read(parser(), [str(file), "--port", "9"])
    assert (options.port, options.http) == (9, True)


def test_help_version_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line in GROUPS] == list(GROUPS)
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(COMMANDS)
    for group, commands in GROUPS.items():
        paragraph = told.split(f"\n{group}\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in paragraph.splitlines()] == [*commands, "example:"]
        assert f"  example:    dovetail {commands[0]} " in paragraph
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dovetail ")
    assert main(["dance"]) == 2
    assert "dance" in capsys.readouterr().err
    assert main([]) == 2


def test_a_failure_is_one_line_and_status_one(capfd: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [*CLI, "run", "nothing.py"], capture_output=True, stdin=subprocess.DEVNULL, timeout=HANG
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode().strip() == "dovetail run: nothing.py does not exist"


@pytest.mark.parametrize("store", ["foo://x", "sqlite://x", ""])
def test_a_store_that_is_none_is_a_mistake_of_the_command_not_of_the_file(file: Path, store: str) -> None:
    done = subprocess.run(
        [*CLI, "run", str(file), "--store", store],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG,
    )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("dovetail run: ")
    assert "store" in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_a_key_that_is_none_is_a_mistake_of_the_command_not_of_the_file(file: Path) -> None:
    done = subprocess.run(
        [*CLI, "run", str(file), "--json"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG,
        env={**os.environ, "DOVETAIL_SEAL_KEYS": "short"},
    )
    assert (done.returncode, done.stdout) == (2, b"")
    expected = b"dovetail run: DOVETAIL_SEAL_KEYS must have keys of 32 bytes in hex or base64url, separated by commas\n"
    assert done.stderr == expected


def test_a_certificate_that_cannot_be_used_is_one_line(file: Path) -> None:
    done = subprocess.run(
        [*CLI, "run", str(file), "--http", "--port", "0", "--certfile", "nothing.pem"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG,
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == b"dovetail run: the certificate nothing.pem cannot be used: No such file or directory\n"
    )


def test_starting_imports_nothing_of_http() -> None:
    code = "import sys, dovetail.cli.main, dovetail.transports.stdio, dovetail.server; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {
        "uvicorn",
        "pydantic",
        "httptools",
        "websockets",
        "jsonschema_rs",
        "anyio",
    }
