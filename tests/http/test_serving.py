"""Whole processes: `dovetail run --http` with TLS, Unix sockets, workers and signals."""

import asyncio
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.errors import DovetailError
from dovetail.transports.http import serving
from dovetail.transports.http.ended import Board, Ended
from tests.support.aio import run
from tests.support.everything import build
from tests.support.faces import FILE
from tests.support.process import CLI
from tests.support.schemas import validate
from tests.support.web import (
    Connection,
    Web,
    legacy_headers,
    modern,
    modern_headers,
    request,
    served,
    text,
    until,
)

NEWEST = "2025-11-25"

SLOW = """
import asyncio, os
from dovetail import Context, Server
server = Server("slow")

@server.tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"

@server.tool
async def stubborn() -> str:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "so be it"

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def ask(ctx: Context) -> str:
    return (await ctx.sample("?", max_tokens=5)).text
"""

STUCK = """
import asyncio, ctypes, sys, time
from dovetail import Server
from dovetail.transports.http import host
host.MARGIN = 1.0
server = Server("stuck")

@server.tool
async def in_a_thread() -> str:
    print("blocking", file=sys.stderr, flush=True)
    await asyncio.to_thread(time.sleep, 600)
    return ""

@server.tool
async def in_the_loop() -> str:
    print("blocking", file=sys.stderr, flush=True)
    time.sleep(600)
    return ""

@server.tool
async def in_foreign_code() -> str:
    print("blocking", file=sys.stderr, flush=True)
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
    while True:  # the second time never ends and keeps the lock of the interpreter, as a broken extension does
        library.pthread_mutex_lock(mutex)

async def never_give_in() -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

tasks = []

@server.tool
async def leave_a_task() -> str:
    tasks.append(asyncio.create_task(never_give_in()))
    return "left"

sys.exit(server.run("http", port=0, drain=0.2, workers=int(sys.argv[1])))
"""

ANSWER = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}


class Child:
    """A served file, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""
        self.address: Any = None
        self.connections: list[Connection] = []

    async def ready(self) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(15):
            while not (found := re.search(r"serving on (\S+?://\S+?:(\d+)|unix:(\S+))/mcp", self.said)):
                line = await self.process.stderr.readline()
                assert line, self.said
                self.said += line.decode()
        self.address = found[3] or ("127.0.0.1", int(found[2]))

    async def says(self, words: str) -> None:
        """Wait until it has said so."""
        assert self.process.stderr is not None
        async with asyncio.timeout(15):
            while words not in self.said:
                line = await self.process.stderr.readline()
                assert line, self.said
                self.said += line.decode()

    async def connect(self, **options: Any) -> Connection:
        if isinstance(self.address, str):
            pair = await asyncio.open_unix_connection(self.address)
        else:
            pair = await asyncio.open_connection(*self.address, **options)
        self.connections.append(Connection(*pair))
        return self.connections[-1]

    async def ended(self, limit: float = 15) -> int:
        """The exit status, once it has ended by itself; everything it said is in `said`."""
        assert self.process.stderr is not None
        async with asyncio.timeout(limit):
            self.said += (await self.process.stderr.read()).decode()
            return await self.process.wait()


def child(*arguments: str) -> AbstractAsyncContextManager[Child]:
    return started(*CLI, "run", *arguments, "--http")


@asynccontextmanager
async def started(*command: str) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    held = Child(process)
    try:
        await held.ready()
        yield held
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await held.ended()
        for connection in held.connections:
            await connection.close()


@pytest.fixture
def slow(tmp_path: Path) -> str:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)


def stuck(folder: Path, workers: str) -> AbstractAsyncContextManager[Child]:
    path = folder / "stuck.py"
    path.write_text(STUCK)
    return started(sys.executable, str(path), workers)


async def ask_for(served: Child, tool: str) -> Connection:
    """Call a tool that takes its time, on a connection of its own."""
    connection = await served.connect()
    message = modern("tools/call", {"name": tool})
    connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
    return connection


async def ask_until_complete(web: Web, name: str) -> str:
    params: dict[str, Any] = {"name": name}
    for _ in range(4):
        result = (await web.modern("tools/call", params)).message["result"]
        if result["resultType"] == "complete":
            return text(result)
        responses = dict.fromkeys(result["inputRequests"], ANSWER)
        params |= {"requestState": result["requestState"], "inputResponses": responses}
    raise AssertionError("it never stops asking")


# --- the end --------------------------------------------------------------------------------------------------


def test_sigterm_with_open_streams_and_running_tools(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0") as served:
            web = Web(served)  # type: ignore[arg-type]
            session, _ = await web.initialize(NEWEST)
            streams: list[tuple[str, Connection]] = []
            for number in range(50):
                connection = await served.connect()
                if number % 2:
                    connection.request("GET", "/mcp", legacy_headers(NEWEST, session))
                    kind = "get"
                else:
                    kind = "listen"
                    message = modern(
                        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=number
                    )
                    connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
                assert (await connection.head()).status == 200
                streams.append((kind, connection))
            calls: list[Connection] = []
            for number in range(10):
                connection = await served.connect()
                params = {"name": "nap", "arguments": {"seconds": 1.0}}
                message = request("tools/call", params) if number % 2 else modern("tools/call", params)
                headers = legacy_headers(NEWEST, session) if number % 2 else modern_headers(message)
                connection.request("POST", "/mcp", headers, json.dumps(message).encode())
                calls.append(connection)
            await web.modern("tools/list")  # whatever was sent before this has been read
            served.process.send_signal(signal.SIGTERM)
            for connection in calls:
                found = await connection.response()
                validate(found.body, NEWEST if "resultType" not in str(found.body) else "2026-07-28")
                assert text(found.message["result"]) == "rested"
            for number, (kind, connection) in enumerate(streams):
                events = [
                    event async for event in connection.events() if event.data
                ]  # to a proper last chunk
                if kind == "listen":
                    last = json.loads(events[-1].data)  # type: ignore[arg-type]
                    assert last["id"] == number
                    validate(last, "2026-07-28", method="subscriptions/listen")
            assert await served.ended() == 0
            assert "ERROR" not in served.said
            assert "Traceback" not in served.said

    scenario()


def test_calls_that_outlast_the_drain_are_told_so() -> None:
    @run
    async def scenario() -> None:
        server = Server("patient")

        @server.tool
        async def nap() -> str:
            await asyncio.sleep(60)
            return ""

        async with served(server, drain=0.05) as site:
            web = Web(site)
            session, _ = await web.initialize(NEWEST)
            calls = [
                asyncio.create_task(web.modern("tools/call", {"name": "nap"})),
                asyncio.create_task(web.legacy(NEWEST, session, "tools/call", {"name": "nap"})),
            ]
            await until(lambda: len(site.app.life.running) == 2)
            site.host.should_exit = True
            answers = await asyncio.gather(*calls)
            for found in answers:
                assert "shutting down" in found.message["error"]["message"]
            assert [found.status for found in answers] == [503, 200]
            assert answers[0].headers["retry-after"] == "1"

    scenario()


def test_while_draining_new_requests_get_503_and_readiness_is_off() -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            web = Web(site)
            site.app.life.draining = True
            found = await web.modern("tools/list")
            assert found.status == 503
            assert found.headers["retry-after"] == "1"
            assert (await web.ask("GET", {}, path="/readyz")).status == 503
            assert (await web.ask("GET", {}, path="/livez")).status == 200
            site.app.life.draining = False

    scenario()


@run
async def test_a_body_that_arrives_after_the_drain_began_is_not_served() -> None:
    called: list[str] = []
    server = Server("late")

    @server.tool
    async def note() -> str:
        called.append("note")
        return ""

    async with served(server) as site:
        session, _ = await Web(site).initialize(NEWEST)
        message = modern("tools/call", {"name": "note"})
        plain = request("tools/call", {"name": "note"})
        posts = [
            (modern_headers(message), json.dumps(message).encode()),
            (legacy_headers(NEWEST, session), json.dumps(plain).encode()),
        ]
        connections = [await site.connect() for _ in posts]
        for connection, (headers, body) in zip(connections, posts, strict=True):
            connection.request("POST", "/mcp", headers | {"Content-Length": str(len(body))})
        await until(lambda: len(site.app._bodies.reading) == 2)
        site.app.life.draining = True
        for connection, (_, body) in zip(connections, posts, strict=True):
            connection.send(body)
            found = await connection.response()
            assert (found.status, found.headers["retry-after"]) == (503, "1")
        site.app.life.draining = False
        assert not called


def test_sigint_ends_soon_with_130(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0") as served:
            connection = await served.connect()
            message = modern("tools/call", {"name": "nap", "arguments": {"seconds": 60}})
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
            await Web(served).modern("tools/list")  # type: ignore[arg-type]
            served.process.send_signal(signal.SIGINT)
            assert b"shutting down" in (await connection.response()).body
            assert await served.ended(5) == 130
            assert "Traceback" not in served.said

    scenario()


def test_a_handler_that_does_not_give_in_holds_nothing_up(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0") as served:
            connection = await served.connect()
            message = modern("tools/call", {"name": "stubborn"})
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
            await Web(served).modern("tools/list")  # type: ignore[arg-type]
            served.process.send_signal(signal.SIGINT)
            assert await served.ended(6) == 130

    scenario()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_does_not_wait_for_the_threads_of_the_author(tmp_path: Path, workers: str) -> None:
    @run
    async def scenario() -> None:
        async with stuck(tmp_path, workers) as served:
            connection = await ask_for(served, "in_a_thread")
            await served.says("blocking")
            served.process.send_signal(signal.SIGTERM)
            assert b"shutting down" in (await connection.response()).body
            assert await served.ended(10) == 0
            assert "Traceback" not in served.said

    scenario()


def test_a_task_that_was_left_behind_does_not_spoil_the_end(tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        async with stuck(tmp_path, "1") as served:
            connection = await ask_for(served, "leave_a_task")
            assert b"left" in (await connection.response()).body
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended(10) == 0

    scenario()


@pytest.mark.parametrize(
    ("tool", "workers"), [("in_the_loop", "1"), ("in_the_loop", "2"), ("in_foreign_code", "2")]
)
def test_sigterm_ends_a_process_whose_loop_is_blocked(tmp_path: Path, tool: str, workers: str) -> None:
    @run
    async def scenario() -> None:
        async with stuck(tmp_path, workers) as served:
            await ask_for(served, tool)
            await served.says("blocking")
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended(10) == 128 + signal.SIGTERM

    scenario()


# --- workers --------------------------------------------------------------------------------------------------


def test_four_workers_serve_both_eras_while_one_is_killed(slow: str) -> None:
    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--workers", "4") as served:
            web = Web(served)  # type: ignore[arg-type]
            session, _ = await web.initialize(NEWEST)
            pids: set[str] = set()
            for number in range(200):
                if number % 10 == 0:
                    assert await ask_until_complete(web, "ask") == "yes"
                pids.add(text(await web.call("pid")))
                found = await web.legacy(NEWEST, session, "tools/call", {"name": "pid"})
                assert found.status == 200
                pids.add(text(found.message["result"]))
                if number == 100:
                    victim = int(sorted(pids)[0])
                    os.kill(victim, signal.SIGKILL)
                    # Connections the kernel had already given to the dead worker are lost with it.
                    while Path(f"/proc/{victim}/fd").exists() and _alive(victim):  # noqa: ASYNC110, ASYNC240
                        await asyncio.sleep(0.01)
            assert len(pids) >= 3
            question = await web.legacy(NEWEST, session, "tools/call", {"name": "ask"})
            assert question.message["result"]["isError"] is True
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204
            for _ in range(20):
                assert (await web.legacy(NEWEST, session, "ping")).status == 404
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0
            assert "ERROR" not in served.said

    scenario()


def test_workers_that_die_of_a_signal_at_start_are_given_up(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    ended = supervise(
        f"""
def work(seat):
    with open({str(starts)!r}, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGSEGV)
"""
    )
    assert ended.returncode == 1
    assert "do not start" in ended.stderr
    assert len(starts.read_text()) in (3, 4)  # two seats, two more attempts, and the last may be told to end


def test_a_worker_killed_after_its_start_is_replaced_without_a_pause(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    ended = supervise(
        f"""
workers.STARTING, workers.PAUSE = 0.05, 600.0
parent = os.getpid()
def work(seat):
    if seat:
        signal.pause()
    if os.path.exists({str(mark)!r}):
        os.kill(parent, signal.SIGTERM)
        signal.pause()
    open({str(mark)!r}, "w").close()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert ended.returncode == 0


def supervise(work: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import os, signal, sys, time\n"
        "from dovetail.transports.http import workers\n"
        f"{work}\n"
        "sys.exit(workers.Supervisor(2, work, patience=5.0).run())\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def _alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in ("Z", "X")


def test_workers_that_cannot_start_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        "from contextlib import asynccontextmanager\n"
        "from dovetail import Server\n"
        "@asynccontextmanager\n"
        "async def lifespan(server):\n"
        "    raise RuntimeError('no database')\n"
        "    yield\n"
        "server = Server('broken', lifespan=lifespan)\n"
    )
    command = [*CLI, "run", str(path), "--http", "--port", "0", "--workers", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "do not start" in ended.stderr
    ended = subprocess.run(command[:-2], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode not in (0, -signal.SIGTERM)
    assert "no database" in ended.stderr


def test_the_board_tells_every_worker_of_the_end_of_a_session() -> None:
    board = Board(2, size=4)
    other = Board.__new__(Board)
    other.__dict__.update(board.__dict__)
    other.take_seat(1)
    one, two = Ended(board), Ended(other)
    for number in range(10):  # more than the ring holds
        one.add(f"id-{number}")
        assert two.news()
        assert f"id-{number}" in two
    assert two.news() == []
    two.add("mine")
    one.news()
    assert "mine" in one
    assert "other" not in one


# --- addresses ------------------------------------------------------------------------------------------------


def test_a_unix_socket_and_one_left_behind(slow: str, tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        path = str(tmp_path / "mcp.sock")
        stale = serving.listen(uds=path)
        stale.close()
        async with child(slow, "--uds", path) as served:
            assert text(await Web(served).call("pid")) == str(served.process.pid)  # type: ignore[arg-type]
            with pytest.raises(DovetailError, match="cannot serve on"):
                serving.listen(uds=path)
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0
        assert not Path(path).exists()  # noqa: ASYNC240

    scenario()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls(slow: str, tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )

    @run
    async def scenario() -> None:
        async with child(slow, "--port", "0", "--certfile", certificate, "--keyfile", key) as served:
            assert "https://" in served.said
            context = ssl.create_default_context(cafile=certificate)
            connection = await served.connect(ssl=context)
            message = modern("tools/call", {"name": "pid"})
            found = await connection.ask(
                "POST", "/mcp", modern_headers(message), json.dumps(message).encode()
            )
            assert text(found.message["result"]) == str(served.process.pid)
            served.process.send_signal(signal.SIGTERM)
            assert await served.ended() == 0

    scenario()


def test_beyond_loopback_needs_a_word() -> None:
    for workers in (1, 2):
        with pytest.raises(DovetailError, match="allow_remote"):
            build().run("http", host="0.0.0.0", port=0, workers=workers)
    serving.check({"allow_remote": True}, host="0.0.0.0")
    serving.check({"principal": lambda scope: "ada"}, host="0.0.0.0")
    serving.check({}, host="::1")
    with pytest.raises(DovetailError, match="no option 'prot'"):
        build().run("http", prot=1)
    ended = subprocess.run(
        [*CLI, "run", FILE, "--http", "--host", "0.0.0.0", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert "--allow-remote" in ended.stderr


def test_an_address_in_use_is_explained() -> None:
    listener = serving.listen("127.0.0.1", 0)
    try:
        with pytest.raises(DovetailError, match="cannot serve on"):
            build().run("http", port=listener.getsockname()[1])
    finally:
        listener.close()


def test_without_uvicorn_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from dovetail import Server\n"
        "try:\n    Server('x').run('http', port=0)\n"
        "except Exception as error:\n    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert "pip install 'dovetail[http]'" in ended.stdout
